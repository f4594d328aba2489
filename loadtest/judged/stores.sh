#!/usr/bin/env bash
# Starts the stores that the judged backends want, on 127.0.0.1, with all that they keep in one new folder, and stops
# them at Ctrl-C: PostgreSQL on 5435, MariaDB on 3307 (root, password123), Redis on 6379, 6380 and 6381 (password
# 001020), RabbitMQ on 5672 (guest). What is not installed is left out. As root, databases run as their own users.
set -uo pipefail

PATH=$PATH:/usr/sbin:/usr/lib/rabbitmq/bin:$(echo /usr/lib/postgresql/*/bin | tr ' ' ':')
place=$(mktemp -d "${TMPDIR:-/tmp}/judged-stores-XXXXXX")
chmod 777 "$place"
cd "$place" || exit
started=()

finish() {
    for process in "${started[@]}" $(cat "$place/rabbit.pid" 2>/dev/null); do kill "$process" 2>/dev/null; done
    wait
    # It serves all Erlang programs of the machine, and goes only if none is left.
    has epmd && epmd -kill >/dev/null 2>&1
    rm -rf "$place"
}
trap finish EXIT
trap 'exit 0' INT TERM

has() { type -P "$1" >/dev/null || { echo "left out: $1 is not installed" >&2; return 1; }; }
# as USER COMMAND...: puts the command into `run`, for that user if this one is root.
as() {
    run=("${@:2}")
    [[ $(id -u) != 0 ]] || run=(setpriv --reuid "$1" --regid "$1" --init-groups "${run[@]}")
}
start() { "$@" >>"$place/log" 2>&1 & started+=($!); }

if has initdb; then
    as postgres initdb -D "$place/postgres" -A trust -U postgres && "${run[@]}" >>log
    as postgres postgres -D "$place/postgres" -p 5435 -k "$place" -c listen_addresses=127.0.0.1 -c max_connections=300
    start "${run[@]}"
fi
if has mariadbd; then
    as mysql mariadb-install-db --no-defaults --datadir="$place/mariadb" --auth-root-authentication-method=normal
    "${run[@]}" >>log
    echo "alter user root@localhost identified by 'password123';
        create or replace user root@127.0.0.1 identified by 'password123';
        grant all on *.* to root@127.0.0.1 with grant option;" >init.sql
    as mysql mariadbd --no-defaults --datadir="$place/mariadb" --socket="$place/mariadb.sock" --port=3307 \
        --bind-address=127.0.0.1 --max-connections=500 --init-file="$place/init.sql"
    start "${run[@]}"
fi
if has redis-server; then
    for port in 6379 6380 6381; do
        password=(); [[ $port == 6381 ]] && password=(--requirepass 001020)
        start redis-server --port $port --bind 127.0.0.1 --save '' "${password[@]}"
    done
fi
if has rabbitmq-server; then
    export HOME=$place RABBITMQ_NODENAME=judged@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 ERL_EPMD_ADDRESS=127.0.0.1
    export RABBITMQ_MNESIA_BASE=$place/rabbit RABBITMQ_LOG_BASE=$place/rabbit RABBITMQ_PID_FILE=$place/rabbit.pid
    export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'
    start rabbitmq-server
fi
echo "The stores run. Ctrl-C ends them."
wait
