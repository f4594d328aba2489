//! Values of flags that need more than a type.

use chrono::{DateTime, NaiveDateTime, Utc};
use clap::Args;

use crate::config::ConfigError;
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

/// The flag of commands that cannot be undone.
#[derive(Debug, Clone, Copy, Args)]
pub struct Yes {
    /// Do it: nothing can take it back. Without this, only say what would be done
    #[arg(long = "yes")]
    pub(super) is_given: bool,
}

impl Yes {
    /// Without the flag, returns an error that says `what` would be done.
    pub(super) fn or_say(self, what: String) -> Result<(), ConfigError> {
        if self.is_given { Ok(()) } else { Err(ConfigError(format!("{what}: add --yes"))) }
    }
}
