# JinseonYe/flash-sale-lab. Two nodes, as its nginx.conf names them; users 1 to 2000.
OPTIONS=(--users 300 --rounds 4)
new_postgres flash_sale
sql flash_sale -f prisma/migrations/20260815103656_init/migration.sql \
    -c "insert into users (email) select 'u' || n from generate_series(1, 2000) n"
redis-cli -p 6379 flushall
export DATABASE_URL=$POSTGRES/flash_sale
for port in 3000 3001; do node $port env PORT=$port "$(type -P node)" dist/src/main; done
