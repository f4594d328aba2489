# li-jintong/FlashSale-Py. One node and its consumer; PYTHON has its packages.
: "${PYTHON:=python3}"
OPTIONS=(--users 300 --rounds 4)
new_mysql flash_sale
redis-cli -p 6380 flushall
node 8000 "$PYTHON" -m uvicorn main:app --host 127.0.0.1 --port 8000 --no-access-log
"$PYTHON" seed_users.py
node 0 "$PYTHON" consumer.py
