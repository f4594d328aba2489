//! The tables of a check's report, for a terminal and for its page. What the target said is escaped.

use load::latency::LatencyMs;
use report::{Table, escape};

use super::report::{CheckReport, VoucherFigures};

/// What the buyers were told.
pub(super) fn answers(report: &CheckReport) -> Table {
    let mut table = Table::new(&["outcome", "attempts"], &[]);
    for (outcome, count) in &report.outcomes {
        table.add([escape(outcome), count.to_string()]);
    }
    table
}

/// Rates of the rush, and latencies.
pub(super) fn figures(report: &CheckReport) -> Table {
    let rush = report.rush.as_ref().map(|rush| {
        [
            ("attempts in the rush", Some(rush.attempts as f64)),
            ("connections", Some(rush.connections as f64)),
            ("from the first attempt to the last answer, ms", Some(rush.elapsed_ms)),
            ("answers/s", Some(rush.answers_per_s)),
            ("durable orders/s", rush.durable_orders_per_s),
            ("from the last answer to the last order, ms", rush.behind_ms),
        ]
    });
    let latency = report.latency_ms.map(|LatencyMs { p50, p95, p99, max }| {
        [
            ("latency p50, ms", p50),
            ("latency p95, ms", p95),
            ("latency p99, ms", p99),
            ("longest latency, ms", max),
        ]
        .map(|(name, ms)| (name, Some(ms)))
    });
    let mut table = Table::new(&["figure", "value"], &[]);
    for (name, value) in rush.into_iter().flatten().chain(latency.into_iter().flatten()) {
        if let Some(value) = value {
            table.add([name.to_owned(), rounded(value)]);
        }
    }
    table
}

/// Three digits are enough.
fn rounded(value: f64) -> String {
    match value {
        0.0..10.0 if value.fract() != 0.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// What became of these vouchers.
pub(super) fn vouchers<'a>(vouchers: impl IntoIterator<Item = &'a VoucherFigures>) -> Table {
    let heads = ["voucher for", "id", "stock", "told yes", "orders", "left"];
    let mut table = Table::new(&heads, &[1]);
    let number = |number: Option<i64>| number.map_or_else(|| "?".to_owned(), |it| it.to_string());
    for voucher in vouchers {
        table.add([
            escape(&voucher.crowd),
            escape(&voucher.voucher),
            number(voucher.stock),
            voucher.told.to_string(),
            number(voucher.orders),
            number(voucher.remaining),
        ]);
    }
    table
}
