//! Whether a connection pooler stands before PostgreSQL, and what our sessions are set to, with and without
//! one.
//!
//! The settings come with the start packet, which costs nothing and wins over those of the role and of the
//! database. Poolers refuse them there or drop them, because they give one server session to many clients.
//! That is how one is recognized: our mark among the settings does not arrive. There is no setting to say
//! it, because a wrong one would be found out by wrong answers: with named statements, one client would
//! run the statement of another.

use std::io::ErrorKind;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};

use super::time_limits::CONNECTED_WITHIN;
use super::{Service, StoreError};
use redis_link::timeout::within;

/// A setting of our own that only we send.
const MARK: &str = "seckill.session";

/// The server ends a statement after this long, whatever became of its client. (One that a paused
/// server has not read yet runs when the server goes on.)
const STATEMENT_TIMEOUT: &str = "5s";

/// Adds the settings of a session to its start packet.
pub(super) fn with_settings(options: PgConnectOptions) -> PgConnectOptions {
    options.options([
        ("statement_timeout", STATEMENT_TIMEOUT),
        ("idle_in_transaction_session_timeout", STATEMENT_TIMEOUT),
        // The planner's compilation never pays for statements this small.
        ("jit", "off"),
        // What waits for a row has to see what was committed meanwhile, not to fail: the functions say so.
        ("default_transaction_isolation", "read committed"),
        (MARK, "own"),
    ])
}

/// The same for one transaction, which `settings` may refine. It does not ask whether the transaction may
/// write: where the operator, or the provider of a disk that is full, has forbidden it, that stays.
pub(super) fn begin(isolation: &str, settings: &str) -> String {
    let transaction_timeout = set_where_known!("transaction_timeout", "0", "true");
    format!(
        "begin isolation level {isolation};
         set local statement_timeout = '{STATEMENT_TIMEOUT}';
         set local idle_in_transaction_session_timeout = '{STATEMENT_TIMEOUT}';
         set local jit = off;
         {settings};
         {transaction_timeout};
         select set_config('synchronous_commit', case when current_setting('synchronous_commit') = 'off'
             then 'on' else current_setting('synchronous_commit') end, true)"
    )
}

/// A query that sets a setting which older servers do not know, `$local` to the transaction or not.
///
/// `transaction_timeout` (PostgreSQL 17) of the role or of the database would end a migration, or a snapshot that an
/// audit reads: a transaction of ours is bounded by the limits of its statements and of its pauses.
macro_rules! set_where_known {
    ($name:literal, $value:literal, $($local:tt)+) => {
        concat!(
            "select set_config('", $name, "', '", $value, "', ", $($local)+,
            ") where current_setting('", $name, "', true) is not null"
        )
    };
}
pub(super) use set_where_known;

/// An expression: whether the start packet of this session arrived.
macro_rules! is_own_session {
    () => {
        "current_setting('seckill.session', true) is not distinct from 'own'"
    };
}
pub(super) use is_own_session;

/// Whether connections that are made with `options` are those of a pooler.
pub(super) fn is_at_end_of(options: &PgConnectOptions) -> bool {
    !options.get_options().is_some_and(|settings| settings.contains(MARK))
}

/// Connects once to find out whether `options` lead to a pooler.
///
/// # Errors
/// `Unavailable`, in words for the person who wrote the address, when nothing can be reached there.
pub(super) async fn is_at(options: &PgConnectOptions) -> Result<bool, StoreError> {
    match within(CONNECTED_WITHIN, keeps_settings(options)).await {
        Ok(Ok(keeps)) => Ok(!keeps),
        Ok(Err(error)) if may_be_about_settings(&error) => {
            let plain = within(CONNECTED_WITHIN, options.connect()).await;
            let Ok(Ok(connection)) = plain else { return Err(error.into()) };
            let _ = within(CONNECTED_WITHIN, connection.close()).await;
            Ok(true)
        }
        Ok(Err(error)) => Err(in_words(error, options)),
        Err(silence) => Err(StoreError::unavailable(Service::Postgres, silence)),
    }
}

async fn keeps_settings(options: &PgConnectOptions) -> sqlx::Result<bool> {
    let mut connection: PgConnection = with_settings(options.clone()).connect().await?;
    let question = sqlx::raw_sql(concat!("select ", is_own_session!()));
    let row = question.fetch_one(&mut connection).await?;
    connection.close().await?;
    sqlx::Row::try_get(&row, 0)
}

/// Every pooler has words of its own for a start packet that it does not take. Those of a server that is
/// away, full or not ours to use (the classes 57, 53, 28 and 3D) are not among them.
fn may_be_about_settings(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|answer| answer.code());
    code.is_some_and(|code| !["57", "53", "28", "3D"].iter().any(|class| code.starts_with(class)))
}

/// What keeps a first connection from being made, in words for the person who wrote the address.
fn in_words(error: sqlx::Error, options: &PgConnectOptions) -> StoreError {
    let cause = match &error {
        sqlx::Error::Io(cause) => cause,
        sqlx::Error::Tls(cause) | sqlx::Error::Configuration(cause) => {
            return StoreError::defect(Service::Postgres, cause.to_string());
        }
        _ => return error.into(),
    };
    let place = match options.get_socket() {
        Some(directory) => format!("{}:{}", directory.display(), options.get_port()),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    let words = if cause.kind() == ErrorKind::ConnectionRefused {
        format!("connection refused by {place}")
    } else if cause.to_string().contains("UnsupportedCertVersion") {
        format!(
            "{place} has a certificate of X.509 version 1, which cannot be checked: give it one of version 3, \
             or add sslmode=disable to DATABASE_URL on a network that is yours alone"
        )
    } else {
        format!("{place}: {cause}")
    };
    match cause.kind() {
        // TLS: nobody has to wait for another answer.
        ErrorKind::InvalidData => StoreError::defect(Service::Postgres, words),
        _ => StoreError::unavailable(Service::Postgres, words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_newer_servers_is_set_where_the_server_knows_it() {
        let set = set_where_known!("transaction_timeout", "0", "true");
        assert_eq!(
            set,
            "select set_config('transaction_timeout', '0', true) \
             where current_setting('transaction_timeout', true) is not null"
        );
        assert!(begin("read committed", "").contains(set));
    }
}
