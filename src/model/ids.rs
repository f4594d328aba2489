//! Ids are newtypes, and strings in JSON: order ids exceed 2^53, the largest
//! integer that a JavaScript number holds exactly.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The text is not a positive decimal integer below 2^63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is a positive decimal integer below 2^63")]
pub struct InvalidId;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(i64);

        impl $name {
            /// The id with this number, if it is positive.
            pub const fn new(number: i64) -> Option<Self> {
                if number > 0 { Some(Self(number)) } else { None }
            }

            /// The number, as the database stores it.
            pub const fn get(self) -> i64 {
                self.0
            }
        }

        impl TryFrom<i64> for $name {
            type Error = InvalidId;
            fn try_from(number: i64) -> Result<Self, InvalidId> {
                Self::new(number).ok_or(InvalidId)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            /// Digits only: no sign, no space, no leading zero, so that one id has one spelling.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                if text.starts_with('0') || !text.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(InvalidId);
                }
                text.parse::<i64>().ok().and_then(Self::new).ok_or(InvalidId)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// A buyer. Ids up to [`UserId::LAST_OF_A_RANGE`] are made in ranges, for load tests; a first login takes one of
    /// [`UserId::at`].
    UserId
);
id!(
    /// A voucher on sale.
    VoucherId
);
id!(
    /// Money that the gateway took for a payment that is not ours.
    UnmatchedId
);
id!(
    /// An order: sign bit 0, 31 bits of seconds since [`OrderId::EPOCH_SECONDS`],
    /// 32 bits of a per-day counter.
    OrderId
);

impl UserId {
    /// The last id that a sequence may hand out, and a range have: those of logins have been greater since the second day
    /// of 2022.
    pub const LAST_OF_A_RANGE: i64 = (1 << 48) - 1;

    /// An id for a first login: as in order ids 31 bits of seconds, then 32 `random` bits. A number of a
    /// sequence would come again after a restore from a dump, or on a standby that did not get the last users, and
    /// the tokens of before would then act for somebody else. `None` after the last second, and before that day.
    pub const fn at(now: DateTime<Utc>, random: u32) -> Option<Self> {
        let second = now.timestamp() - OrderId::EPOCH_SECONDS;
        if second > OrderId::MAX_SECOND || second << 32 <= Self::LAST_OF_A_RANGE {
            return None;
        }
        Some(Self((second << 32) | random as i64))
    }
}

impl OrderId {
    /// 2022-01-01T00:00:00Z as Unix time, in seconds: second 0 of an order id.
    pub const EPOCH_SECONDS: i64 = 1_640_995_200;
    /// The last second an order id can name, counted from the epoch.
    pub const MAX_SECOND: i64 = (1 << 31) - 1;
    /// The last number of a day.
    pub const MAX_SEQUENCE: i64 = (1 << 32) - 1;

    /// Puts an id together. `None` when either field would overflow or is not
    /// positive where it must be: never a wrong id.
    pub const fn from_parts(second: i64, sequence: i64) -> Option<Self> {
        if second < 0 || second > Self::MAX_SECOND || sequence < 1 || sequence > Self::MAX_SEQUENCE
        {
            return None;
        }
        Some(Self((second << 32) | sequence))
    }

    /// Seconds since the epoch of order ids.
    pub const fn second(self) -> i64 {
        self.0 >> 32
    }

    /// The day's counter.
    pub const fn sequence(self) -> i64 {
        self.0 & Self::MAX_SEQUENCE
    }

    /// The instant the id names, to the second.
    pub fn instant(self) -> DateTime<Utc> {
        let second = Self::EPOCH_SECONDS + self.second();
        let Some(instant) = DateTime::from_timestamp(second, 0) else {
            unreachable!("second {second} of an order id is before the year 2091")
        };
        instant
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_id_keeps_both_fields_and_refuses_to_overflow() {
        let id = OrderId::from_parts(OrderId::MAX_SECOND, OrderId::MAX_SEQUENCE);
        assert_eq!(id.map(OrderId::get), Some(i64::MAX));
        let id = OrderId::from_parts(1, 2).map(|id| (id.get(), id.second(), id.sequence()));
        assert_eq!(id, Some(((1 << 32) | 2, 1, 2)));
        assert_eq!(OrderId::from_parts(OrderId::MAX_SECOND + 1, 1), None);
        assert_eq!(OrderId::from_parts(0, OrderId::MAX_SEQUENCE + 1), None);
        assert_eq!(OrderId::from_parts(-1, 1), None);
        assert_eq!(OrderId::from_parts(0, 0), None);
    }

    #[test]
    fn a_user_id_names_its_second_and_lies_beyond_every_range() {
        let at = |second: i64, random| {
            let now = DateTime::from_timestamp(OrderId::EPOCH_SECONDS + second, 0)?;
            UserId::at(now, random).map(UserId::get)
        };
        assert_eq!(at(1 << 16, 0), Some(UserId::LAST_OF_A_RANGE + 1));
        assert_eq!(at(OrderId::MAX_SECOND, u32::MAX), Some(i64::MAX));
        assert_eq!([at((1 << 16) - 1, 7), at(-1, 7), at(OrderId::MAX_SECOND + 1, 7)], [None; 3]);
    }

    #[test]
    fn ids_parse_digits_only() {
        assert_eq!("17".parse::<VoucherId>().map(VoucherId::get), Ok(17));
        for text in ["", "0", "017", "-1", "+1", " 1", "1.0", "abc", "9223372036854775808", "١"] {
            assert_eq!(text.parse::<VoucherId>(), Err(InvalidId), "{text:?}");
        }
    }

    #[test]
    fn ids_are_strings_in_json() {
        let id = OrderId::from_parts(100_000_000, 7).map(|id| serde_json::to_string(&id).ok());
        assert_eq!(id, Some(Some("\"429496729600000007\"".to_owned())));
        assert!(serde_json::from_str::<OrderId>("12").is_err());
        assert_eq!(serde_json::from_str::<OrderId>("\"12\"").ok(), OrderId::new(12));
    }
}
