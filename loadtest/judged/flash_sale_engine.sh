# Aadhithya0609/flash_sale_engine. Two nodes of its application; PYTHON has its packages.
: "${PYTHON:=python3}"
OPTIONS=(--users 300 --rounds 4 --answer-within 40s)
new_postgres flashsale
"$PYTHON" init_db.py
for port in 8000 8001; do node $port "$PYTHON" -m uvicorn main:app --host 127.0.0.1 --port $port --no-access-log; done
