#!/usr/bin/env bash
# Do k6 and JMeter find the server good, and would they notice if it were not?
#
#   make loadtest                         builds, installs what is missing, then comes here
#   STRATEGY=locked make loadtest
#
#   STRATEGY    what sells, see `seckill serve --help` (default: the server's own)
#   USERS       buyers of a rush (default 1000; at a rung half as many)
#   RATE        purchases a second for capacity (default 200, for 5 s)
#   REPORTS     where the reports go (default target/loadtest)
#   TIME_LIMIT  seconds after which the whole is given up (default 480)
#
# First a private server, thrown away afterwards: rush, impatient users, capacity and payments, and an
# audit of its books. The tools must find it good, and must fail when they are told to expect one order
# more than there are vouchers. The same in the dialect of hm-dianping, at `seckill play`. Then
# `seckill lab serve`: the tools must fail at r01, which sells what does not exist, and at r05a, which
# sells twice to one user, and say so; at the rungs that mend this they must pass. `DATABASE_URL` and
# `REDIS_URL` are ignored. Traffic goes to 127.0.0.1.
#
# Exit 0: all came out as it should; 1: something did not; 2: could not run.
set -euo pipefail
export LC_ALL=C # decimal points, and awk that reads them
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."

target=${CARGO_TARGET_DIR:-target}
seckill=${SECKILL:-$target/release/seckill}
strategy=${STRATEGY:-}
users=${USERS:-1000}
rate=${RATE:-200}
reports=${REPORTS:-$target/loadtest}
time_limit=${TIME_LIMIT:-480}
case_limit=60

# Nothing may reach somebody's real servers, nor be bent by a setting of the shell it was started
# from: each case is told what it needs.
unset DATABASE_URL REDIS_URL "${!SECKILL_@}" "${!PG@}" "${!K6_@}"
unset BASE_URL DIALECT VOUCHER TOKENS USERS PAYERS PATIENCE_S EXPECT_PAID ATTEMPTS CLICKS RUNG STOCK RATE RATES STEP DURATION VUS DROPPED \
    P99_MS LEAD_S EXPECT_ORDERS REPORT TIME_LIMIT STRATEGY
export K6_NO_USAGE_REPORT=true

say() { printf 'loadtest: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 2
}

for number in "$users" "$rate" "$time_limit"; do
    [[ $number =~ ^[1-9][0-9]{0,5}$ ]] || die "'$number' is not a whole number above zero."
done
((users >= 200)) || die 'USERS must be 200 or more: a stock of 100 is to be too small for half of them.'
[[ -x $seckill ]] || die 'not built: run make loadtest, which builds and then comes here.'
k6=$(command -v k6 || echo "$target/loadtest/k6/bin/k6")
[[ -x $k6 ]] || die 'k6 is missing: run scripts/setup.sh loadtest.'
[[ $k6 == /* ]] || k6=$PWD/$k6

# A thousand connections need that many descriptors; the usual soft limit is 1,024.
hard_limit=$(ulimit -Hn)
[[ $hard_limit == unlimited || $hard_limit -gt 65536 ]] && hard_limit=65536
ulimit -Sn "$hard_limit" || true

# --- Started here, stopped here --------------------------------------------------------------

# The mode lets PostgreSQL through, which gives up root and becomes somebody else.
work=$(mktemp -d "${TMPDIR:-/tmp}/seckill-loadtest.XXXXXX")
chmod 711 "$work"
data=$work/data
mkdir -p "$reports"
reports=$(cd "$reports" && pwd)
server='' child=''

stop() { # stop PID: politely, because it has to stop its own children; then firmly
    [[ -n $1 ]] || return 0
    kill -TERM "$1" 2>/dev/null || return 0
    for ((tenths = 0; tenths < 300; tenths++)); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}
# shellcheck disable=SC2317 # the trap calls it
clean_up() {
    local status=$?
    trap - EXIT
    trap '' INT TERM HUP
    stop "$child"
    stop "$server"
    if ((status == 2)) && [[ -s $work/server.err ]]; then
        say 'the last words of the server:'
        tail -n 10 "$work/server.err" >&2
    fi
    rm -rf "$work"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Programs run in the background and are waited for, so that a signal is answered at once: bash
# handles none while it waits for a program in the foreground.
run() { # run OUTPUT PROGRAM...: sets `status`
    local output=$1 left=$((time_limit - SECONDS))
    shift
    ((left > 0)) || die "not done after $time_limit s: the machine is too busy, or set TIME_LIMIT."
    timeout --kill-after 20 "$((left < case_limit ? left : case_limit))" "$@" >"$output" 2>&1 </dev/null &
    child=$!
    status=0
    wait "$child" || status=$?
    child=''
}
must() { # must PROGRAM...: what has to succeed; its output is in $work/out
    run "$work/out" "$@"
    ((status == 0)) || die "$(basename "$1") failed with status $status: $(tail -n 3 "$work/out")"
}

serve() { # serve ARGUMENTS OF seckill...: sets `server` and `url`
    : >"$work/server.out" # what the one before said must not be read again
    "$seckill" "$@" --listen 127.0.0.1:0 >"$work/server.out" 2>"$work/server.err" </dev/null &
    server=$!
    for ((tenths = 0; tenths < 600; tenths++)); do
        url=$(sed -n 's/^listening on \(http:[^ ]*\).*/\1/p' "$work/server.out" 2>/dev/null | head -n 1)
        [[ -z $url ]] || return 0
        kill -0 "$server" 2>/dev/null || die "'seckill $1' ended before it listened."
        sleep 0.1
    done
    die "'seckill $1' did not listen within a minute."
}
stop_server() {
    stop "$server"
    server=''
}

# --- The cases -------------------------------------------------------------------------------

rows=() wrong=0

# prove TOOL TEST WHERE WANTED PROGRAM...: WANTED is `holds`, or what the run has to fail on, as the
# verdict names it with its figure: a test that fails for another reason proves nothing.
prove() {
    local tool=$1 test=$2 where=$3 wanted=$4 began=$SECONDS verdict good=false
    shift 4
    local name=$tool-$test-${where//[^a-zA-Z0-9]/-}
    say "$tool $test, $where"
    # A crowd breaks what is broken by luck, however good the luck is: up to three crowds.
    for ((crowds = 1; crowds <= 3; crowds++)); do
        run "$reports/$name.txt" env REPORT="$reports/$name$([[ $tool == k6 ]] && echo .html)" "$@"
        verdict=$(grep -oE '(HOLDS|FAILED): .*' "$reports/$name.txt" | tail -n 1) || true
        [[ $wanted != holds && $status -eq 0 ]] || break
    done
    ((crowds == 1)) || verdict+=" (crowd $((crowds > 3 ? 3 : crowds)) of 3)"
    if [[ $wanted == holds ]]; then
        if ((status == 0)) && [[ $verdict == HOLDS* || $tool == seckill ]]; then good=true; fi
        [[ $tool != seckill ]] || verdict=$( ((status == 0)) && echo 'every voucher holds' || echo BROKEN)
    elif ((status == tool_fails)) && [[ $verdict =~ FAILED.*[[:space:]]$wanted ]]; then
        good=true
    fi
    [[ -n $verdict ]] || verdict="status $status: $(grep . "$reports/$name.txt" | tail -n 1 | cut -c 1-150)"
    $good || wrong=$((wrong + 1))
    rows+=("$($good && echo ok || echo WRONG)|$tool|$test|$where|$([[ $wanted == holds ]] && echo hold || echo fail)|$status|$((SECONDS - began))|$verdict")
}
with_k6() { # with_k6 TEST WHERE WANTED NAME=VALUE...
    local test=$1 where=$2 wanted=$3 tool_fails=99
    shift 3
    prove k6 "$test" "$where" "$wanted" BASE_URL="$url" "$@" "$k6" run --quiet --no-color --address '' "$here/k6/$test.js"
}
with_jmeter() {
    local test=$1 where=$2 wanted=$3 tool_fails=1
    shift 3
    prove jmeter "$test" "$where" "$wanted" BASE_URL="$url" "$@" "$here/jmeter/run.sh" "$test"
}
voucher() { # voucher STOCK [OPTIONS]: sets `id`
    # Standard error names the stores.
    id=$("$seckill" voucher add --data-dir "$data" --title 'load test' --stock "$@" 2>"$work/out") ||
        die "seckill voucher add failed: $(tail -n 3 "$work/out")"
}

begun=$(date +%s)
say "starting a server${strategy:+ (strategy $strategy)} with a private PostgreSQL and Redis"
serve serve --data-dir "$data" ${strategy:+--strategy "$strategy"}
capacity=$((rate * 5))
tokens=$work/tokens.csv
must "$seckill" tokens --data-dir "$data" --users "$((users > capacity + 10 ? users : capacity + 10))" --out "$tokens"
common=(TOKENS="$tokens" USERS="$users")
few=(TOKENS="$tokens" USERS=10 CLICKS=50)

voucher 100
with_k6 rush 'the server' holds "${common[@]}" VOUCHER="$id" EXPECT_ORDERS=100
voucher 100
with_k6 rush 'told to expect 101' 'ordered 100[,.]' "${common[@]}" VOUCHER="$id" EXPECT_ORDERS=101
voucher 100
with_k6 double_click 'the server' holds "${few[@]}" VOUCHER="$id"
voucher "$capacity"
with_k6 capacity 'the server' holds TOKENS="$tokens" VOUCHER="$id" RATE="$rate" DURATION=5
priced=(50 --price 8000 --pay-within 5s)
voucher "${priced[@]}"
with_k6 pay 'the server' holds TOKENS="$tokens" PAYERS=50 VOUCHER="$id"
voucher "${priced[@]}"
with_k6 pay 'told to expect 51' 'paid 50[,.]' TOKENS="$tokens" PAYERS=50 VOUCHER="$id" EXPECT_PAID=51
voucher 100
with_jmeter rush 'the server' holds "${common[@]}" VOUCHER="$id" EXPECT_ORDERS=100
voucher 100
with_jmeter rush 'told to expect 101' 'ordered 100[,.]' "${common[@]}" VOUCHER="$id" EXPECT_ORDERS=101
voucher 100
with_jmeter double_click 'the server' holds "${few[@]}" VOUCHER="$id"
prove seckill audit 'the server' holds "$seckill" audit --data-dir "$data"
stop_server

say 'starting the demonstration, which speaks the HTTP of hm-dianping, too'
data=$work/play
serve play --data-dir "$data" ${strategy:+--strategy "$strategy"}
must "$seckill" tokens --data-dir "$data" --users "$users" --format hmdp --out "$work/tokens.txt"
hmdp=(DIALECT=hmdp TOKENS="$work/tokens.txt")
voucher 100
with_k6 rush 'hmdp' holds "${hmdp[@]}" USERS="$users" VOUCHER="$id" EXPECT_ORDERS=100
voucher 100
with_k6 double_click 'hmdp' holds "${hmdp[@]}" USERS=10 CLICKS=50 VOUCHER="$id"
voucher 100
with_jmeter rush 'hmdp' holds "${hmdp[@]}" USERS="$users" VOUCHER="$id" EXPECT_ORDERS=100
voucher 100
with_jmeter rush 'hmdp, expecting 101' 'ordered 100[,.]' "${hmdp[@]}" USERS="$users" VOUCHER="$id" EXPECT_ORDERS=101
voucher 100
with_jmeter double_click 'hmdp' holds "${hmdp[@]}" USERS=10 CLICKS=50 VOUCHER="$id"
prove seckill audit 'hmdp' holds "$seckill" audit --data-dir "$data"
stop_server

say 'starting the lab'
serve lab serve
crowd=(USERS="$((users / 2))" STOCK=100)
with_k6 lab 'r01 oversells' 'audit_oversold [1-9]' "${crowd[@]}" RUNG=r01
with_k6 lab 'r04 does not' holds "${crowd[@]}" RUNG=r04
with_k6 lab 'r05a sells twice' 'audit_duplicates [1-9]' USERS=20 CLICKS=20 STOCK=1000 RUNG=r05a
with_k6 lab 'r18a does not' holds USERS=20 CLICKS=20 STOCK=1000 RUNG=r18a
with_jmeter rush 'r01 oversells' 'audit_oversold [1-9]' "${crowd[@]}" RUNG=r01
with_jmeter rush 'r04 does not' holds "${crowd[@]}" RUNG=r04
with_jmeter double_click 'r05a sells twice' 'audit_duplicates [1-9]' USERS=10 CLICKS=50 STOCK=1000 RUNG=r05a
with_jmeter double_click 'r18a does not' holds USERS=10 CLICKS=50 STOCK=1000 RUNG=r18a
stop_server

# --- The end ---------------------------------------------------------------------------------

printf '\n%-6s %-8s %-13s %-19s %-6s %6s %5s  %s\n' '' TOOL TEST WHERE MUST STATUS S VERDICT
for row in "${rows[@]}"; do
    IFS='|' read -r good tool test where must status seconds verdict <<<"$row"
    printf '%-6s %-8s %-13s %-19s %-6s %6s %5s  %s\n' "$good" "$tool" "$test" "$where" "$must" "$status" "$seconds" "$verdict"
done
printf '\nStrategy %s; %s cases in %s s. Reports (pages of k6, samples of JMeter, every output):\n  %s\n' \
    "${strategy:-of the server}" "${#rows[@]}" "$(($(date +%s) - begun))" "$reports"
if ((wrong > 0)); then
    printf '\nWRONG: %s of them came out otherwise than they should.\n' "$wrong"
    exit 1
fi
printf '\nAS IT SHOULD BE: both tools find the server good, and both notice when something is not.\n'
