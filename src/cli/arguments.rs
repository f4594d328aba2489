//! Values of flags that need more than a type.

use chrono::{DateTime, NaiveDateTime, Utc};

use crate::model::voucher_terms::to_the_microsecond;

/// An instant with its zone. One without is told what to write.
pub(super) fn instant(text: &str) -> Result<DateTime<Utc>, String> {
    text.parse().map(to_the_microsecond).map_err(|error: chrono::ParseError| {
        let local = text.replacen(' ', "T", 1);
        let local = if local.contains('T') { local } else { format!("{local}T00:00:00") };
        match local.parse::<NaiveDateTime>() {
            Ok(_) => format!("it has no time zone: write {local}+08:00, or {local}Z for UTC"),
            Err(_) => format!("{error}: write it like 2026-11-11T00:00:00+08:00"),
        }
    })
}

/// A text, which may begin with a hyphen. One that begins with two is a flag whose predecessor lacks its value.
pub(super) fn words(text: &str) -> Result<String, String> {
    match text.starts_with("--") {
        true => Err("a text is missing before this flag".to_owned()),
        false => Ok(text.to_owned()),
    }
}
