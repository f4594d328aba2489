# Leviy1017/go-seckill. One node by its binary `seckill` (`go build -o seckill .`).
OPTIONS=(--users 200 --rounds 10)
new_mysql seckill
redis-cli -p 6379 flushall
export DB_HOST=127.0.0.1 DB_PORT=3307 DB_USER=root DB_PASSWORD=password123 DB_NAME=seckill REDIS_ADDR=127.0.0.1:6379
cd go-seckill
for port in 8080 8081; do node $port env PORT=$port ./seckill; done
