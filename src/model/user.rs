//! Users.

use chrono::{DateTime, Utc};

use super::UserId;

/// A person who logs in by phone. The first login creates the user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct User {
    pub id: UserId,
    pub phone: String,
    pub nickname: String,
    pub created_at: DateTime<Utc>,
    /// The instant before which the user's tokens are void, once the user has ended the sessions.
    pub tokens_not_before: Option<DateTime<Utc>>,
}

/// `phone` in the one form it is kept in: 11 digits for a mainland Chinese mobile number (13 to 19 and nine more), a
/// plus sign and 7 to 15 digits (E.164) for any other. `None` when it is neither: 11 digits that begin with 10, 11 or 12
/// may be meant as a number of the United States, which has to say `+1`.
pub fn normalized_phone(phone: &str) -> Option<String> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mainland = |text: &str| {
        text.len() == 11 && digits(text) && matches!(text.as_bytes(), [b'1', b'3'..=b'9', ..])
    };
    let phone = phone.strip_prefix("+86").filter(|rest| mainland(rest)).unwrap_or(phone);
    let international =
        phone.strip_prefix('+').is_some_and(|rest| (7..=15).contains(&rest.len()) && digits(rest));
    (mainland(phone) || international).then(|| phone.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_phone_is_one_user_however_it_is_written() {
        assert_eq!(normalized_phone("13800138000").as_deref(), Some("13800138000"));
        assert_eq!(normalized_phone("+8613800138000").as_deref(), Some("13800138000"));
        assert_eq!(normalized_phone("+442071838750").as_deref(), Some("+442071838750"));
        // At the bound: a Chinese mobile number begins with 13 to 19.
        for right in ["13000000000", "19999999999", "+12125550123", "+8612125550123"] {
            assert_eq!(normalized_phone(right).as_deref(), Some(right));
        }
        for wrong in ["12125550123", "12999999999", "10000000000", "20000000000"] {
            assert_eq!(normalized_phone(wrong), None, "{wrong:?}");
        }
        for wrong in [
            "",
            "1380013800",
            "138001380000",
            "23800138000",
            "+1",
            "1380013800a",
            "+86 13800138000",
            " 13800138000",
            "+8613800138000000000",
            "١٣٨٠٠١٣٨٠٠٠",
        ] {
            assert_eq!(normalized_phone(wrong), None, "{wrong:?}");
        }
    }
}
