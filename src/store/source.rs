//! Where the address of PostgreSQL stands: in a variable, or in a file that is read again, as is the file of passwords
//! (`PGPASSFILE`).

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Once;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

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
    /// Says once that the file names another database.
    elsewhere: Once,
}

impl AddressSource {
    pub(super) fn new(url: &str, file: Option<UrlFile>, name: String) -> Self {
        Self { url: url.to_owned(), file, name, elsewhere: Once::new() }
    }

    /// Whether it stands in a file.
    pub(super) const fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// The file names another server or database than at the start.
    pub(super) fn tell_of_elsewhere(&self) {
        self.elsewhere.call_once(|| {
            tracing::warn!(
                "the file of DATABASE_URL names another server or database: it is used after the next start"
            );
        });
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

/// Whether two addresses lead to different databases.
pub(super) fn is_elsewhere(address: &PgConnectOptions, other: &PgConnectOptions) -> bool {
    let place = |address: &PgConnectOptions| {
        let socket = address.get_socket().cloned();
        let database = address.get_database().map(str::to_owned);
        (address.get_host().to_owned(), address.get_port(), socket, database)
    };
    place(address) != place(other)
}
