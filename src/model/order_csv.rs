//! Orders and their buyers as CSV.

use std::fmt::{Display, Write as _};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Deserialize;

use super::{Currency, OrderOfBuyer};

/// The reader of the CSV, if it is not a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CsvReader {
    /// It makes numbers of digits, keeps 15 of the 18 of an id, and drops the plus sign of a phone.
    Spreadsheet,
}

/// The first line.
const HEAD: &str = "order_id,voucher_id,user_id,phone,status,amount,created_at,pay_by,paid_at,\
    used_at,cancelled_at,refunded_at,charged_back_at,returned_amount\n";

/// A line for each of `orders`; the first lines are headed.
pub fn csv(
    orders: &[OrderOfBuyer],
    currency: &Currency,
    reader: Option<CsvReader>,
    is_first: bool,
) -> String {
    let mut text = if is_first { HEAD.to_owned() } else { String::new() };
    for order in orders {
        push_line(&mut text, order, currency, reader);
    }
    text
}

/// For a spreadsheet ids and phones are formulas whose value is a text, `="13800138000"`; a program gets the values
/// themselves. All else is words of ours, instants and amounts, none of which has to be quoted.
fn push_line(
    text: &mut String,
    OrderOfBuyer { order, phone }: &OrderOfBuyer,
    currency: &Currency,
    reader: Option<CsvReader>,
) {
    let kept = |digits: &dyn Display| match reader {
        Some(CsvReader::Spreadsheet) => format!("\"=\"\"{digits}\"\"\""),
        None => digits.to_string(),
    };
    let at = |instant: Option<DateTime<Utc>>| {
        instant.map_or_else(String::new, |at| at.to_rfc3339_opts(SecondsFormat::Micros, true))
    };
    let _ = writeln!(
        text,
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
        kept(&order.id),
        kept(&order.voucher_id),
        kept(&order.user_id),
        phone.as_ref().map_or_else(String::new, |phone| kept(phone)),
        order.status.as_str(),
        currency.decimal(order.amount),
        at(Some(order.created_at)),
        at(order.pay_by),
        at(order.paid_at),
        at(order.used_at),
        at(order.cancelled_at),
        at(order.refunded_at),
        at(order.charged_back_at),
        currency.decimal(order.returned_amount),
    );
}
