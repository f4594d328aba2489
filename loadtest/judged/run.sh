#!/usr/bin/env bash
# Judges one public backend: run.sh NAME FOLDER [options of `seckill check`]. Its sources lie in FOLDER, built as
# README.md says; the stores run (stores.sh). NAME.sh starts its nodes, NAME.toml is the file of the check. A name
# with an ending (FlashSale-Py-mq) is another file for the same nodes.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
[[ -n ${1:-} && -d ${2:-} ]] || {
    echo "run.sh NAME FOLDER [options]: NAME is one of" "$(basename -s .toml -a "$here"/*.toml | tr '\n' ' ')" >&2
    exit 2
}
name=$1 folder=$(cd "$2" && pwd)
shift 2
seckill=$(realpath "${SECKILL:-$here/../../target/release/seckill}")
script=$here/$name.sh
[[ -f $script ]] || script=$here/${name%-*}.sh
work=$(mktemp -d "${TMPDIR:-/tmp}/judged-XXXXXX")
nodes=()

finish() {
    for node in "${nodes[@]}"; do kill -- "-$node" 2>/dev/null || true; done
    wait 2>/dev/null || true
    [[ -n ${KEEP:-} ]] && echo "Logs: $work" >&2 || rm -rf "$work"
}
trap finish EXIT

# node PORT COMMAND...: a node, in a process group of its own. Returns when it answers; port 0 has no answers.
node() {
    local port=$1 log="$work/${#nodes[@]}.log"
    shift
    setsid "$@" >"$log" 2>&1 &
    nodes+=($!)
    [[ $port == 0 ]] && return
    for _ in $(seq 600); do
        curl -s -m 60 -o "$work/first" "http://127.0.0.1:$port/" && return
        kill -0 "${nodes[-1]}" 2>/dev/null || break
        sleep 0.2
    done
    echo "It did not come up on port $port:" >&2
    tail -n 20 "$log" >&2
    exit 2
}

POSTGRES=postgresql://postgres@127.0.0.1:5435
sql() { psql -qAt -v ON_ERROR_STOP=1 "$POSTGRES/$1" "${@:2}"; }
mysql() { mariadb --no-defaults -h 127.0.0.1 -P 3307 -u root -ppassword123 -N -B "$@"; }
new_postgres() { sql postgres -c "drop database if exists $1 with (force)" -c "create database $1"; }
new_mysql() { mysql -e "drop database if exists $1; create database $1 character set utf8mb4"; }

cd "$folder"
# shellcheck source=/dev/null
source "$script"
cd "$here"
"$seckill" check "$name.toml" --seed "${SEED:-54}" "${OPTIONS[@]}" "$@"
