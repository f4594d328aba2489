# hsuyang0327/Simple-Flash-Sale. One node by its jar; Quartz keeps its jobs in memory. 200 members are registered.
OPTIONS=(--users 200 --rounds 2 --answer-within 30s)
new_mysql flash_sale
redis-cli -p 6379 flushall
node 8080 java -Xmx512m -jar backend/target/backend-0.0.1-SNAPSHOT.jar --server.port=8080 \
    --spring.datasource.url="jdbc:mysql://127.0.0.1:3307/flash_sale?serverTimezone=UTC&useSSL=false&allowPublicKeyRetrieval=true" \
    --spring.datasource.password=password123 --spring.rabbitmq.password=guest --spring.quartz.job-store-type=memory \
    --logging.level.org.hibernate.SQL=WARN
for user in $(seq 200); do
    curl -s 127.0.0.1:8080/api/client/open/register -H 'content-type: application/json' \
        -d '{"memberEmail":"u'"$user"'@example.org","memberPwd":"p","memberName":"'"$user"'"}' >>"$work/members.log"
done
