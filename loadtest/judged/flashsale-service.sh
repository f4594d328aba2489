# yuzvak/flashsale-service. Two nodes by `go build -o app ./cmd/server`. It sells 10,000 items from hour to hour; do not
# run the check over a full hour.
OPTIONS=(--users 300 --rounds 10)
new_postgres flashsale
redis-cli -p 6379 flushall
config() {
    jq '.database.host = "127.0.0.1" | .database.port = 5435 | .redis.host = "127.0.0.1" | .server.host = "127.0.0.1"
        | .server.port = '"$1" config.json >"$work/$1.json"
    echo "$work/$1.json"
}
node 8080 ./app -config "$(config 8080)"
until [[ $(sql flashsale -c "select count(*) from items") == 10000 ]]; do sleep 0.5; done
# A hundred items more, by ids that the file can name.
sql flashsale -c "insert into items (id, sale_id, name, image_url)
    select n, (select id from sales), 'judged', 'none' from generate_series(1, 100) n"
node 8081 ./app -config "$(config 8081)"
