#!/bin/sh
# rustc as cargo calls it for the crates of the workspace while `cargo xtask fuzz` builds: what is fuzzed tells libFuzzer
# which of its edges were taken and what was compared. Dependencies stay as they are, so they are built once for all.
case " $* " in
*" --crate-name box_spec "* | *" --crate-name gateway "* | *" --crate-name shim "* | *" --crate-name fuzz "*)
    exec "$@" -C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4 \
        -C llvm-args=-sanitizer-coverage-inline-8bit-counters -C llvm-args=-sanitizer-coverage-pc-table \
        -C llvm-args=-sanitizer-coverage-trace-compares
    ;;
*) exec "$@" ;;
esac
