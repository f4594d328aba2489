#!/usr/bin/env python3
"""Takes the events of seckill (../events.md): SECKILL_EVENTS_SECRET=... receiver.py [PORT]"""

import hmac
import json
import os
import re
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = os.environ["SECKILL_EVENTS_SECRET"].encode()
known = set()  # In earnest a table, written by the transaction that acts on the event.


def is_signed(header, body):
    found = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", header)
    time, signature = found.groups() if found else ("", "")
    expected = hmac.new(SECRET, time.encode() + b"." + body, "sha256").hexdigest()
    return hmac.compare_digest(expected, signature)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        taken = is_signed(self.headers["seckill-signature"] or "", body)
        for event in json.loads(body)["events"] if taken else []:
            if event["id"] not in known:
                print(json.dumps(event), flush=True)  # What your program does.
                known.add(event["id"])
        self.send_response(204 if taken else 403)
        self.end_headers()


server = HTTPServer(("127.0.0.1", int(sys.argv[1]) if sys.argv[1:] else 9000), Receiver)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
