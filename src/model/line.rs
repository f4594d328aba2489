//! Draws, and lines for vouchers that come back.

use chrono::{DateTime, NaiveTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{OrderId, VoucherId};

/// The people who may have what there is of a voucher. The numbers are the database's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::FromRepr)]
#[repr(i16)]
pub enum HeldFor {
    /// Anybody.
    #[default]
    Anybody = 0,
    /// Those whom a draw will find.
    Draw = 1,
    /// Those who stand in line.
    Line = 2,
}

/// Where an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::EnumString, strum::VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EntryStatus {
    /// The draw is to come.
    Entered,
    /// In line.
    InLine,
    /// An order was offered, and is to be paid.
    Offered,
    /// The order is paid.
    Bought,
    /// The order was not paid in time, or given back, or was pruned, however it ended.
    Missed,
    /// Its buyer left.
    Left,
    /// An administrator removed it.
    Removed,
}

/// A buyer's latest entry for a voucher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = EntryBody)]
pub struct Entry {
    /// The entry: random. The draw goes by it.
    #[serde(rename = "entry_id")]
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// The voucher.
    pub voucher_id: VoucherId,
    /// Where it stands.
    pub status: EntryStatus,
    /// When its buyer entered.
    pub entered_at: DateTime<Utc>,
    /// In line: 1 is the next. Nobody has a place before the draw.
    #[schema(required = true, minimum = 1)]
    pub place: Option<i64>,
    /// In line: how many were offered an order in the last hour. 0 without a place.
    #[schema(minimum = 0)]
    pub offered_in_the_last_hour: i64,
    /// The order that was offered.
    #[schema(required = true)]
    pub order_id: Option<OrderId>,
}

/// How many wait for a voucher, and how far its draw is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = LineBody)]
pub struct Line {
    /// Buyers who entered the draw that is to come.
    #[schema(minimum = 0)]
    pub entered: i64,
    /// Buyers in line.
    #[schema(minimum = 0)]
    pub in_line: i64,
    /// Buyers who were offered an order.
    #[schema(minimum = 0)]
    pub offered: i64,
    /// Whether the entries of the draw are closed; null where there is none.
    #[schema(required = true)]
    pub closed: Option<bool>,
    /// The public number of the draw, once it is there.
    #[schema(required = true)]
    pub number: Option<String>,
    /// When the entries were drawn.
    #[schema(required = true)]
    pub drawn_at: Option<DateTime<Utc>>,
}

/// As `vouchers.offer_between` is checked by the database.
pub(super) fn check_hours(text: &str) -> Result<(), &'static str> {
    const WRONG: &str =
        "offer_between is HH:MM-HH:MM and the offset from UTC, such as 08:00-22:00+08:00";
    let at = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let is_time = |text: &str| text.len() == 5 && NaiveTime::parse_from_str(text, "%H:%M").is_ok();
    let (begin, dash, end, sign, offset) =
        (at(0..5), at(5..6), at(6..11), at(11..12), at(12..text.len().max(12)));
    let is_offset = ["+", "-"].contains(&sign) && is_time(offset) && offset < "15:00";
    if !(is_time(begin) && dash == "-" && is_time(end) && is_offset) {
        return Err(WRONG);
    }
    if begin == end {
        return Err("offer_between must not begin where it ends");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_hours;

    #[test]
    fn the_hours_of_offers_have_an_offset() {
        for right in
            ["08:00-22:00+08:00", "22:00-06:30-03:30", "00:00-23:59+00:00", "09:00-10:00+14:00"]
        {
            assert_eq!(check_hours(right), Ok(()), "{right}");
        }
        for wrong in [
            "",
            "08:00-22:00",
            "8:00-22:00+08:00",
            "08:00-24:00+08:00",
            "08:00-22:00+15:00",
            "08:00-22:00 08:00",
            "08:00-22:00+08:00 ",
            "08:00–22:00+08:00",
            "08:00-22:60+08:00",
            "+8:00-22:00+08:00",
            "08:00-22:00+08:00 and more",
            "08:00-22:00+é",
        ] {
            let is_told = check_hours(wrong).is_err_and(|why| why.contains("offset from UTC"));
            assert!(is_told, "{wrong}");
        }
        assert!(check_hours("08:00-08:00+08:00").is_err());
    }
}
