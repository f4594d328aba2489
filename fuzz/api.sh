#!/usr/bin/env bash
# Does the API do what its description says? schemathesis reads /api/openapi.json, makes requests
# that keep to it and requests that do not, and holds every answer against it.
#
#   make fuzz-api                  builds, installs what is missing, then comes here
#   SEED=17 make fuzz-api          the requests of an earlier run again, as far as its time went
#
#   SECONDS_EACH  how long requests are made with each token (default 90)
#   CASES         how many requests there must be at least (default 2000)
#   REPORTS       where the outputs go (default target/fuzz-api)
#
# A private server is started and thrown away; `DATABASE_URL` and `REDIS_URL` are ignored. Traffic
# goes to 127.0.0.1.
#
# Exit 0: nothing was found; 1: something was, or there were too few requests; 2: could not run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."

target=${CARGO_TARGET_DIR:-target}
target=$(mkdir -p "$target" && cd "$target" && pwd)
seckill=${SECKILL:-$target/release/seckill}
seconds_each=${SECONDS_EACH:-90}
cases=${CASES:-2000}
seed=${SEED:-$((RANDOM * 32768 + RANDOM + 1))}
reports=${REPORTS:-$target/fuzz-api}
admin_phone=13800138000

# Nothing may reach somebody's real servers, nor be bent by a setting of the shell.
unset DATABASE_URL REDIS_URL RUST_LOG "${!SECKILL_@}" "${!PG@}" "${!SCHEMATHESIS_@}"

say() { printf 'fuzz-api: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 2
}
for number in "$seconds_each" "$cases" "$seed"; do
    [[ $number =~ ^[1-9][0-9]{0,9}$ ]] || die "'$number' is not a whole number above zero."
done
[[ -x $seckill ]] || die 'not built: run make fuzz-api, which builds and then comes here.'
schemathesis=$target/fuzz-api/schemathesis/bin/schemathesis
[[ -x $schemathesis ]] || die 'schemathesis is missing: run scripts/setup.sh fuzz-api.'

# --- Started here, stopped here --------------------------------------------------------------

# The mode lets PostgreSQL through, which gives up root and becomes somebody else.
work=$(mktemp -d "${TMPDIR:-/tmp}/seckill-fuzz.XXXXXX")
chmod 711 "$work"
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

# --- A server, and tokens --------------------------------------------------------------------

data=$work/data
"$seckill" serve --listen 127.0.0.1:0 --data-dir "$data" --admin-phones "$admin_phone" \
    --trusted-proxies 127.0.0.1/32 >"$work/server.out" 2>"$work/server.err" </dev/null &
server=$!
url=''
for ((tenths = 0; tenths < 600; tenths++)); do
    url=$(sed -n 's/^listening on \(http:[^ ]*\).*/\1/p' "$work/server.out" | head -n 1)
    [[ -z $url ]] || break
    kill -0 "$server" 2>/dev/null || die 'the server ended before it listened.'
    sleep 0.1
done
[[ -n $url ]] || die 'the server did not listen within a minute.'

post() { # post PATH JSON
    curl --silent --show-error --fail --max-time 10 "$url$1" -H 'content-type: application/json' -d "$2"
}
post /api/login-codes "{\"phone\":\"$admin_phone\"}" || die 'no login code was sent.'
code=$(sed -n "s/.*login code.*$admin_phone.* code=\"\([0-9]*\)\".*/\1/p" "$work/server.err" | tail -n 1)
admin=$(post /api/sessions "{\"phone\":\"$admin_phone\",\"code\":\"$code\"}" |
    sed -n 's/.*"token":"\([^"]*\)".*/\1/p') || true
[[ -n $admin ]] || die 'the administrator could not log in.'
"$seckill" tokens --data-dir "$data" --users 1 --first 1000 --out "$work/tokens.csv" >/dev/null 2>&1 ||
    die 'no token was made.'
user=$(tail -n 1 "$work/tokens.csv" | cut -d , -f 2)
voucher() { # voucher ARGUMENTS OF voucher add...
    "$seckill" voucher add --data-dir "$data" --title fuzz "$@" >/dev/null || die 'no voucher was added.'
}
voucher --stock 1000000
voucher --stock 0
voucher --stock 10 --begin 2020-01-01T00:00:00Z --end 2020-01-02T00:00:00Z
voucher --stock 10 --begin 2999-01-01T00:00:00Z

# --- The requests ----------------------------------------------------------------------------

made=0 found=0
fuzz() { # fuzz WHOSE TOKEN
    local output=$reports/$1.txt status=0 count
    say "for $seconds_each s with the token of $1, seed $seed"
    # In a directory of its own, because it keeps what it found there.
    (cd "$reports" && SCHEMATHESIS_HOOKS=hooks PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 \
        FUZZ_SERVER_LOG=$work/server.err FUZZ_TOKEN=$2 \
        exec timeout --kill-after 20 "$((seconds_each + 180))" "$schemathesis" \
        --config-file "$here/schemathesis.toml" run "$url/api/openapi.json" \
        --exclude-path-regex '/events$' \
        --checks all --max-time "$seconds_each" --seed "$seed" \
        --continue-on-failure --generation-database none --no-color) >"$output" 2>&1 </dev/null &
    child=$!
    wait "$child" || status=$?
    child=''
    count=$(sed -n 's/^ *\([0-9][0-9]*\) generated.*/\1/p' "$output" | tail -n 1)
    made=$((made + ${count:-0}))
    case $status in
    0) ;;
    1)
        found=$((found + 1))
        cat "$output"
        ;;
    *)
        tail -n 20 "$output" >&2
        die "schemathesis ended with status $status."
        ;;
    esac
    kill -0 "$server" 2>/dev/null || die 'the server did not survive.'
}
fuzz user "$user"
fuzz administrator "$admin"

# What the requests reached, by the server's own count.
printf '\nanswers by route and status\n'
curl --silent --max-time 10 "$url/metrics" |
    sed -n 's/^seckill_http_request_seconds_count{route="\([^"]*\)",status="\([^"]*\)"} \(.*\)/\3 \2 \1/p' |
    sort -k 3,3 -k 2,2 | awk '{ printf "%8d  %s  %s\n", $1, $2, $3 }'
printf '\n%s requests, seed %s; outputs:\n  %s\n' "$made" "$seed" "$reports"
if ((found > 0)); then
    printf 'FOUND: the API does not do what its description says, see above.\n'
    exit 1
fi
if ((made < cases)); then
    printf 'TOO FEW: fewer than %s requests say too little; set SECONDS_EACH.\n' "$cases"
    exit 1
fi
printf 'CLEAN: every answer is as the description says.\n'
