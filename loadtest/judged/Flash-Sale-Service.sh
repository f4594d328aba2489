# AndreyyTs/Flash-Sale-Service. One node, as it is made: all reservations are in its memory. It starts anew at each full
# hour; do not run the check over one.
OPTIONS=(--users 300)
new_postgres myapp
sql myapp -f flash_sale_schema.sql >/dev/null
export DB_HOST=127.0.0.1
node 8080 ./app
