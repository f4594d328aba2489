#!/usr/bin/env bash
# Makes the role `seckill`, as which migrations and servers log in: it owns the database, and is no superuser.
# PostgreSQL's image runs this once, while the volume is new (/docker-entrypoint-initdb.d), as the superuser
# `postgres`.
#
#   DATABASE_PASSWORD    of `seckill`
#   POSTGRES_PASSWORD    of the superuser. Without CITUS it is taken away again: then the superuser logs in
#                        over the socket in the container alone (docker compose exec postgres psql -U postgres)
#   CITUS=yes            the servers of Citus log in to each other, as whoever works and as the superuser
set -euo pipefail

psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username=postgres --dbname=seckill \
    --set=password="$DATABASE_PASSWORD" <<'SQL'
create role seckill login password :'password';
alter database seckill owner to seckill;
SQL

if [ "${CITUS:-no}" != yes ]; then
    psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username=postgres --dbname=seckill \
        --command='alter role postgres password null'
else
    # PGPASSFILE names it. It lies with the data, because the volume is all that outlives the container.
    (umask 077 && printf '*:*:*:%s:%s\n' postgres "$POSTGRES_PASSWORD" seckill "$DATABASE_PASSWORD" >"$PGDATA/pgpass")
fi
