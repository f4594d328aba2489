#!/usr/bin/env python3
"""What buyers were told, held against the orders in the database.

settle.py TOLD STOCK <ORDERS   (lines of `user order`, as the database has them)
"""

import json
import sys

told = json.load(open(sys.argv[1]))["told"]
stock = int(sys.argv[2])
orders = dict(line.split() for line in sys.stdin if line.strip())
faults = []
for user, (what, order) in told.items():
    if what in ("bought", "already_bought"):
        if orders.get(user) is None or (order and orders[user] != order):
            faults.append(f"user {user} was told {what} {order}, the database has {orders.get(user)}")
    elif what == "sold_out":
        if user in orders:
            faults.append(f"user {user} was told sold_out, the database has {orders[user]}")
    else:
        faults.append(f"user {user} last heard {what}")
expected = min(stock, len(told))
if len(orders) != expected:
    faults.append(f"{len(orders)} orders, expected {expected}")
for fault in faults[:10]:
    print(fault, file=sys.stderr)
print(f"{len(told)} buyers, {len(orders)} orders, {len(faults)} faults")
sys.exit(bool(faults))
