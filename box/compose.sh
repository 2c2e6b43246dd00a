#!/bin/sh
# What compose.yaml does besides serving: `prepare` fills and owns volumes and folders (`prepare-network` those of
# compose.network.yaml), `hello` says what is there, `demo` what was seen.
set -eu

# As root with CHOWN and DAC_OVERRIDE: fresh volumes and folders that the engine made belong to root.
prepare() {
    programs
    own 0700 /data /demo/* /runs/claude /runs/codex /runs/pi /logins/claude /logins/codex
    # The volume is the lock of a door: whoever is given it is that box, whatever its user.
    own 0755 /doors/*
    own_workspace
}

# The same for boxes with a network: in place of a door each has a volume with its key, where the house writes its fingerprint.
prepare_network() {
    programs
    own 0700 /data /runs/claude /runs/codex /runs/pi /logins/claude /logins/codex
    for box in claude codex pi; do
        key "/keys/$box"
    done
    own 0755 /keys/*
    own_workspace
}

# Makes a box key, once: 256 bits in hexadecimal digits, for the user of house and boxes alone.
key() {
    [ ! -s "$1/key" ] || return 0
    (umask 077; od -An -v -N32 -tx1 /dev/urandom | tr -d ' \n' > "$1/key.new")
    [ "$(wc -c < "$1/key.new")" = 64 ]
    chown "$owner" "$1/key.new"
    mv -f "$1/key.new" "$1/key"
}

programs() {
    # A box that runs keeps the file it was started from; the new one takes its name.
    cp /opt/boxgate/boxd /boxgate/boxd.new
    chmod 0555 /boxgate/boxd.new
    mv -f /boxgate/boxd.new /boxgate/boxd
    for agent in claude codex pi; do
        ln -sfn boxd "/boxgate/run-$agent"
    done
    chmod 0755 /boxgate
}

# The mode comes first: once a folder is somebody's, only that user may set it. Where BOXGATE_UID is another than before, what
# the first user has in there goes with it, or neither house nor agent could read its own. A box may have made some of that: no
# link is followed, neither in there nor out of it.
own() {
    mode=$1
    shift
    for folder in "$@"; do
        mkdir -p "$folder"
        had=$(stat -c %u "$folder")
        [ "$had" != 0 ] || chmod "$mode" "$folder"
        if [ "$had" = "$BOXGATE_UID" ]; then
            chown "$owner" "$folder"
        else
            chown -R -P -h "$owner" "$folder"
        fi
    done
}

# What the engine passes on may be no number, and a half of the work would be done by then.
numeric() {
    case "$1" in
        *[!0-9]* | "") echo "BOXGATE_UID and BOXGATE_GID must be numbers, as \`id -u\` and \`id -g\` print them; correct .env" >&2; exit 64 ;;
    esac
}

# A workspace that the engine has just made is given to the box. Somebody's own folder stays as it is.
own_workspace() {
    [ "$(stat -c %u /workspace)" != "$BOXGATE_UID" ] || return 0
    if [ "$(stat -c %u /workspace)" = 0 ] && [ -z "$(ls -A /workspace)" ]; then
        chown "$owner" /workspace
        return 0
    fi
    echo "WARNING: the workspace belongs to user $(stat -c %u /workspace), and the box is user $BOXGATE_UID:"
    echo "  it may not be able to write there. Put BOXGATE_UID and BOXGATE_GID of its owner into .env, beside compose.yaml."
}

hello() {
    gateway status --config "$1"
    echo
    echo "The house is open. Next, in another terminal:"
    echo
    echo "    docker compose run --rm claude \"What is in this folder?\""
    echo
    echo "or codex, or pi. A credential that is missing, an API key or a login's token, goes into box/secrets, as docs/compose.md says;"
    echo "nothing has to be restarted."
    echo "Without one: docker compose run --rm gateway login anthropic (or openai). Something wrong? docs/troubleshooting.md"
}

demo() {
    for file in /workspace/*.txt; do
        echo "--- $(basename "$file"), written by the agent into its workspace:"
        cat "$file"
    done
    echo "--- what the ledger tells of the runs:"
    gateway ledger tail --story --config "$1"
    echo "--- that was the whole path, without a key. End it with:"
    echo "    docker compose --profile demo rm --stop --force demo-gateway demo-standin"
}

case "${1:-}" in
    prepare | prepare-network)
        numeric "$BOXGATE_UID"
        numeric "$BOXGATE_GID"
        owner="$BOXGATE_UID:$BOXGATE_GID"
        if [ "$1" = prepare ]; then prepare; else prepare_network; fi
        ;;
    hello) hello "$2" ;;
    demo) demo "$2" ;;
    *) echo "usage: compose.sh prepare | prepare-network | hello CONFIG | demo CONFIG" >&2; exit 64 ;;
esac
