//! The verdict on a demo, for people.

use comfy_table::{CellAlignment, Table, presets};

use load::verdict::Findings;

use super::verdict::{DemoVerdict, Figures, PaymentFigures, WaveFigures};

/// Vouchers that the table shows though nothing is wrong with them.
const SHOWN: usize = 8;

/// Prints the figures to standard error.
pub fn print(verdict: &DemoVerdict) {
    let mut table = plain_table();
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    for (code, count) in &verdict.outcomes {
        row(code, count.to_string());
    }
    let Figures { orders, remaining, found, .. } = verdict.figures;
    let Findings { oversold, duplicates, undersold, lost, .. } = found;
    row("", String::new());
    row("orders in the database", orders.to_string());
    row("stock left", remaining.to_string());
    row("oversold", oversold.to_string());
    row("duplicates", duplicates.to_string());
    row("undersold", undersold.to_string());
    row("lost", lost.to_string());
    if let Some(payments) = verdict.payments {
        let PaymentFigures { paid, expired, cancelled, payments, refunds, lost_payments } =
            payments;
        row("", String::new());
        row("paid orders", paid.to_string());
        row("expired", expired.to_string());
        row("cancelled, expired ones included", cancelled.to_string());
        row("payments", payments.to_string());
        row("refunds", refunds.to_string());
        row("lost payments", lost_payments.to_string());
    }
    row("", String::new());
    if let Some(WaveFigures { waves, all_waves_ms }) = verdict.waves {
        row("waves", waves.to_string());
        row("all waves", format!("{:.1} s", all_waves_ms / 1e3));
        row("of the first wave:", String::new());
    }
    row("elapsed", format!("{:.0} ms", verdict.elapsed_ms));
    row("answers per second", format!("{:.0}", verdict.answers_per_s));
    if let Some(latency) = &verdict.latency_ms {
        let latency = format!("{:.0} / {:.0} / {:.0} ms", latency.p50, latency.p95, latency.p99);
        row("latency p50 / p95 / p99", latency);
    }
    align_right(&mut table);
    eprintln!("\n{}\n", table.trim_fmt());
    if verdict.vouchers.len() > 1 {
        print_vouchers(verdict);
    }
}

/// The first vouchers, and all with which something is wrong.
fn print_vouchers(verdict: &DemoVerdict) {
    let mut table = plain_table();
    table.add_row(["voucher", "orders", "left", "oversold", "duplicates", "undersold", "lost", ""]);
    let mut hidden = 0;
    for (position, voucher) in verdict.vouchers.iter().enumerate() {
        if voucher.holds && position >= SHOWN {
            hidden += 1;
            continue;
        }
        let Figures { orders, remaining, found, .. } = voucher.figures;
        let Findings { oversold, duplicates, undersold, lost, .. } = found;
        let figures = [orders, remaining, oversold, duplicates, undersold, lost];
        let word = if voucher.holds { "holds" } else { "BROKEN" };
        let id = voucher.voucher_id.to_string();
        let figures = figures.map(|figure| figure.to_string());
        table.add_row([&[id][..], &figures, &[word.to_owned()]].concat());
    }
    align_right(&mut table);
    eprintln!("{}", table.trim_fmt());
    if hidden > 0 {
        eprintln!("and {hidden} more, each of which holds");
    }
    eprintln!();
}

/// Without lines.
pub(crate) fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// All columns but the first.
pub(crate) fn align_right(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// The verdict in one sentence. Of several broken sales it has the sentences of the first.
pub fn sentence(verdict: &DemoVerdict) -> String {
    let DemoVerdict { figures, vouchers, .. } = verdict;
    let count = vouchers.len();
    let broken: Vec<_> = vouchers.iter().filter(|voucher| !voucher.holds).collect();
    let Some(first) = broken.first() else {
        let sold = if count == 1 {
            format!("{} vouchers", figures.stock)
        } else {
            format!("{count} vouchers with a stock of {} in all", figures.stock)
        };
        let orders = figures.orders;
        if let (Some(payments), Some(waves)) = (verdict.payments, verdict.waves) {
            return format!(
                "HOLDS: {sold}, {orders} orders, all of them paid for, nobody twice, {} expired and \
                 were sold again (waves: {}), every acknowledged order and payment is in the database.",
                payments.expired, waves.waves
            );
        }
        return format!(
            "HOLDS: {sold}, {orders} orders, nobody twice, nothing left that a buyer wanted, every \
             acknowledged order is in the database."
        );
    };
    let failures = first.sentences.join("; ");
    match count {
        1 => format!("BROKEN: {failures}."),
        _ => format!(
            "BROKEN for {} of {count} vouchers: voucher {}: {failures}.",
            broken.len(),
            first.voucher_id
        ),
    }
}
