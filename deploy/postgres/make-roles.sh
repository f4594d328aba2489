#!/usr/bin/env bash
# Makes the roles of docker-compose.yml. PostgreSQL's image runs this once, while the volume is new
# (/docker-entrypoint-initdb.d), as the superuser `postgres`. What they may do, roles.sql says after each
# migration.
#
#   seckill         owns the database: migrations log in as it. No superuser.      OWNER_PASSWORD
#   seckill_server  reads and writes rows: the servers log in as it.               SERVER_PASSWORD
#   seckill_reader  reads. Without a password it logs in over the socket in the container alone.
#   postgres        the superuser, over the socket alone, too (docker compose exec postgres psql -U postgres).
#                   With CITUS=yes it keeps POSTGRES_PASSWORD, because the servers of Citus log in to each other
#                   as it, and as whoever works.
set -euo pipefail

run_sql() {
    psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username=postgres --dbname=seckill \
        --set=owner_password="$OWNER_PASSWORD" --set=server_password="$SERVER_PASSWORD"
}

run_sql <<'SQL'
create role seckill login password :'owner_password';
create role seckill_server login password :'server_password';
create role seckill_reader login;
alter database seckill owner to seckill;
SQL

if [ "${CITUS:-no}" = yes ]; then
    # PGPASSFILE names it. It lies with the data, because the volume is all that outlives the container.
    (umask 077 && printf '*:*:*:%s:%s\n' postgres "$POSTGRES_PASSWORD" seckill "$OWNER_PASSWORD" \
        seckill_server "$SERVER_PASSWORD" >"$PGDATA/pgpass")
else
    echo 'alter role postgres password null' | run_sql
fi
