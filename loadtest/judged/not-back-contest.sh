# IlyushaZ/not-back-contest. Two nodes by `go build ./cmd/server ./cmd/items-generator`, and its generator for a sale of
# this hour. Do not run it over a full hour: a sale ends then.
OPTIONS=(--users 300)
new_postgres notbackcontest
sql notbackcontest -f migrations/20250604214129_init.up.sql
redis-cli -p 6379 flushall
export POSTGRES_ADDR=127.0.0.1:5435 POSTGRES_USER=postgres REDIS_ADDR=127.0.0.1:6379 LOG_LEVEL=ERROR
./items-generator --itemsPerSale 2000
for port in 8000 8001; do node $port ./server --listenAddr 127.0.0.1:$port --cacheCheckouts; done
