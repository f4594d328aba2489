#!/usr/bin/env bash
# Runs what is deployed, in containers, and sells in it while things break:
#
#   run.sh [--if-possible] [plain] [scale]      without a name: both
#
#   OPT_LEVEL   how far the image is optimised where a stand-in compiles it (default 3; 0 builds fastest)
#
# Without Docker it takes podman, and without a registry stand-ins for the images (../README.md says what those
# cannot show). Removes what it started, also when it fails; only base images and the compiler's cache stay
# (`make clean`). Exit 0: all held. `--if-possible`: also where no containers can run, which it says.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=deploy/containers
mkdir -p "${CARGO_TARGET_DIR:-target}/containers"
home=$(cd "${CARGO_TARGET_DIR:-target}/containers" && pwd)
# Nothing of the shell's may reach the stack.
unset DATABASE_URL REDIS_URL "${!SECKILL_@}" "${!POSTGRES_@}" "${!PG@}" "${!COMPOSE_@}"

say() { printf 'containers: %s\n' "$*"; }
failure='a command failed'
die() {
    failure=$*
    exit 1
}

if_possible=false parts=()
for word in "$@"; do
    case $word in
    --if-possible) if_possible=true ;;
    plain | scale) parts+=("$word") ;;
    *)
        say "'$word' is neither plain nor scale" >&2
        exit 2
        ;;
    esac
done
[ ${#parts[@]} -gt 0 ] || parts=(plain scale)

within() { # within SECONDS WHAT COMMAND...: waits until the command succeeds
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || die "not within its time: $what"
        sleep 0.3
    done
}

begun=$SECONDS
done_with() { # done_with WHAT: one line, and how long it took since the last one
    printf '  ok  %-70s %4d s\n' "$1" $((SECONDS - begun))
    begun=$SECONDS
}

# shellcheck source=deploy/containers/engine.sh
. "$here/engine.sh"
# shellcheck source=deploy/containers/compose.sh
. "$here/compose.sh"

reason=$(why_not)
if [ -n "$reason" ]; then
    say "left out: $reason."
    $if_possible && exit 0 || exit 2
fi
# Images are large, and a full disk stops everybody's work.
mkdir -p "$home"
free_gb=$(($(df -Pk "$home" | awk 'NR == 2 { print $4 }') / 1048576))
if [ "$free_gb" -lt "${NEEDS_GB:-10}" ]; then
    say "left out: $home has $free_gb GB free, and ${NEEDS_GB:-10} are wanted (NEEDS_GB)."
    $if_possible && exit 0 || exit 2
fi
# Ports, networks and the engine's socket are the machine's.
exec 9>/tmp/seckill-containers.lock
flock --nonblock 9 || {
    say 'another run is under way' >&2
    exit 2
}

clean_up() {
    local status=$?
    trap - EXIT INT TERM
    [ "$status" = 0 ] || [ "$status" = 130 ] || tell_what_was >&2 || true
    [ -z "$running" ] || kill "$running" 2>/dev/null || true
    [ -z "$crowd" ] || kill "$crowd" 2>/dev/null || true
    take_down || true
    stop_engine || true
    [ "$status" = 0 ] || say "FAILED: $failure" >&2
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start_engine
done_with "the engine is $engine"
make_images
for part in "${parts[@]}"; do
    say "$part"
    "try_$part"
done
say "all held in $SECONDS s."
