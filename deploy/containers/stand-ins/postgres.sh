#!/usr/bin/env bash
# What of the official entrypoint is used here: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB and
# /docker-entrypoint-initdb.d, whose files run once, while the server listens on its socket alone.
set -euo pipefail
if [ "$1" != postgres ]; then exec "$@"; fi
user=${POSTGRES_USER:-postgres} database=${POSTGRES_DB:-${POSTGRES_USER:-postgres}}
mkdir -p "$PGDATA" /var/run/postgresql
chown -R postgres "$PGDATA" /var/run/postgresql
export HOME=/var/lib/postgresql
as_postgres() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    password_file=$(as_postgres mktemp)
    printf '%s\n' "$POSTGRES_PASSWORD" >"$password_file"
    as_postgres initdb --pgdata="$PGDATA" --username="$user" --auth-host=scram-sha-256 --auth-local=trust \
        --pwfile="$password_file" --encoding=UTF8 --locale=C.UTF-8 >/dev/null
    rm "$password_file"
    echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
    as_postgres pg_ctl --pgdata="$PGDATA" --wait --options="-c listen_addresses=''" start >/dev/null
    run() { as_postgres psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username="$user" "$@"; }
    [ "$database" = postgres ] || run --dbname=postgres --command="create database \"$database\""
    export POSTGRES_USER=$user POSTGRES_DB=$database
    for file in /docker-entrypoint-initdb.d/*; do
        case $file in
        *.sh) as_postgres bash "$file" ;;
        *.sql) run --dbname="$database" --file="$file" ;;
        esac
    done
    as_postgres pg_ctl --pgdata="$PGDATA" --wait --mode=fast stop >/dev/null
fi
exec setpriv --reuid=postgres --regid=postgres --init-groups "$@" -c "listen_addresses=*"
