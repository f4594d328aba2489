#!/usr/bin/env bash
# How fast is it, against the ceilings of this very machine?
#
#   loadtest/speed.sh [ARGUMENTS OF `seckill serve`...]     e.g. --strategy NAME
#   REPEATS=5 DURATION=5 USERS=300000 WRK_THREADS=2 loadtest/speed.sh
#
#   REPEATS      rounds; every round measures everything once (default 5)
#   DURATION     seconds a measurement (default 5)
#   USERS        tokens to mint; a purchase needs a fresh one (default 60,000 a second)
#   WRK_THREADS  threads of the load generator (default 2)
#   STRICT=1     exit 1 when a target is missed, too
#   SPEED_DIR    where the throw-away servers keep their data (default /var/tmp)
#
# Measured: confirmed orders over HTTP against PostgreSQL's own rate on one hot row (pgbench, one
# statement an order); refusals of a sold-out voucher against an axum handler that does nothing
# else; the server's memory with 1,000 connections. Absolute numbers say as much about the machine
# as about the program, so each is measured in turn with the ceiling it is bound by, round by
# round, and what counts is their ratio. Client, server, PostgreSQL and Redis share the machine's
# processors in all of them.
#
# Everything is private to the run and thrown away: `DATABASE_URL` and `REDIS_URL` are ignored.
# The report goes to stdout, progress to stderr. Exit 0: measured, and the audit holds; 1: it does
# not, or a measurement was void; 2: could not run.
set -euo pipefail
export LC_ALL=C # decimal points, and awk that reads them
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."

repeats=${REPEATS:-5}
duration=${DURATION:-5}
users=${USERS:-$((duration * 60000))}
wrk_threads=${WRK_THREADS:-2}
binaries=${CARGO_TARGET_DIR:-target}/release
seckill=${SECKILL:-$binaries/seckill}
# What the strategy has to reach at 256 connections, as a multiple of PostgreSQL's rate.
strategy=locked
for ((i = 1; i <= $#; i++)); do
    case ${!i} in
        --strategy=*) strategy=${!i#*=} ;;
        --strategy)
            next=$((i + 1))
            strategy=${!next:-}
            ;;
    esac
done
case $strategy in
    group-commit) wanted=7 ;;
    group-commit-unlocked) wanted=11 ;;
    *) wanted=0.9 ;;
esac
bare_handler=${BARE_HANDLER:-$binaries/examples/bare_handler}

# A measurement must never reach somebody's real servers, nor be bent by a setting of the shell
# it was started from.
unset DATABASE_URL REDIS_URL "${!SECKILL_@}" "${!PG@}"

say() { printf 'speed: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 2
}

for number in "$repeats" "$duration" "$users" "$wrk_threads"; do
    [[ $number =~ ^[1-9][0-9]*$ ]] || die "'$number' is not a whole number above zero."
done
for tool in wrk pgbench psql; do
    command -v "$tool" >/dev/null || PATH=$PATH:$(dirname "$(compgen -G "/usr/lib/postgresql/*/bin/$tool" | tail -n 1)")
    command -v "$tool" >/dev/null || die "$tool is missing: run scripts/setup.sh bench."
done
[[ -x $seckill && -x $bare_handler ]] || die 'not built: run make bench, which builds and then comes here.'
[[ -r $here/pgbench/hot_row.sql ]] || die 'loadtest/pgbench/hot_row.sql is missing.'

# 1,000 connections need that many descriptors on both sides; the usual soft limit is 1,024.
hard_limit=$(ulimit -Hn)
[[ $hard_limit == unlimited || $hard_limit -gt 65536 ]] && hard_limit=65536
ulimit -Sn "$hard_limit" || true

# --- Started here, stopped here --------------------------------------------------------------

# Not /tmp by default: where that is in memory, fsync costs nothing and every number is a dream.
# The mode lets PostgreSQL through, which gives up root and becomes somebody else.
work=$(mktemp -d "${SPEED_DIR:-/var/tmp}/seckill-speed.XXXXXX")
chmod 711 "$work"
data=$work/data
server='' bare='' child=''
touch "$work/server.out" "$work/bare.out" # read before the programs may have made them

stop() { # stop PID: politely, because the server has to stop its own children; then firmly
    [[ -n $1 ]] || return 0
    kill -TERM "$1" 2>/dev/null || return 0
    for ((tenths = 0; tenths < 150; tenths++)); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}
clean_up() {
    local status=$?
    trap - EXIT
    trap '' INT TERM
    stop "$child"
    stop "$bare"
    stop "$server"
    if ((status == 2)) && [[ -s $work/server.err ]]; then
        say 'the last words of the server:'
        tail -n 10 "$work/server.err" >&2
    fi
    rm -rf "$work"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Programs run in the background and are waited for, so that a signal is answered at once: bash
# handles none while it waits for a program in the foreground.
start() { # start OUTPUT PROGRAM...
    output=$1
    shift
    program=$(basename "$1")
    "$@" >"$output" 2>&1 </dev/null &
    child=$!
}
finish() {
    local status=0
    wait "$child" || status=$?
    child=''
    if ((status != 0)); then
        tail -n 10 "$output" >&2
        die "$program failed with status $status."
    fi
}
run() {
    start "$@"
    finish
}

await_url() { # await_url PID FILE: sets `url` as soon as the process says where it listens
    for ((tenths = 0; tenths < 600; tenths++)); do
        url=$(sed -n 's/^listening on \(http:[^ ]*\).*/\1/p' "$2" | head -n 1)
        [[ -n $url ]] && return 0
        kill -0 "$1" 2>/dev/null || die "$(basename "$2" .out) ended before it listened."
        sleep 0.1
    done
    die "$(basename "$2" .out) did not listen within a minute."
}

say 'starting the server with a private PostgreSQL and Redis, and the bare handler'
"$seckill" serve --data-dir "$data" --listen 127.0.0.1:0 "$@" >"$work/server.out" 2>"$work/server.err" </dev/null &
server=$!
await_url "$server" "$work/server.out"
server_url=$url

"$bare_handler" 127.0.0.1:0 >"$work/bare.out" 2>"$work/bare.err" </dev/null &
bare=$!
await_url "$bare" "$work/bare.out"
bare_url=$url

from_servers() { sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p" "$data/servers.json" | head -n 1; }
database=$(from_servers database_url)
redis=$(from_servers redis_url)
[[ -n $database ]] || die 'servers.json names no database_url.'
sql() { psql --no-psqlrc --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 --dbname "$database" --command "$1"; }

# pgbench takes its ids from sequences of its own; the service's ids begin far above them. The
# cache keeps their cost out of the ceiling.
sql 'create schema if not exists speed;
     create sequence if not exists speed.pgbench_order_id cache 1000;
     create sequence if not exists speed.pgbench_user_id cache 1000' ||
    die 'could not make the sequences for pgbench.'

say "minting $users tokens"
run "$work/tokens.log" "$seckill" tokens --data-dir "$data" --users "$users" --out "$work/tokens.csv"

# --- The measurements ------------------------------------------------------------------------

results=$work/results # lines of: ROUND KEY VALUE
void=''               # what spoils the report
record() { echo "$round $1 $2" >>"$results"; }
spoil() {
    say "VOID: $1"
    void+="- $1"$'\n'
}

add_voucher() { # add_voucher TITLE STOCK: sets `voucher`
    run "$work/voucher" "$seckill" voucher add --data-dir "$data" --title "$1" --stock "$2"
    voucher=$(tail -n 1 "$work/voucher")
    [[ $voucher =~ ^[0-9]+$ ]] || die "voucher add printed '$voucher' instead of an id."
}

# What one measurement leaves for the checkpointer must not be paid by the next.
settle() { sql checkpoint >/dev/null 2>&1 || true; }

# The last line of buy.lua's report: `RESULT name=value ...`.
field() { awk -v name="$1" '/^RESULT / { for (i = 2; i <= NF; i++) { split($i, pair, "="); if (pair[1] == name) print pair[2] } }' "$work/wrk.log"; }
rate() { awk -v count="$(field "$1")" -v us="$(field duration_us)" 'BEGIN { printf "%.0f", count * 1e6 / us }'; }

watch='' # what to do while an attack lasts
attack() { # attack BASE_URL VOUCHER CONNECTIONS
    local threads=$((wrk_threads < $3 ? wrk_threads : $3))
    start "$work/wrk.log" wrk -t"$threads" -c"$3" -d"${duration}s" --timeout 5s -s "$here/wrk/buy.lua" \
        "$1/api/vouchers/$2/orders" -- "$work/tokens.csv" "$threads"
    [[ -z $watch ]] || "$watch"
    finish
    [[ -n $(field requests) ]] || die 'wrk gave no result.'
    [[ $(field socket_errors) == 0 ]] || spoil "$(field socket_errors) socket errors at $3 connections (round $round)"
}
record_latency() {
    record "$1.p50" "$(field p50_us)"
    record "$1.p99" "$(field p99_us)"
}

measure_pgbench() {
    add_voucher pgbench 100000000
    settle
    # Prepared, which is PostgreSQL's best: a ceiling should be one.
    PGOPTIONS='-c search_path=public,speed' run "$work/pgbench.log" \
        pgbench --no-vacuum --protocol prepared --file "$here/pgbench/hot_row.sql" --define voucher="$voucher" \
        --client 8 --jobs 2 --time "$duration" "$database"
    local tps failed
    tps=$(awk '/^tps = / { printf "%.0f", $3 }' "$work/pgbench.log")
    [[ -n $tps ]] || die 'pgbench gave no result.'
    failed=$(awk '/^number of failed transactions:/ { print $5 }' "$work/pgbench.log")
    [[ ${failed:-0} == 0 ]] || spoil "$failed transactions of pgbench failed (round $round)"
    record pgbench "$tps"
}

# Each time on a voucher of its own: every user of the file is new to it. Then: were these really
# orders, by new buyers?
sell() { # sell CONNECTIONS
    add_voucher "orders at $1 connections" 100000000
    settle
    attack "$server_url" "$voucher" "$1"

    local confirmed stored
    confirmed=$(field below_400)
    [[ $(field repeats) == 0 ]] || spoil "$(field repeats) buyers came a second time at $1 connections (round $round): set USERS higher than $users"
    [[ $(field from_400) == 0 ]] || spoil "$(field from_400) purchases refused at $1 connections (round $round)"
    # Requests under way when wrk stops become orders, too, whose answers nobody has counted.
    stored=$(sql "select count(*) from orders where voucher_id = $voucher")
    ((stored >= confirmed && stored <= confirmed + $1)) ||
        spoil "$confirmed orders confirmed at $1 connections, but $stored in the database (round $round)"
}
measure_orders() {
    sell "$1"
    record "orders$1" "$(rate below_400)"
    record_latency "orders$1"
}

measure_refusals() {
    attack "$server_url" "$sold_out" "$1"
    record "refused$1" "$(rate from_400)"
    record_latency "refused$1"
    [[ $(field below_400) == 0 ]] || spoil "$(field below_400) answers of a sold-out voucher were no refusals (round $round)"
}

measure_bare() {
    attack "$bare_url" "$sold_out" "$1"
    record "bare$1" "$(rate from_400)"
    record_latency "bare$1"
}

# Resident memory in kB. `/proc` where there is one, because `ps` may be missing in a container.
resident_kb() {
    if [[ -r /proc/$server/status ]]; then
        awk '/^VmRSS:/ { print $2 }' "/proc/$server/status"
    else
        ps -o rss= -p "$server" | tr -d ' '
    fi
}
connections() { find "/proc/$server/fd" -lname 'socket:*' 2>/dev/null | wc -l; }

# The highest of several looks while 1,000 connections buy: of all requests the one that needs
# most of the server.
watch_memory() {
    local now
    while kill -0 "$child" 2>/dev/null; do
        now=$(resident_kb)
        peak_kb=$((now > peak_kb ? now : peak_kb))
        now=$(connections)
        peak_connections=$((now > peak_connections ? now : peak_connections))
        sleep 0.2
    done
}
measure_memory() {
    peak_kb=0 peak_connections=0
    watch=watch_memory
    sell 1000
    watch=''
    record memory "$(awk -v kb="$peak_kb" 'BEGIN { printf "%.1f", kb * 1024 / 1e6 }')"
    [[ ! -d /proc/$server/fd ]] || ((peak_connections >= 1000)) ||
        spoil "only $peak_connections connections were open instead of 1,000 (round $round)"
}

# One voucher of a stock of one, and one purchase: sold out. That exactly one of many buyers got it
# also proves that tokens, routes and refusals are what they should be.
round=0
say 'selling out a voucher'
add_voucher 'sold out' 1
sold_out=$voucher
duration_asked=$duration
duration=1
attack "$server_url" "$sold_out" 8
duration=$duration_asked
[[ $(field below_400) == 1 ]] || die "a stock of 1 was sold $(field below_400) times: $(tail -n 2 "$work/server.err")"

# The order turns round from round to round, so that what one measurement does to the next (a warm
# cache, a hot processor, a busy disk) does not always hit the same ones.
forth=(pgbench 'orders 1' 'orders 64' 'orders 256' 'refusals 64' 'bare 64' 'refusals 256' 'bare 256' memory)
back=(memory 'bare 256' 'refusals 256' 'bare 64' 'refusals 64' 'orders 256' 'orders 64' 'orders 1' pgbench)
for ((round = 1; round <= repeats; round++)); do
    ((round % 2)) && plan=("${forth[@]}") || plan=("${back[@]}")
    for measurement in "${plan[@]}"; do
        # shellcheck disable=SC2086 # a name and perhaps its argument
        measure_$measurement
        say "round $round of $repeats: $measurement: $(tail -n 20 "$results" | awk '$2 !~ /\./ { value = $3 } END { print value }')"
    done
done

# --- The report ------------------------------------------------------------------------------

audit=holds
"$seckill" audit --data-dir "$data" >"$work/audit.log" 2>&1 </dev/null || audit='DOES NOT HOLD'

first_line() { "$@" 2>&1 | head -n 1 || true; }
setting() { sql "show $1" 2>/dev/null || echo unknown; }
redis_setting() { # best effort: redis-cli takes a URL for TCP, and a path for a socket
    command -v redis-cli >/dev/null || { echo unknown; return; }
    local target=(-u "$redis") socket=${redis#*unix://}
    [[ $redis != *unix://* ]] || target=(-s "${socket%%\?*}")
    redis-cli "${target[@]}" config get "$1" 2>/dev/null | sed -n 2p | grep . || echo unknown
}
revision=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
[[ -z $(git status --porcelain 2>/dev/null) ]] || revision+=' with local changes'
processor=$(awk -F ': *' '/^model name/ { print $2; exit }' /proc/cpuinfo 2>/dev/null || true)
memory_gb=$(awk '/^MemTotal:/ { printf "%.0f GB", $2 * 1024 / 1e9 }' /proc/meminfo 2>/dev/null || true)
filesystem=$(stat -f -c %T "$data" 2>/dev/null || echo unknown)
[[ $filesystem != tmpfs ]] || spoil 'the data lies in memory (tmpfs), where fsync costs nothing: set SPEED_DIR to a directory on a disk'
[[ $(setting fsync) == on && $(setting synchronous_commit) == on ]] || spoil 'PostgreSQL does not wait for the disk, so its commits are not durable'

cat <<REPORT
# Speed

| | |
| --- | --- |
| revision | $revision |
| machine | ${processor:-unknown processor}, $(getconf _NPROCESSORS_ONLN) processors, ${memory_gb:-unknown memory} |
| system | $(uname -sr), data on $filesystem |
| versions | $(first_line "$seckill" --version); PostgreSQL $(setting server_version); $(first_line redis-server --version | awk '{ print $1, $3 }'); $(first_line wrk -v | awk '{ print $1, $2 }'); $(first_line rustc --version) |
| durability | fsync $(setting fsync), synchronous_commit $(setting synchronous_commit), full_page_writes $(setting full_page_writes), wal_sync_method $(setting wal_sync_method); Redis appendonly $(redis_setting appendonly), appendfsync $(redis_setting appendfsync) |
| method | $repeats rounds, $duration s a measurement, order reversed every other round; client, server, PostgreSQL and Redis on the same processors; serve arguments: ${*:-none} |

REPORT

awk -v repeats="$repeats" -v wanted="$wanted" '
    { value[$1, $2] = $3; if (!($2 in seen)) seen[$2] = 1 }

    # Sorts the values of a key over all rounds into list[1..n].
    function collect(key,    r) {
        n = 0
        for (r = 1; r <= repeats; r++) if ((r, key) in value) list[++n] = value[r, key]
        sort()
    }
    function collect_ratio(above, below,    r) {
        n = 0
        for (r = 1; r <= repeats; r++) if (value[r, below] > 0) list[++n] = value[r, above] / value[r, below]
        sort()
    }
    function sort(    i, j, swap) {
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && list[j - 1] > list[j]; j--) { swap = list[j]; list[j] = list[j - 1]; list[j - 1] = swap }
    }
    function median() { return n == 0 ? 0 : n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2 }
    function median_ms(key) { if (!(key in seen)) return "-"; collect(key); return sprintf("%.2f", median() / 1000) }

    function row(name, key, format,    middle) {
        collect(key); middle = median()
        printf "| %s | " format " | " format "–" format " | %s | %s |\n", name, middle, list[1], list[n], median_ms(key ".p50"), median_ms(key ".p99")
    }
    function verdict(met) { if (!met) missed = 1; return met ? "met" : "MISSED" }
    # The median of the ratios within a round, not the ratio of the medians: both sides of a
    # round met the same machine.
    function ratio(name, above, below, target) {
        collect_ratio(above, below)
        printf "| %s | %.2f | %.2f–%.2f | at least %.1f | %s |\n", name, median(), list[1], list[n], target, verdict(n > 0 && median() >= target)
    }

    END {
        print "| measurement | median | min–max | p50 ms | p99 ms |"
        print "| --- | ---: | ---: | ---: | ---: |"
        row("PostgreSQL, one hot row, 8 clients (orders/s)", "pgbench", "%.0f")
        row("confirmed orders, 1 connection (orders/s)", "orders1", "%.0f")
        row("confirmed orders, 64 connections (orders/s)", "orders64", "%.0f")
        row("confirmed orders, 256 connections (orders/s)", "orders256", "%.0f")
        row("bare handler, 64 connections (answers/s)", "bare64", "%.0f")
        row("sold-out refusals, 64 connections (answers/s)", "refused64", "%.0f")
        row("bare handler, 256 connections (answers/s)", "bare256", "%.0f")
        row("sold-out refusals, 256 connections (answers/s)", "refused256", "%.0f")
        row("server memory, 1,000 connections (MB resident)", "memory", "%.1f")
        print ""
        print "| target | median | min–max over rounds | wanted | |"
        print "| --- | ---: | ---: | --- | --- |"
        # Commits that carry many need many who wait: with fewer connections there is no target but
        # that of single orders.
        ratio("orders, 64 connections / PostgreSQL", "orders64", "pgbench", 0.9)
        ratio("orders, 256 connections / PostgreSQL", "orders256", "pgbench", wanted)
        ratio("refusals / bare handler, 64 connections", "refused64", "bare64", 0.7)
        ratio("refusals / bare handler, 256 connections", "refused256", "bare256", 0.7)
        collect("memory")
        # The worst round: a limit on memory is one for every moment.
        printf "| server memory, 1,000 connections | %.1f MB | %.1f–%.1f MB | below 64 MB | %s |\n", median(), list[1], list[n], verdict(n > 0 && list[n] < 64)
        exit missed
    }' "$results" && missed=0 || missed=1

printf '\nAudit of all vouchers: **%s**\n' "$audit"
if [[ $audit != holds ]]; then
    # shellcheck disable=SC2016 # Markdown
    printf '\n```\n%s\n```\n' "$(tail -n 20 "$work/audit.log")"
    exit 1
fi
if [[ -n $void ]]; then
    printf '\n**Void**, because:\n\n%s' "$void"
    exit 1
fi
[[ ${STRICT:-0} != 1 ]] || exit "$missed"
