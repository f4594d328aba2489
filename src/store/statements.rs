//! Statements and transactions on a connection of a pool, each within a time.

use std::time::Duration;

use sqlx::postgres::PgPool;

use super::connecting::Connecting;
use super::outage::DatabaseOutage;
use super::session::DatabaseSession;
use super::time_limits::{ANSWER_WITHIN, CONNECTION_WITHIN};
use super::{Service, StoreError, pooler};
use redis_link::timeout::within;

/// Shared by all handles of the process: it is about the log.
pub(super) static OUTAGE: DatabaseOutage = DatabaseOutage::new();

/// Runs one statement on a connection of `pool`. Where no answer comes in time, the connection is closed:
/// in the pool it would be pinged without a time-out.
///
/// # Errors
/// `Unavailable` without a connection, `Unknown` when no answer came in time; what `statement` returns.
pub(super) async fn in_time<T>(
    pool: &PgPool,
    statement: impl AsyncFnOnce(&mut DatabaseSession) -> sqlx::Result<T>,
) -> Result<T, StoreError> {
    let answer = bounded(ANSWER_WITHIN, pool, None, statement).await;
    OUTAGE.observe(&answer);
    answer
}

/// Runs one statement that may wait for the row of a voucher. Its time begins when it has a connection: so a
/// row that is held is told as "nothing was done", however long the wait for the connection was.
///
/// # Errors
/// As those of [`in_time`].
pub(super) async fn step_in_time<T>(
    pool: &PgPool,
    statement: impl AsyncFnOnce(&mut DatabaseSession) -> sqlx::Result<T>,
) -> Result<T, StoreError> {
    step(pool, None, statement).await
}

/// The same as a transaction with `settings`.
pub(super) async fn step_with<T>(
    settings: &str,
    pool: &PgPool,
    work: impl AsyncFnOnce(&mut DatabaseSession) -> sqlx::Result<T>,
) -> Result<T, StoreError> {
    step(pool, Some(pooler::begin("read committed", settings)), work).await
}

async fn step<T>(
    pool: &PgPool,
    begin: Option<String>,
    work: impl AsyncFnOnce(&mut DatabaseSession) -> sqlx::Result<T>,
) -> Result<T, StoreError> {
    let answer = async {
        let session = acquire(pool).await?;
        match within(ANSWER_WITHIN, session.run(begin, work)).await {
            Ok(answer) => answer,
            Err(silence) => Err(StoreError::unknown(Service::Postgres, silence)),
        }
    };
    let answer = answer.await;
    OUTAGE.observe(&answer);
    answer
}

/// Runs `work`, which is nobody's purchase, as one transaction of at most `limit`.
///
/// # Errors
/// `Unavailable` without a connection, `Unknown` when it takes longer; what `work` returns.
pub async fn transaction_within<T>(
    limit: Duration,
    pool: &PgPool,
    work: impl AsyncFnOnce(&mut DatabaseSession) -> sqlx::Result<T>,
) -> Result<T, StoreError> {
    bounded(limit, pool, Some(pooler::begin("read committed", &ends_after(limit))), work).await
}

/// Runs `work`, which is nobody's purchase, as one transaction with `settings`, however long it takes.
///
/// # Errors
/// `Unavailable` without a connection; what `work` returns.
pub(super) async fn transaction_with<T>(
    settings: &str,
    pool: &PgPool,
    work: impl AsyncFnOnce(&mut DatabaseSession) -> sqlx::Result<T>,
) -> Result<T, StoreError> {
    let begin = pooler::begin("read committed", settings);
    acquire(pool).await?.run(Some(begin), work).await
}

/// Runs `work`, which only reads, on one snapshot of the database, for at most `limit`.
///
/// # Errors
/// `Unavailable` when it takes longer; what `work` returns.
pub async fn snapshot_within<T>(
    limit: Duration,
    pool: &PgPool,
    work: impl AsyncFnOnce(&mut DatabaseSession) -> sqlx::Result<T>,
) -> Result<T, StoreError> {
    let begin = pooler::begin("repeatable read, read only", &ends_after(limit));
    bounded(limit, pool, Some(begin), work).await.map_err(StoreError::into_read_error)
}

fn ends_after(limit: Duration) -> String {
    format!("set local statement_timeout = {}", limit.as_millis())
}

/// A connection of `pool`.
///
/// # Errors
/// `Unavailable` when none was to be had in time: nothing was sent.
pub(super) async fn acquire(pool: &PgPool) -> Result<DatabaseSession, StoreError> {
    match within(CONNECTION_WITHIN, Connecting::in_pool(pool)).await {
        Ok(Ok(connection)) => Ok(DatabaseSession::on(connection, pool.connect_options())),
        Ok(Err(error)) => Err(StoreError::unavailable(Service::Postgres, error)),
        Err(timed_out) => Err(StoreError::unavailable(Service::Postgres, timed_out)),
    }
}

pub(super) async fn bounded<T, E: Into<StoreError>>(
    limit: Duration,
    pool: &PgPool,
    begin: Option<String>,
    work: impl AsyncFnOnce(&mut DatabaseSession) -> Result<T, E>,
) -> Result<T, StoreError> {
    // The connection is also closed when time is over or the caller drops this future.
    match within(limit, async { acquire(pool).await?.run(begin, work).await }).await {
        Ok(answer) => answer,
        Err(silence) => Err(StoreError::unknown(Service::Postgres, silence)),
    }
}
