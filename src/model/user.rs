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

/// `phone` in the one form it is kept in: 11 digits for a mainland Chinese mobile number (13 to 19 and nine more), E.164
/// for any other, whichever zeros stood before or after the country code. `None` when it is neither: 11 digits that begin
/// with 10, 11 or 12 may be meant as a number of the United States, which has to say `+1`.
pub fn normalized_phone(phone: &str) -> Option<String> {
    if is_mainland(phone) {
        return Some(phone.to_owned());
    }
    if !is_international(phone) {
        return None;
    }
    let phone = format!("+{}", phone.trim_start_matches(['+', '0']));
    let phone = match phonelib::try_normalize_phone_number(&phone) {
        // Assigned lately, or to nobody: such are the phones of load tests.
        Err(phonelib::ParseError::UnknownCountryCode) => phone,
        known => known.ok()?,
    };
    let national = phone.strip_prefix("+86").filter(|number| is_mainland(number));
    national.map(str::to_owned).or_else(|| is_international(&phone).then_some(phone))
}

fn is_mainland(phone: &str) -> bool {
    phone.len() == 11
        && has_digits_alone(phone)
        && matches!(phone.as_bytes(), [b'1', b'3'..=b'9', ..])
}

/// Whether it has the shape of E.164, as all foreign phones have that are kept.
pub fn is_international(phone: &str) -> bool {
    let number = phone.strip_prefix('+');
    number.is_some_and(|number| (7..=15).contains(&number.len()) && has_digits_alone(number))
}

fn has_digits_alone(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
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
        for (spelling, phone) in [
            // No country code begins with 0; a national trunk zero is not dialled from abroad.
            ("+008613800138000", "13800138000"),
            ("+86013800138000", "13800138000"),
            ("+4407911123456", "+447911123456"),
            ("+00447911123456", "+447911123456"),
            ("+447911123456", "+447911123456"),
            // In Italy the zero belongs to the number.
            ("+390612345678", "+390612345678"),
            ("+099900000000000", "+99900000000000"),
        ] {
            assert_eq!(normalized_phone(spelling).as_deref(), Some(phone), "{spelling}");
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
            "+0000000",
            "+54911123456",
            "+44 7911 123456",
            "+(44)7911123456",
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
