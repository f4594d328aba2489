//! A check's report on a terminal. What the target said is escaped: it must not move the cursor.

use load::latency::LatencyMs;
use report::escape;

use super::report::{CheckReport, RushRates};
use super::tables::{answers, vouchers};

/// Vouchers that are listed one by one.
const SHOWN: usize = 6;

/// The report as text.
#[must_use]
pub fn text(report: &CheckReport) -> String {
    let mut text = String::new();
    let width = |name: &str| format!("{name:<24}");
    for promise in &report.promises {
        let (name, meaning) = (promise.promise.name(), promise.promise.meaning());
        text += &format!("{:<8} {}{meaning}\n", promise.verdict.word(), width(name));
        for sentence in &promise.sentences {
            text += &format!("         {}\n", escape(sentence));
        }
    }
    let (first, last) = report.vouchers.split_at(report.vouchers.len().min(SHOWN / 2));
    let last = &last[last.len().saturating_sub(SHOWN / 2)..];
    text += &format!("\n{}\n", vouchers(first.iter().chain(last)).text());
    if report.vouchers.len() > SHOWN {
        text += &format!("and {} more\n", report.vouchers.len() - SHOWN);
    }
    text += &format!("\n{}\n\n", answers(report).text());
    text += &figures(report);
    for example in &report.examples {
        let status = example.status.map_or_else(String::new, |status| format!(" ({status})"));
        let (outcome, said) = (escape(&example.outcome), escape(&example.said));
        text += &format!("example of {outcome}{status}, {}: {said}\n", example.crowd);
    }
    for note in &report.notes {
        text += &format!("{}\n", escape(note));
    }
    text
}

/// Rates and latencies, a line each.
fn figures(report: &CheckReport) -> String {
    let mut text = String::new();
    if let Some(rush) = &report.rush {
        let RushRates { attempts, connections, elapsed_ms, answers_per_s, .. } = rush;
        text += &format!(
            "the rush: {attempts} attempts over {connections} connections in {elapsed_ms} ms: \
             {answers_per_s} answers/s"
        );
        if let (Some(durable), Some(behind)) = (rush.durable_orders_per_s, rush.behind_ms) {
            text += &format!(", {durable} durable orders/s, {behind} ms behind the answers");
        }
        text.push('\n');
    }
    if let Some(LatencyMs { p50, p95, p99, max }) = report.latency_ms {
        text += &format!("latency: p50 {p50} ms, p95 {p95} ms, p99 {p99} ms, max {max} ms\n");
    }
    text
}
