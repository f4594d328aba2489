#!/usr/bin/env python3
"""A crowd that buys one voucher through a load balancer, and goes on asking until it hears yes or no.

buyers.py URL VOUCHER FIRST_USER USERS SECONDS OUT

Each buyer comes at its own moment, evenly over SECONDS. A 503, a 429 or a broken connection is asked again,
as the answer's Retry-After says. OUT gets what each was told. Python's own library alone, for this runs
where nothing else is installed (SECKILL_SECRET signs the tokens); `seckill tokens` and `loadtest/` are the tools for people.
"""

import base64
import collections
import hashlib
import hmac
import http.client
import json
import os
import sys
import threading
import time
import urllib.parse

PATIENCE_S = 60


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def token(user):
    now = time.time() - 5
    claims = {"sub": str(user), "iat": now, "exp": int(now) + 86400}
    parts = [base64url(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims)]
    signed = b".".join(parts)
    signature = hmac.new(os.environ["SECKILL_SECRET"].encode(), signed, hashlib.sha256).digest()
    return (signed + b"." + base64url(signature)).decode()


url, voucher, first, users, seconds, out = sys.argv[1:]
first, users, seconds = int(first), int(users), float(seconds)
address = urllib.parse.urlsplit(url)


def ask(user):
    """(what was heard, the order's id or None, seconds to wait before the next time)"""
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=40)
    try:
        headers = {"Authorization": "Bearer " + token(user)}
        connection.request("POST", f"/api/vouchers/{voucher}/orders", headers=headers)
        answer = connection.getresponse()
        body = json.loads(answer.read())
        if answer.status == 201:
            return "bought", body["order_id"], 0
        wait = float(answer.headers.get("Retry-After", 1))
        return body["code"], body.get("order_id"), wait
    except (OSError, http.client.HTTPException):
        return "broken_connection", None, 0.5
    finally:
        connection.close()


heard = collections.Counter()
told = {}
slowest = 0.0
lock = threading.Lock()


def buy(number):
    global slowest
    time.sleep(seconds * number / users)
    user, begun = first + number, time.monotonic()
    last = "never_answered"
    while time.monotonic() - begun < PATIENCE_S:
        asked = time.monotonic()
        what, order, wait = ask(user)
        with lock:
            heard[what] += 1
            slowest = max(slowest, time.monotonic() - asked)
        # Also `already_bought`: the first try may have been made, and its answer lost.
        if what in ("bought", "already_bought", "sold_out"):
            last = [what, order]
            break
        if what not in ("unavailable", "too_many_requests", "order_in_progress", "broken_connection"):
            last = [what, order]
            break
        time.sleep(min(wait, 2))
    with lock:
        told[user] = last if isinstance(last, list) else [last, None]


threading.stack_size(256 * 1024)
threads = [threading.Thread(target=buy, args=(number,)) for number in range(users)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with open(out, "w") as file:
    json.dump({"told": told, "heard": heard, "slowest_ms": round(slowest * 1000)}, file)
print(f"{users} buyers heard {dict(heard)}; the slowest answer took {slowest * 1000:.0f} ms")
