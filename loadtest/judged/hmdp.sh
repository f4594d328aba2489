# cs001020/hmdp at any of its commits. Two nodes by their jar; NODES=1 for one. 2,000 users are logged in.
OPTIONS=(--users 300 --rounds 4 --answer-within 30s)
new_mysql hmdp
mysql hmdp <hmdp.sql
redis() { redis-cli --no-auth-warning -a 001020 -p 6381 "$@" >/dev/null; }
redis flushall
redis xgroup create stream.orders g1 0 MKSTREAM
for user in $(seq 2000); do echo "hset login:token:t$user id $user nickName u$user"; done | redis --pipe
for port in $(seq 8081 $((8080 + ${NODES:-2}))); do
    node "$port" java -Xmx400m --add-opens java.base/java.lang.invoke=ALL-UNNAMED -jar target/hmdp-1.0-SNAPSHOT.jar \
        --server.port="$port" --spring.redis.port=6381 --spring.datasource.password=password123 --logging.level.com.hmdp=warn \
        --spring.datasource.url="jdbc:mysql://127.0.0.1:3307/hmdp?useSSL=false&serverTimezone=UTC"
done
