#!/usr/bin/env bash
# All tests of the workspace: `make test`. Two test programs run at a time, the longest first, because a test waits for
# its servers most of its time. Each program's output is shown whole when it has ended.
#
#   scripts/test.sh [ARGUMENT...]    arguments for each test program: part of a test's name, --nocapture, ...
set -uo pipefail
# A process group for each program: they are ended whole, and Ctrl-C means to them what it means elsewhere.
set -m
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo=${CARGO:-cargo}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
trap 'for job in $(jobs -p); do kill -- "-$job"; done 2>/dev/null; exit 130' INT TERM

# What takes minutes; the rest are seconds each.
longest='seckill-lab seckill seckill-play redisson-lock seckill-tools'

messages=$("$cargo" test --locked --workspace --no-run --message-format=json-render-diagnostics) || exit
programs=$(sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo\.toml".*"test":true.*"executable":"\([^"]*\)".*/\1 \2/p' \
    <<<"$messages")
[ -n "$programs" ] || { echo 'test: cargo named no test program' >&2; exit 1; }

# How long a program waits for its turn: by its crate, and integration tests before the others.
rank() { # rank DIRECTORY PROGRAM
    local name nth=0
    name=$(sed -n 's/^name = "\(.*\)"$/\1/p' "$1/Cargo.toml" | head -n 1)
    for known in $longest; do
        nth=$((nth + 1))
        [ "$known" != "$name" ] || { case $2 in */integration-*) echo "$nth"; return ;; esac; }
    done
    echo 9
}

run() { # run DIRECTORY PROGRAM LOG ARGUMENT...
    local directory=$1 program=$2 log=$3
    shift 3
    (cd "$directory" && CARGO_MANIFEST_DIR=$directory "$program" "$@") >"$log" 2>&1 </dev/null ||
        touch "$logs/failed"
    {
        flock 9
        printf '\n==> %s of %s\n' "$(basename "$program")" "$(basename "$directory")"
        cat "$log"
    } 9>"$logs/shown"
}

while read -r _ directory program; do
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
    [ ! -e "$logs/failed" ] || break
    run "$directory" "$program" "$logs/$(basename "$program")" "$@" &
done < <(while read -r directory program; do
    echo "$(rank "$directory" "$program") $directory $program"
done <<<"$programs" | sort -n)
wait
[ ! -e "$logs/failed" ] || { echo 'test: failed, see above' >&2; exit 1; }
"$cargo" test --locked --workspace --doc -- "$@"
