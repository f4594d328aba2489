//! Where the address of PostgreSQL stands: in a variable, or in a file that is read again, as is the file of passwords
//! (`PGPASSFILE`).

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use super::stale_sessions::database_of;
use super::{Service, StoreError};

/// A file with the URL in it.
#[derive(Debug, Clone)]
pub struct UrlFile {
    /// Where it is.
    pub path: PathBuf,
    /// What reads its text.
    pub read: fn(&str) -> Result<String, String>,
}

/// Where the address stands.
#[derive(Debug)]
pub(super) struct AddressSource {
    url: String,
    file: Option<UrlFile>,
    /// What our connections are called.
    name: String,
    /// Why the newest text is not used, and how many looks in a row have found that.
    unused: Mutex<(String, u32)>,
}

impl AddressSource {
    pub(super) fn new(url: &str, file: Option<UrlFile>, name: String) -> Self {
        Self { url: url.to_owned(), file, name, unused: Mutex::default() }
    }

    /// Whether it stands in a file.
    pub(super) const fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// What stands there now, where it leads to the same database as `first`. Else the log says why it is not used: once
    /// for each reason, when a second look finds the same. One look may find a file that is half written.
    pub(super) fn newest_beside(&self, first: &PgConnectOptions) -> Option<PgConnectOptions> {
        let found = self.leading_to(first);
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        let why = found.as_ref().err().cloned().unwrap_or_default();
        if unused.0 != why {
            *unused = (why, 0);
        }
        unused.1 = unused.1.saturating_add(1);
        if found.is_err() && unused.1 == 2 {
            tracing::warn!("the file of DATABASE_URL {}", unused.0);
        }
        found.ok()
    }

    /// The same, without a word in the log.
    pub(super) fn leading_to(&self, first: &PgConnectOptions) -> Result<PgConnectOptions, String> {
        let address = self
            .address()
            .map_err(|error| format!("is of no use, and what it said before holds: {error}"))?;
        let (place, options) = place(&address);
        if is_elsewhere(&address, first) {
            let options = options.map_or_else(String::new, |options| format!(" with {options}"));
            return Err(format!(
                "names another server or database, {place}{options}: it is used after the next start"
            ));
        }
        Ok(address)
    }

    /// What stands there now, without the settings of our sessions.
    ///
    /// # Errors
    /// `Defect` when it is not a PostgreSQL URL, `Unavailable` when the file is of no use now.
    pub(super) fn address(&self) -> Result<PgConnectOptions, StoreError> {
        let url = match &self.file {
            Some(UrlFile { path, read }) => {
                let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
                let url = text.and_then(|text| read(text.trim_end_matches(['\r', '\n'])));
                url.map_err(|why| StoreError::unavailable(Service::Postgres, why))?
            }
            None => self.url.clone(),
        };
        Ok(PgConnectOptions::from_str(&url)?
            .application_name(&self.name)
            // It is about floats in text, which we never read, and poolers refuse it.
            .extra_float_digits(None)
            .log_slow_statements(tracing::log::LevelFilter::Off, Duration::ZERO))
    }
}

/// The database that an address leads to, and the options of its sessions, which may name a schema.
fn place(address: &PgConnectOptions) -> (String, Option<&str>) {
    (database_of(address), address.get_options())
}

/// Whether two addresses, both without the settings of our sessions, lead to different tables.
fn is_elsewhere(address: &PgConnectOptions, other: &PgConnectOptions) -> bool {
    place(address) != place(other)
}

/// Whether two addresses differ in anything, the password included, which only this form of them shows.
pub(super) fn differ(address: &PgConnectOptions, other: &PgConnectOptions) -> bool {
    format!("{address:?}") != format!("{other:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str) -> PgConnectOptions {
        let Ok(address) = PgConnectOptions::from_str(url) else { unreachable!("{url}") };
        address
    }

    #[test]
    fn a_database_without_a_name_is_that_of_the_user_and_options_may_name_a_schema() {
        for (one, other, elsewhere) in [
            ("postgres://alice@h", "postgres://bob@h", true),
            ("postgres://alice@h", "postgres://alice@h/alice", false),
            ("postgres://alice@h/d", "postgres://bob:new@h/d?sslmode=require", false),
            ("postgres://h/d", "postgres://h/e", true),
            ("postgres://h/d", "postgres://i/d", true),
            ("postgres://h/d", "postgres://h:5433/d", true),
            ("postgres://h/d", "postgres://h/d?host=/run", true),
            ("postgres://h/d?options=-csearch_path%3Da", "postgres://h/d", true),
            (
                "postgres://a@h/d?options=-csearch_path%3Da",
                "postgres://b@h/d?options=-csearch_path%3Db",
                true,
            ),
        ] {
            assert_eq!(is_elsewhere(&address(one), &address(other)), elsewhere, "{one} {other}");
        }
    }

    #[test]
    fn addresses_with_other_passwords_differ_also_those_of_ipv6() {
        let with = |password: &str| address(&format!("postgres://u:{password}@h/d?hostaddr=::1"));
        assert!(differ(&with("one"), &with("two")) && !differ(&with("one"), &with("one")));
    }
}
