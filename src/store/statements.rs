//! A piece of work on a connection of a pool: statements, or one transaction, within a time.

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

/// How a piece of work runs: on a connection of which pool, begun how, within which time. The functions that make one
/// name the usual kinds.
///
/// If no answer comes in time, the connection is closed: in the pool it would be pinged without a time-out.
#[derive(Debug)]
#[must_use]
pub struct Work<'p> {
    pool: &'p PgPool,
    /// What begins the transaction. Without it each statement is one.
    begin: Option<String>,
    /// How long it may take, the wait for a connection included.
    within: Option<Duration>,
    /// How long it may take once it has a connection.
    within_once_connected: Option<Duration>,
    /// Whether it tells the log that PostgreSQL is away, or back. What may take long does not: its time may be over
    /// although the server works on it.
    tells_outages: bool,
    /// Whether it changes nothing, so that without an answer nothing is unknown.
    only_reads: bool,
}

impl<'p> Work<'p> {
    /// One statement.
    pub(super) fn statement(pool: &'p PgPool) -> Self {
        Self {
            pool,
            begin: None,
            within: Some(ANSWER_WITHIN),
            within_once_connected: None,
            tells_outages: true,
            only_reads: false,
        }
    }

    /// One statement that may wait for the row of a voucher, or a transaction with `settings`. Its time begins when it has a
    /// connection: so a row that is held means "nothing was done", however long the wait for the connection was.
    pub(super) fn step_with(settings: &str, pool: &'p PgPool) -> Self {
        let begin = (!settings.is_empty()).then(|| pooler::begin("read committed", settings));
        let within_once_connected = Some(ANSWER_WITHIN);
        Self { begin, within: None, within_once_connected, ..Self::statement(pool) }
    }

    /// What is nobody's purchase, as one transaction of at most `limit`.
    pub fn transaction(limit: Duration, pool: &'p PgPool) -> Self {
        let begin = Some(pooler::begin("read committed", &ends_after(limit)));
        Self { begin, within: Some(limit), tells_outages: false, ..Self::statement(pool) }
    }

    /// Reads on one snapshot of the database, for at most `limit`.
    pub fn snapshot(limit: Duration, pool: &'p PgPool) -> Self {
        let begin = Some(pooler::begin("repeatable read, read only", &ends_after(limit)));
        Self { begin, only_reads: true, ..Self::transaction(limit, pool) }
    }

    /// The same for as long as it takes: `work` bounds itself.
    pub(super) fn unbounded(self) -> Self {
        Self { within: None, ..self }
    }

    /// Runs `work`.
    ///
    /// # Errors
    /// `Unavailable` without a connection, `Unknown` when it takes too long; what `work` returns.
    pub async fn run<T>(
        self,
        work: impl AsyncFnOnce(&mut DatabaseSession) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        self.run_or_refuse(work).await
    }

    /// The same where `work` may refuse what it reads.
    pub(super) async fn run_or_refuse<T, E: Into<StoreError>>(
        self,
        work: impl AsyncFnOnce(&mut DatabaseSession) -> Result<T, E>,
    ) -> Result<T, StoreError> {
        let answers = OUTAGE.answers();
        // On the heap: each function around a future holds it more than once, and a thread's stack is small.
        let answer = Box::pin(async {
            let session = connect(self.pool).await;
            if let Err(error) = &session
                && self.tells_outages
            {
                OUTAGE.begins(error, answers);
            }
            at_most(self.within_once_connected, Box::pin(session?.run(self.begin, work))).await
        });
        let done = at_most(self.within, answer).await;
        if self.tells_outages {
            OUTAGE.observe(&done, answers);
        }
        if self.only_reads { done.map_err(StoreError::into_read_error) } else { done }
    }
}

/// Runs one statement on a connection of `pool`.
///
/// # Errors
/// As those of [`Work::run`].
pub(super) async fn in_time<T>(
    pool: &PgPool,
    statement: impl AsyncFnOnce(&mut DatabaseSession) -> sqlx::Result<T>,
) -> Result<T, StoreError> {
    Work::statement(pool).run(statement).await
}

/// Runs one statement that may wait for the row of a voucher.
///
/// # Errors
/// As those of [`Work::run`].
pub(super) async fn step_in_time<T>(
    pool: &PgPool,
    statement: impl AsyncFnOnce(&mut DatabaseSession) -> sqlx::Result<T>,
) -> Result<T, StoreError> {
    Work::step_with("", pool).run(statement).await
}

fn ends_after(limit: Duration) -> String {
    format!("set local statement_timeout = {}", limit.as_millis())
}

async fn connect(pool: &PgPool) -> Result<DatabaseSession, StoreError> {
    match within(CONNECTION_WITHIN, Connecting::in_pool(pool)).await {
        Ok(Ok(connection)) => Ok(DatabaseSession::on(connection, pool.connect_options())),
        Ok(Err(error)) => Err(StoreError::unavailable(Service::Postgres, error)),
        Err(timed_out) => Err(StoreError::unavailable(Service::Postgres, timed_out)),
    }
}

/// `answer`, unless it takes longer. It is dropped then, and with it its connection is closed, as when the caller drops it.
async fn at_most<T>(
    limit: Option<Duration>,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let Some(limit) = limit else { return answer.await };
    match within(limit, answer).await {
        Ok(answer) => answer,
        Err(silence) => Err(StoreError::unknown(Service::Postgres, silence)),
    }
}

/// How often a start asks before it gives up.
const START_TRIES: usize = 5;

/// What `read` reads, which a start has to know before it serves anybody. A database that has just started may be slow:
/// so it is asked a few times.
///
/// # Errors
/// That of the last try.
pub(crate) async fn read_at_start<T, R>(mut read: impl FnMut() -> R) -> Result<T, StoreError>
where
    R: Future<Output = Result<T, StoreError>>,
{
    let mut tries = 0;
    loop {
        let answer = read().await;
        tries += 1;
        if tries == START_TRIES || answer.as_ref().err().is_none_or(|error| !error.retry_may_help())
        {
            return answer;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    async fn tries_before(answer: impl Fn(usize) -> Result<(), StoreError>) -> (usize, bool) {
        let tries = Cell::new(0);
        let read = || {
            tries.set(tries.get() + 1);
            std::future::ready(answer(tries.get()))
        };
        let is_read = read_at_start(read).await.is_ok();
        (tries.get(), is_read)
    }

    #[tokio::test]
    async fn a_start_asks_a_few_times_and_only_where_that_may_help() {
        let away = || StoreError::unavailable(Service::Postgres, std::fmt::Error);
        let slow = |try_number| if try_number < 5 { Err(away()) } else { Ok(()) };
        assert_eq!(tries_before(slow).await, (5, true));
        assert_eq!(tries_before(|_| Err(away())).await, (5, false));
        let defect = |_| Err(StoreError::from(sqlx::Error::RowNotFound));
        assert_eq!(tries_before(defect).await, (1, false));
    }
}
