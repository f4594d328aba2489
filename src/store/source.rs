//! Where the address of PostgreSQL stands: in a variable, or in a file that is read again, as is the file of passwords
//! (`PGPASSFILE`).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use url::Url;

use super::session::database_of;
use super::{Service, StoreError};

/// A file with the URL in it.
#[derive(Debug, Clone)]
pub struct UrlFile {
    /// Where it is.
    pub path: PathBuf,
    /// What reads its text.
    pub read: fn(&str) -> Result<String, String>,
}

impl UrlFile {
    /// The current value.
    pub(super) fn url(&self) -> Result<String, String> {
        let text = std::fs::read_to_string(&self.path).map_err(|error| error.to_string())?;
        (self.read)(text.trim_end_matches(['\r', '\n']))
    }
}

/// The parameters of a URL that sqlx reads, beside `options[NAME]`.
const PARAMETERS: [&str; 18] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];

/// Two of them have several names.
const ROOTS: [&str; 3] = ["sslrootcert", "ssl-root-cert", "ssl-ca"];
const MODES: [&str; 2] = ["sslmode", "ssl-mode"];

/// The parameters that libpq knows beside them, whose names may be said.
const UNSUPPORTED: [&str; 28] = [
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "fallback_application_name",
    "gssdelegation",
    "gssencmode",
    "gsslib",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "passfile",
    "replication",
    "require_auth",
    "requirepeer",
    "requiressl",
    "service",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcertmode",
    "sslcompression",
    "sslcrl",
    "sslnegotiation",
    "sslpassword",
    "target_session_attrs",
    "tcp_user_timeout",
];

/// The URL with the parameters that sqlx reads, and what to call the others: at each reading sqlx would log their values, and
/// one of them may be a password.
///
/// # Errors
/// Says what is wrong, without a word of the URL.
pub fn supported(url: &str) -> Result<(String, BTreeSet<String>), String> {
    let form = |_| "it is not of the form postgres://user:password@host:port/database".to_owned();
    let mut parsed = Url::parse(url).map_err(form)?;
    let (mut kept, left_out): (Vec<_>, Vec<_>) = parsed
        .query_pairs()
        .into_owned()
        .partition(|(name, _)| PARAMETERS.contains(&&**name) || name.starts_with("options["));
    // As libpq has it: the authorities that the system trusts, and nothing that checks less.
    let all = kept.len();
    kept.retain(|(name, value)| !(ROOTS.contains(&&**name) && value == "system"));
    if kept.len() < all {
        let mode = kept.iter().rfind(|(name, _)| MODES.contains(&&**name));
        match mode.map(|(_, mode)| mode.as_str()) {
            None => kept.push(("sslmode".to_owned(), "verify-full".to_owned())),
            Some("verify-full") => {}
            Some(_) => return Err("sslrootcert=system needs sslmode=verify-full".to_owned()),
        }
    } else if left_out.is_empty() {
        return Ok((url.to_owned(), BTreeSet::new()));
    }
    parsed.set_query(None);
    if !kept.is_empty() {
        parsed.query_pairs_mut().extend_pairs(kept);
    }
    // A value with an `&` in it that is not escaped looks like a name.
    let named = |name: String| match UNSUPPORTED.contains(&&*name) {
        true => format!("the parameter {name}"),
        false => "a parameter that PostgreSQL does not know".to_owned(),
    };
    Ok((parsed.into(), left_out.into_iter().map(|(name, _)| named(name)).collect()))
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
    /// Parameters of which the log has said that they are left out.
    left_out: Mutex<BTreeSet<String>>,
}

impl AddressSource {
    pub(super) fn new(url: &str, file: Option<UrlFile>, name: String) -> Self {
        Self {
            url: url.to_owned(),
            file,
            name,
            unused: Mutex::default(),
            left_out: Mutex::default(),
        }
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
            Some(file) => {
                file.url().map_err(|why| StoreError::unavailable(Service::Postgres, why))?
            }
            None => self.url.clone(),
        };
        let (url, left_out) =
            supported(&url).map_err(|why| StoreError::defect(Service::Postgres, why))?;
        let mut said = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        for name in left_out {
            if !said.contains(&name) {
                tracing::warn!("DATABASE_URL has {name}, which is not supported and is left out");
                said.insert(name);
            }
        }
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
    fn parameters_that_are_not_supported_are_left_out_and_the_others_stay_as_they_were() {
        let of = |query: &str| {
            let (url, left_out) = supported(&format!("postgres://u:p%40@h/d{query}"))?;
            let kept = url.strip_prefix("postgres://u:p%40@h/d").unwrap_or_default().to_owned();
            Ok::<_, String>((kept, left_out.into_iter().collect::<Vec<_>>().join(" ")))
        };
        for (query, kept, left_out) in [
            ("", "", ""),
            ("?sslmode=require&options[a]=b", "?sslmode=require&options[a]=b", ""),
            ("?channel_binding=require", "", "the parameter channel_binding"),
            (
                "?gsslib=s1&host=/x%20y&gsslib=s2&sslcrl=s3",
                "?host=%2Fx+y",
                "the parameter gsslib the parameter sslcrl",
            ),
            ("?sslrootcert=system", "?sslmode=verify-full", ""),
            ("?sslmode=verify-full&ssl-ca=system", "?sslmode=verify-full", ""),
            (
                "?sslpassword=s3cr&t",
                "",
                "a parameter that PostgreSQL does not know the parameter sslpassword",
            ),
            ("?sslrootcert=/etc/system", "?sslrootcert=/etc/system", ""),
        ] {
            assert_eq!(of(query), Ok((kept.to_owned(), left_out.to_owned())), "{query}");
        }
        for mode in ["disable", "prefer", "require", "verify-ca", "nonsense"] {
            for before in ["", "sslmode=verify-full&"] {
                let refused = of(&format!("?{before}sslmode={mode}&sslrootcert=system"));
                assert!(refused.is_err_and(|why| why.contains("verify-full")), "{before}{mode}");
            }
        }
    }

    #[test]
    fn addresses_with_other_passwords_differ_also_those_of_ipv6() {
        let with = |password: &str| address(&format!("postgres://u:{password}@h/d?hostaddr=::1"));
        assert!(differ(&with("one"), &with("two")) && !differ(&with("one"), &with("one")));
    }
}
