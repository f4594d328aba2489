//! The PostgreSQL handle.

use std::str::FromStr;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Postgres};
use tokio::time::timeout;

use super::timeout::within;
use super::{Service, StoreError};

/// How long a request waits for a connection. Below a second, so that a buyer hears
/// "unavailable" within one when the database is gone.
const ACQUIRE_TIMEOUT: Duration = Duration::from_millis(700);

/// The pool's own time-out for the same, a plain one: out of the way.
const POOL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a statement outside a purchase may take, its connection included. A server that
/// is paused, or cut off, answers nothing at all.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);

/// How long a handle that is closed waits for what is under way. Purchases have ended before.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The server ends a statement after this long, whatever became of its client: the
/// bound on how long a forgotten purchase can still write.
const STATEMENT_TIMEOUT: &str = "5s";

/// An order that was acknowledged survives a crash of the server, whatever the default of the role or
/// the database is. A stricter default stays.
const SYNCHRONOUS_COMMIT: &str = "select set_config('synchronous_commit', 'on', false)
    where current_setting('synchronous_commit') = 'off'";

/// Connections of one process. Few on purpose: more transactions in flight than cores
/// make a hot row slower, not faster.
const MAX_CONNECTIONS: u32 = 12;

static MIGRATOR: sqlx::migrate::Migrator = sqlx::migrate!();

/// A connection that lay idle for longer is asked whether it lives before it is used.
const TRUSTED_FOR: Duration = Duration::from_secs(2);
/// How long it may take to answer that.
const PING_TIMEOUT: Duration = Duration::from_millis(200);

/// The answer of one statement outside a purchase, or the news that none came in time.
///
/// # Errors
/// `Unknown` when none came; the connection is used again when it has come after all.
pub(super) async fn in_time<T>(
    statement: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    match within(ANSWER_TIMEOUT, statement).await {
        Ok(answer) => Ok(answer?),
        Err(silence) => Err(StoreError::unknown(Service::Postgres, silence)),
    }
}

/// A pool of connections to PostgreSQL. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Database {
    pool: PgPool,
}

/// Closes a connection on which work failed or was broken off.
struct CloseOnDrop(Option<PoolConnection<Postgres>>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if let Some(connection) = &mut self.0 {
            connection.close_on_drop();
        }
    }
}

impl Database {
    /// A handle that connects when it is first used.
    ///
    /// # Errors
    /// `Defect` when `url` is not a PostgreSQL URL.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url)?
            .application_name("seckill")
            .options([
                ("statement_timeout", STATEMENT_TIMEOUT),
                ("idle_in_transaction_session_timeout", STATEMENT_TIMEOUT),
            ])
            // The planner's compilation never pays for statements this small.
            .options([("jit", "off")])
            .log_slow_statements(tracing::log::LevelFilter::Off, Duration::ZERO);
        let pool = PgPoolOptions::new()
            .max_connections(MAX_CONNECTIONS)
            .acquire_timeout(POOL_TIMEOUT)
            // A round trip per query for what the query itself finds out.
            .test_before_acquire(false)
            .after_connect(|connection, _| {
                Box::pin(async move {
                    sqlx::query(SYNCHRONOUS_COMMIT).execute(connection).await.map(drop)
                })
            })
            // After a pause it may be dead without anybody having noticed.
            .before_acquire(|connection, state| {
                Box::pin(async move {
                    if state.idle_for < TRUSTED_FOR {
                        return Ok(true);
                    }
                    Ok(matches!(within(PING_TIMEOUT, connection.ping()).await, Ok(Ok(()))))
                })
            })
            .connect_lazy_with(options);
        Ok(Self { pool })
    }

    /// The pool, for statements outside a purchase.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// One connection.
    ///
    /// # Errors
    /// `Unavailable` when none was to be had in time: nothing was sent.
    pub async fn acquire(&self) -> Result<PoolConnection<Postgres>, StoreError> {
        match within(ACQUIRE_TIMEOUT, self.pool.acquire()).await {
            Ok(acquired) => {
                acquired.map_err(|error| StoreError::unavailable(Service::Postgres, error))
            }
            Err(timed_out) => Err(StoreError::unavailable(Service::Postgres, timed_out)),
        }
    }

    /// Runs `work`, whole statements, on a connection of its own. When `work` fails or is dropped
    /// half-way, the connection is closed: its state is unknown.
    ///
    /// # Errors
    /// `Unavailable` without a connection; what `work` returns.
    pub async fn run<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut connection = CloseOnDrop(Some(self.acquire().await?));
        let Some(open) = &mut connection.0 else {
            return Err(StoreError::defect(Service::Postgres, "a connection vanished"));
        };
        let done = work(open).await?;
        // It goes back to the pool.
        drop(connection.0.take());
        Ok(done)
    }

    /// Applies the migrations that are missing. Safe from several processes at once:
    /// an advisory lock lets one in.
    ///
    /// # Errors
    /// `Unavailable` without a connection, `Defect` when a migration fails or an
    /// applied one differs from ours.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let mut connection = self.acquire().await?;
        MIGRATOR.run(&mut *connection).await.map_err(|error| match error {
            sqlx::migrate::MigrateError::Execute(cause) => cause.into(),
            other => StoreError::defect(Service::Postgres, other.to_string()),
        })
    }

    /// Whether the server answers.
    ///
    /// # Errors
    /// As any statement.
    pub async fn ping(&self) -> Result<(), StoreError> {
        sqlx::query("select 1").execute(&self.pool).await?;
        Ok(())
    }

    /// Closes the connections, waiting a moment for those in use.
    pub async fn close(&self) {
        // It would also wait, for minutes, for its own attempts to reach a server that is gone.
        let _ = timeout(CLOSE_TIMEOUT, self.pool.close()).await;
    }
}
