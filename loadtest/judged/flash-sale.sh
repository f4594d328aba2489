# lugassawan/flash-sale. One instance, as its compose file has it; two for flash-sale-two.toml, a variant of ours.
OPTIONS=(--users 300 --rounds 4)
new_postgres flashsale
sql flashsale -f infrastructure/docker/postgresql/init.sql
redis-cli -p 6379 flushall
export DATABASE_URL=$POSTGRES/flashsale REDIS_HOST=127.0.0.1 REDIS_PORT=6379 ADMIN_API_KEY=dev-admin-key-12345678
export NODE_ENV=production LOG_LEVEL=warn HOST=127.0.0.1
last=3000
[[ $name != *-two ]] || last=3001
cd apps/backend
node=$(type -P node)
for port in $(seq 3000 "$last"); do node "$port" env PORT="$port" "$node" dist/main; done
