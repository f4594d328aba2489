//! The tables of a check's report, for a terminal and for its page. What the target said is escaped.

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
