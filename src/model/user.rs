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

/// `phone` in the one form it is kept in: 11 digits for a mainland Chinese mobile number, a
/// plus sign and 7 to 15 digits (E.164) for any other. `None` when it is neither.
pub fn normalized_phone(phone: &str) -> Option<String> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mainland = |text: &str| text.len() == 11 && text.starts_with('1') && digits(text);
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
        for wrong in ["", "1380013800", "23800138000", "+1", "1380013800a", "+86 13800138000"] {
            assert_eq!(normalized_phone(wrong), None, "{wrong:?}");
        }
    }
}
