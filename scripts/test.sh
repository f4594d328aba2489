#!/usr/bin/env bash
# Builds all tests and runs the test programs, and the tests of the pages' scripts.
#
#   scripts/test.sh [ARGUMENTS OF cargo test] [-- ARGUMENTS OF THE TEST PROGRAMS]
#
# One that fails stops no other. At the end it says what failed, and what was left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

LIMIT=30m
read -ra cargo <<<"${CARGO:-cargo}"

is_all=$([ $# -gt 0 ] || echo yes)
case ${1:--} in
-*) ;;
*) echo "test.sh: the name of a test stands behind --: make test ARGS='-- $1'" >&2 && exit 2 ;;
esac
of_cargo=() packages=--workspace
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    case $1 in
    -p* | --package*) packages= ;;
    esac
    of_cargo+=("$1")
    shift
done
[ $# -eq 0 ] || shift

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
trap 'trap "" TERM; kill 0; exit 130' INT
trap 'trap "" TERM; kill 0; exit 143' TERM

# --- Building --------------------------------------------------------------------------------

[ -d "${CARGO_TARGET_DIR:-target}/debug/deps" ] ||
    echo 'Compiling all tests, once (3 to 8 minutes on two cores); then they run (10 to 25 minutes).'
# With the tests come the programs that they start.
"${cargo[@]}" test --locked $packages --no-run --message-format=json-render-diagnostics \
    ${of_cargo[@]+"${of_cargo[@]}"} >"$logs/build.json"

value() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" <<<"$artifact"; }

# A line for each: size, package, directory of the package, program. The largest take longest and are run first.
{ grep '"test":true},' "$logs/build.json" || true; } | { grep -v '"executable":null' || true; } | while IFS= read -r artifact; do
    program=$(value executable)
    directory=$(dirname "$(value manifest_path)")
    kind=$(basename "${program%-*}")
    package=$(basename "$directory")
    [ "$directory" != "$PWD" ] || package=seckill
    printf '%d\t%s\t%s\t%s\n' "$(wc -c <"$program")" "$package ${kind//_/-}" "$directory" "$program"
done | sort -rn >"$logs/programs"

# --- Running ---------------------------------------------------------------------------------

# The output of a program that fails is shown.
run() { # run NAME COMMAND...
    local name=$1 log=$logs/$1.log begun=$SECONDS verdict=ok counts
    shift
    if "$@" >"$log" 2>&1 </dev/null; then
        : >"$logs/$name.passed"
    else
        verdict=FAILED
        cat "$log"
    fi
    counts=$(awk '
        /^test result: / { sub(/^[^.]*\. /, ""); passed += $1; failed += $3; ignored += $5 }
        /^# pass [0-9]+$/ { passed += $3 } # of Node.js
        /^# fail [0-9]+$/ { failed += $3 }
        END { printf "%d passed, %d failed, %d ignored", passed, failed, ignored }' "$log")
    printf '%-6s %s: %s, %d s\n' "$verdict" "$name" "$counts" "$((SECONDS - begun))"
}

# What hangs is ended, so that the others are run and its log says which test it was.
bounded=(timeout --foreground --kill-after=10 "$LIMIT")

run_program() { # run_program DIRECTORY PROGRAM ARGUMENTS...
    CARGO_MANIFEST_DIR=$1 "${bounded[@]}" env -C "$@"
}

run_scripts() {
    if ! node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' 2>/dev/null; then
        echo "left out: the tests of the pages' scripts, which need Node.js 18"
        [ -z "${CI:-}" ] || grep -qi ',node,' <<<",${LEFT_OUT_MAY:-},"
        return
    fi
    "${bounded[@]}" node --test --test-reporter=tap web/tests/*.test.js crates/play/web/tests/*.test.js
}

# Two at a time are no sooner done on two cores than one after the other, and each makes the other's tests late.
printf 'Running %d test programs\n' "$(wc -l <"$logs/programs")"
while IFS=$'\t' read -r _ name directory program; do
    # A signal is taken while it runs.
    run "$name" run_program "$directory" "$program" "$@" &
    wait
done <"$logs/programs"
# The examples in the documentation have no program that could be built before.
if [ -n "$is_all" ]; then
    printf '0\tscripts\n0\tdocumentation\n' >>"$logs/programs"
    run scripts run_scripts
    run documentation "${bounded[@]}" "${cargo[@]}" test --locked --workspace --doc --no-fail-fast -- "$@"
fi

# --- What came of it -------------------------------------------------------------------------

sed -n 's/.*\(left out: .*\)/\1/p' "$logs"/*.log | sort -u >&2
failed=0
while IFS=$'\t' read -r _ name _; do
    [ ! -e "$logs/$name.passed" ] || continue
    failed=1
    printf '\n%s failed:\n' "$name"
    # libtest names them once more, right below a line that is only `failures:`.
    awk '/^not ok [0-9]+ - / { sub(/^not ok [0-9]+ -/, "   "); print }
        /^failures:$/ { is_list = 1; next } is_list && /^    / { print; next } { is_list = 0 }' "$logs/$name.log" |
        grep . || echo '    it did not end by itself'
done <"$logs/programs"
[ "$failed" = 0 ] || exit 1
echo 'All tests passed.'
