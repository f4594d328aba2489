//! A check's report on a terminal. What the target said is escaped: it must not move the cursor.

use comfy_table::Table;
use load::latency::LatencyMs;

use super::report::{CheckReport, RushRates};
use crate::demo_report::{align_right, plain_table};

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
    text += &format!("\n{}\n", vouchers(report).trim_fmt());
    if report.vouchers.len() > SHOWN {
        text += &format!("and {} more\n", report.vouchers.len() - SHOWN);
    }
    let mut answers = plain_table();
    answers.add_row(["answers", ""]);
    for (outcome, count) in &report.outcomes {
        answers.add_row([escape(outcome), count.to_string()]);
    }
    align_right(&mut answers);
    text += &format!("\n{}\n\n", answers.trim_fmt());
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

fn vouchers(report: &CheckReport) -> Table {
    let mut table = plain_table();
    table.add_row(["voucher for", "id", "stock", "told yes", "orders", "left"]);
    let number = |number: Option<i64>| number.map_or_else(|| "?".to_owned(), |it| it.to_string());
    let first = report.vouchers.iter().take(SHOWN / 2);
    let skipped = report.vouchers.len().saturating_sub(SHOWN / 2).max(SHOWN / 2);
    let last = report.vouchers.iter().skip(skipped.min(report.vouchers.len()));
    for voucher in first.chain(last) {
        table.add_row([
            escape(&voucher.crowd),
            escape(&voucher.voucher),
            number(voucher.stock),
            voucher.told.to_string(),
            number(voucher.orders),
            number(voucher.remaining),
        ]);
    }
    align_right(&mut table);
    table
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

/// Without anything that a terminal obeys.
#[must_use]
pub fn escape(text: &str) -> String {
    let is_plain = |c: &char| {
        !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let escaped = |c: char| match is_plain(&c) {
        true => c.to_string(),
        false => c.escape_default().to_string(),
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_target_says_does_not_move_the_cursor() {
        assert_eq!(escape("a\u{1b}[2Jb\r\n库存\u{202e}"), "a\\u{1b}[2Jb\\r\\n库存\\u{202e}");
    }
}
