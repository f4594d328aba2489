"""What a description cannot say, and schemathesis has to know. `api.sh` loads this."""

import itertools
import json
import os
import re
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone

import schemathesis

addresses = itertools.count(1)
phones = itertools.count(1)
logins = itertools.count()


def next_address():
    """A client address of its own, or the limits for an address would refuse all but the first."""
    number = next(addresses)
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


# Invisible, and refused in titles. No pattern for every language can name them: src/model/schemas.rs.
TAGS = re.compile("[\U000e0000-\U000e0fff]")


@schemathesis.hook
def before_call(context, case, kwargs):
    case.headers["X-Forwarded-For"] = next_address()
    keeps_to_the_schema = case.meta is not None and case.meta.generation.mode.is_positive
    if not keeps_to_the_schema or not isinstance(case.body, dict):
        return
    operation = (case.method.upper(), case.operation.path)
    for name in ("title", "subtitle"):
        if isinstance(text := case.body.get(name), str):
            case.body[name] = TAGS.sub("x", text)
    # Left out, both have good values. A change of one alone has to fit the other, which the voucher has already.
    sells = operation == ("POST", "/api/vouchers")
    changes = operation == ("PATCH", "/api/vouchers/{id}")
    has_both = bool(case.body.get("begin_time") and case.body.get("end_time"))
    if (sells or changes) and not (is_a_sale(case.body) and (sells or has_both)):
        case.body = {name: value for name, value in case.body.items() if not name.endswith("_time")}
    # The schema does not have the numbering plan of each country.
    if str(case.body.get("phone", "")).startswith("+"):
        case.body["phone"] = f"+4479{next(phones):08}"
    # Every fourth, because a code that nobody sent must be tried as well.
    if operation == ("POST", "/api/sessions") and next(logins) % 4 == 0:
        phone = f"139{next(phones):08}"
        if code := login_code(case.operation.base_url, phone):
            case.body = {"phone": phone, "code": code}


def instant(text):
    return datetime.fromisoformat(text.upper().replace("Z", "+00:00"))


def is_a_sale(body):
    """Whether the sale begins before it ends, between the years 1970 and 9999 in UTC."""
    try:
        begin, end = body.get("begin_time"), body.get("end_time")
        begin = instant(begin) if begin else datetime.now(timezone.utc)
        end = instant(end) if end else begin + timedelta(days=1)
        begin, end = begin.astimezone(timezone.utc), end.astimezone(timezone.utc)
        return begin < end and begin.year >= 1970
    # What Python cannot read, for example the year 10000 or a leap second.
    except (ValueError, OverflowError):
        return False


def login_code(base_url, phone):
    """A code that the server sent to this phone: its log stands in for the text message."""
    request = urllib.request.Request(
        f"{base_url.rstrip('/')}/api/login-codes",
        json.dumps({"phone": phone}).encode(),
        {"content-type": "application/json", "x-forwarded-for": next_address()},
    )
    try:
        urllib.request.urlopen(request, timeout=10).close()
    # schemathesis learns phones from answers, and may have asked for too many codes already.
    except urllib.error.HTTPError as error:
        if error.code != 429:
            raise
        return None
    with open(os.environ["FUZZ_SERVER_LOG"], encoding="utf-8") as log:
        log.seek(max(0, os.path.getsize(log.name) - 4096))
        codes = re.findall(rf'phone="?{phone}"? .*?code="?(\d{{6}})', log.read())
    return codes[-1] if codes else None
