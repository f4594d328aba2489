#!/usr/bin/env bash
# Runs a command whose temporary files lie in memory, where there is room for them: in_memory.sh COMMAND...
# Tests make hundreds of databases of a thousand files each. On a disk that costs more of the processors' time
# than what is in the databases. Nothing of them has to last.
set -euo pipefail

ROOM_KIB=$((12 * 1024 * 1024))
memory=/dev/shm

# What is written there is part of the memory.
has_room() {
    local free available
    free=$(df --output=avail "$memory" 2>/dev/null | tail -n 1)
    available=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo 2>/dev/null)
    ((${free:-0} >= ROOM_KIB && ${available:-0} >= ROOM_KIB))
}

# Some systems let nothing be run there, and tests write programs.
runs_programs() {
    printf '#!/bin/sh\n' >"$1/probe" && chmod +x "$1/probe" && "$1/probe"
}

# A browser that was told to end may write for a moment longer. What was run says how it went, not this.
clean_up() {
    for _ in 1 2 3 4 5; do
        rm -rf "$place" 2>/dev/null && return
        sleep 0.2
    done
    echo "in_memory: $place is left" >&2
}

if has_room && place=$(mktemp -d "$memory/seckill-tests-XXXXXX"); then
    trap 'clean_up || true' EXIT
    if runs_programs "$place" 2>/dev/null; then
        # The servers run as another user.
        chmod 1777 "$place"
        export TMPDIR=$place
    fi
fi
"$@"
