//! Exit codes: the agent's own, whatever it is; and what the duties of a PID 1 have to do with it.

use std::thread;

use anyhow::{Context, Result, ensure};
use harness::BoxRun;
use harness::fakes::FakeAgents;

use super::{SOON, builder, house, last_facts, launch, probe, reports, shell};

pub(super) fn all_codes() -> Result<()> {
    let house = ["two", "three", "four"]
        .iter()
        .fold(builder(), |builder, id| builder.add_box(id, "unsafe_open_network = true"))
        .start()?;
    let fakes = FakeAgents::shell("for last; do :; done; exit $last")?;
    let of_box = |id: &str, first: usize| -> Result<()> {
        for code in (first..256).step_by(4) {
            let launch = BoxRun::new(&house, id)?.agents(fakes.folder()).prompt(&code.to_string());
            let ran = launch.run(SOON)?.expect_code(i32::try_from(code)?)?;
            ensure!(ran.signal.is_none(), "{code} came as a signal");
        }
        Ok(())
    };
    thread::scope(|scope| {
        let boxes = ["one", "two", "three", "four"].iter().enumerate();
        let running: Vec<_> = boxes.map(|(first, id)| scope.spawn(move || of_box(id, first))).collect();
        running.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow::anyhow!("a thread broke"))?)
    })?;
    let mut told: Vec<u64> =
        reports(&house)?.iter().filter_map(|line| line["facts"]["report"]["exit_code"].as_u64()).collect();
    told.sort_unstable();
    ensure!(told == (0..256).collect::<Vec<u64>>(), "the reports tell other codes: {told:?}");
    Ok(())
}

pub(super) fn signals() -> Result<()> {
    let house = house()?;
    for isolated in [false, true] {
        for number in [1, 2, 3, 6, 9, 15] {
            let ran = shell(&house, isolated, &format!("kill -{number} $$; sleep 20"))?;
            ran.expect_code(128 + number).with_context(|| format!("signal {number}, isolated: {isolated}"))?;
            let report = &last_facts(&house)?["report"];
            ensure!(report["signal"] == number && report["exit_code"] == 128 + number, "{number}: {report}");
            ensure!(report["ended_by"] == "exit" && report["agent_spoke"] == true, "{number}: {report}");
        }
    }
    Ok(())
}

pub(super) fn group_signal() -> Result<()> {
    let house = house()?;
    for isolated in [false, true] {
        for (script, code) in [
            ("kill -TERM 0; sleep 20", 143),
            ("trap '' TERM INT; kill -TERM 0; kill -INT 0; exit 5", 5),
            ("trap '' TERM; kill -TERM $PPID 2>/dev/null; exit 6", 6),
        ] {
            // The last one asks boxd itself to end. Where the kernel has scopes that does not arrive; elsewhere boxd passes
            // it on, and the agent's word counts.
            shell(&house, isolated, script)?.expect_code(code).with_context(|| script.to_owned())?;
            ensure!(last_facts(&house)?["report"]["exit_code"] == code, "{script}");
        }
    }
    Ok(())
}

pub(super) fn no_zombies() -> Result<()> {
    let house = house()?;
    for isolated in [false, true] {
        // Each child's parent is gone before the child is; nobody but boxd can take it in.
        let seen = probe(
            &launch(&house, isolated)?,
            "boxd = os.getppid()
for batch in range(20):
    for _ in range(50):
        child = os.fork()
        if child == 0:
            if os.fork() == 0:
                os.setsid(); time.sleep(0.02)
            os._exit(0)
        os.waitpid(child, 0)
def zombies():
    found = 0
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try: fields = open('/proc/' + pid + '/stat').read().rsplit(')', 1)[1].split()
        except OSError: continue
        found += fields[0] == 'Z' and int(fields[1]) == boxd
    return found
end = time.time() + 5
while True:
    out['zombies'] = zombies()
    if not out['zombies'] or time.time() > end: break
    time.sleep(0.02)",
        )?;
        ensure!(seen["zombies"] == 0, "isolated: {isolated}: {seen}");
        ensure!(last_facts(&house)?["report"]["exit_code"] == 0);
    }
    Ok(())
}
