# Nexi77/nestjs-high-concurrency-flash-sale. Two gateways and two workers: it is made for several.
OPTIONS=(--users 300 --rounds 4)
new_postgres db_name
redis-cli -p 6379 flushall
export DB_HOST=127.0.0.1 DB_PORT=5435 DB_USERNAME=postgres DB_PASSWORD=any DB_NAME=db_name
export REDIS_HOST=127.0.0.1 REDIS_PORT=6379 REDIS_PASSWORD=
node=$(type -P node)
node 3000 env API_GATEWAY_PORT=3000 "$node" dist/apps/api-gateway/main
node 3004 env API_GATEWAY_PORT=3004 "$node" dist/apps/api-gateway/main
for port in 3001 3005; do node $port env ORDER_WORKER_PORT=$port "$node" dist/apps/order-worker/main; done
