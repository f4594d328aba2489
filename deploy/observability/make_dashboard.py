#!/usr/bin/env python3
"""Prints dashboard.json, Grafana's dashboard of the servers: make_dashboard.py >dashboard.json

`make deploy-check` holds the file against this, and tests/docs/observability.rs holds the names of the metrics.
"""

import json

ROUTE = 'route="/api/vouchers/{id}/orders"'


def quantile(q, metric, selector=""):
    return f"histogram_quantile({q}, sum by (le) (rate({metric}_bucket{selector}[1m])))"


# Rows of panels: title, unit, and the lines of each: expression, legend.
ROWS = [
    ("The sale", [
        ("Purchases a second, by what buyers heard", "reqps",
         [("sum by (outcome) (rate(seckill_purchases_total[1m]))", "{{outcome}}")]),
        ("How long a purchase takes", "s",
         [(quantile(q, "seckill_http_request_seconds", "{" + ROUTE + "}"), f"{q:g}") for q in (0.5, 0.95, 0.99)]),
        ("Purchases under way, and the limit", "short",
         [("seckill_purchases_in_flight", "{{instance}}"),
          ("seckill_purchases_limit", "limit of {{instance}}")]),
    ]),
    ("Requests", [
        ("Requests a second, by status", "reqps",
         [("sum by (status) (rate(seckill_http_request_seconds_count[1m]))", "{{status}}")]),
        ("Requests a second, by route", "reqps",
         [("sum by (route) (rate(seckill_http_request_seconds_count[1m]))", "{{route}}")]),
        ("Streams of events; logins and requests refused a second", "short",
         [("sum(seckill_event_streams)", "streams"),
          ("sum by (by) (rate(seckill_rate_limited_total[1m]))", "one {{by}}"),
          ("sum by (limit) (rate(seckill_login_refused_total[1m]))", "{{limit}}"),
          ("sum(rate(seckill_untrusted_forwarded_total[1m]))", "by a proxy that is not trusted")]),
    ]),
    ("The database", [
        ("Orders that wait, transactions in flight", "short",
         [("seckill_order_queue_depth", "orders at {{instance}}"),
          ("seckill_order_batches_in_flight", "transactions of {{instance}}")]),
        ("Orders in a transaction", "short",
         [(quantile(q, "seckill_order_batch_size"), f"{q:g}") for q in (0.5, 0.95)]),
        ("Circuits opened, transactions sent again, in 5 minutes", "short",
         [("sum(increase(seckill_breaker_tripped_total[5m]))", "circuits opened"),
          ("sum(increase(seckill_order_batch_resent_total[5m]))", "sent again")]),
        ("How far the database's clock is ahead, and how well that is known", "s",
         [("seckill_database_clock_offset_seconds", "{{instance}}"),
          ("seckill_database_clock_error_seconds", "error at {{instance}}")]),
        ("Is the database durable? (1: yes)", "short", [("seckill_database_durable", "{{instance}}")]),
    ]),
    ("Locks", [
        ("Locks a second", "reqps",
         [("sum(rate(redisson_lock_acquired_total[1m]))", "acquired"),
          ("sum(rate(redisson_lock_contended_total[1m]))", "waited for"),
          ("sum(rate(redisson_lock_renewed_total[1m]))", "lease renewed"),
          ("sum(rate(redisson_lock_cleaned_up_total[1m]))", "released in the background")]),
        ("How long a lock is waited for", "s",
         [(quantile(q, "redisson_lock_wait_seconds"), f"{q:g}") for q in (0.5, 0.99)]),
        ("Locks lost or left to their leases, in 5 minutes", "short",
         [("sum(increase(redisson_lock_lost_total[5m]))", "lost"),
          ("sum(increase(redisson_lock_cleanup_skipped_total[5m]))", "left")]),
    ]),
    ("Money and servers", [
        ("Payments and refunds, in 5 minutes", "short",
         [("sum by (settled) (increase(seckill_payments_total[5m]))", "payment {{settled}}"),
          ("sum by (answer) (increase(seckill_refunds_total[5m]))", "refund {{answer}}")]),
        ("How long the oldest refund has waited", "s",
         [("max(seckill_refund_oldest_age_seconds)", "oldest")]),
        ("How long the oldest event has waited", "s",
         [("max(seckill_event_oldest_age_seconds)", "oldest")]),
        ("Payments that are not ours, and those of which a part went back", "short",
         [("max(seckill_payments_unmatched)", "not ours"), ("max(seckill_payments_partly_returned)", "a part went back")]),
        ("Orders that expired, in 5 minutes", "short",
         [("sum(increase(seckill_orders_expired_total[5m]))", "expired")]),
        ("Servers that answer, by version and strategy", "short",
         [("count by (version, strategy) (seckill_server_info)", "{{version}} {{strategy}}"),
          ('count(up{job="seckill"} == 0) or vector(0)', "do not answer")]),
        ("Since each process began", "s", [("seckill_uptime_seconds", "{{instance}}")]),
    ]),
]


def panels():
    number, y = 0, 0
    for title, row in ROWS:
        number += 1
        yield {"id": number, "type": "row", "title": title, "collapsed": False,
               "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}, "panels": []}
        y += 1
        for place, (name, unit, lines) in enumerate(row):
            number += 1
            yield {
                "id": number, "type": "timeseries", "title": name,
                "datasource": {"type": "prometheus", "uid": "${source}"},
                "gridPos": {"x": 8 * (place % 3), "y": y + 8 * (place // 3), "w": 8, "h": 8},
                "fieldConfig": {"defaults": {"unit": unit, "min": 0 if unit != "s" else None}, "overrides": []},
                "targets": [{"refId": chr(65 + index), "expr": expression, "legendFormat": legend}
                            for index, (expression, legend) in enumerate(lines)],
            }
        y += 8 * ((len(row) + 2) // 3)


print(json.dumps({
    "title": "seckill", "uid": "seckill", "schemaVersion": 39, "editable": True, "refresh": "5s",
    "time": {"from": "now-15m", "to": "now"}, "timezone": "",
    "templating": {"list": [{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]},
    "panels": list(panels()),
}, indent=1))
