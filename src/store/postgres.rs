//! The PostgreSQL handle.

use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Postgres};
use tokio::time::{Instant, timeout};

use super::flush::Flusher;
use super::patience::within;
use super::{Service, StoreError, order_batch};
use crate::model::OrderId;

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

/// Connections of one process. Few on purpose: more transactions in flight than cores
/// make a hot row slower, not faster.
const MAX_CONNECTIONS: u32 = 12;

static MIGRATOR: sqlx::migrate::Migrator = sqlx::migrate!();

/// A connection that lay idle for longer is asked whether it lives before it is used.
const TRUSTED_FOR: Duration = Duration::from_secs(2);
/// How long it may take to answer that.
const PING_TIMEOUT: Duration = Duration::from_millis(200);

/// Connections kept out of the pool between purchases.
const MAX_KEPT: usize = 4;

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
    kept: Arc<Mutex<Kept>>,
    flusher: Arc<Flusher>,
}

/// Connections for the hot path. The pool checks each connection that comes back with a
/// round trip to the server: for a statement that takes two, a third is much.
#[derive(Debug, Default)]
struct Kept {
    /// With the instant each was last used.
    idle: Vec<(PoolConnection<Postgres>, Instant)>,
    closed: bool,
}

/// A connection on which work failed, or somebody stopped listening for an answer, is of no
/// use any more.
struct CloseIfAbandoned(Option<PoolConnection<Postgres>>);

impl Drop for CloseIfAbandoned {
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
            // Those of a rush's first moment: connecting takes turns that it has not got then.
            .min_connections(4)
            .acquire_timeout(POOL_TIMEOUT)
            // A round trip per query for what the query itself finds out.
            .test_before_acquire(false)
            // After a pause it may be dead without anybody having noticed.
            .before_acquire(|connection, state| {
                Box::pin(async move {
                    if state.idle_for < TRUSTED_FOR {
                        return Ok(true);
                    }
                    Ok(matches!(within(PING_TIMEOUT, connection.ping()).await, Ok(Ok(()))))
                })
            })
            // A connection from before the migration cannot know the function yet: it learns of it
            // when it is first called.
            .after_connect(|connection, _| {
                Box::pin(async move {
                    match order_batch::prepare(connection).await {
                        Err(sqlx::Error::Database(_)) => Ok(()),
                        done => done,
                    }
                })
            })
            .connect_lazy_with(options);
        Ok(Self { pool, kept: Arc::default(), flusher: Arc::default() })
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
        let unavailable = |cause| StoreError::Unavailable { service: Service::Postgres, cause };
        match within(ACQUIRE_TIMEOUT, self.pool.acquire()).await {
            Ok(acquired) => acquired.map_err(|error| unavailable(error.into())),
            Err(silence) => Err(unavailable(silence.into())),
        }
    }

    /// Runs `work`, one or more whole statements, on a connection that is kept for the next
    /// such work when this succeeds. When it fails or is dropped half-way, the connection is
    /// closed: nobody knows what state it is in.
    ///
    /// # Errors
    /// `Unavailable` without a connection; what `work` returns.
    pub async fn with_kept<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let kept = self.kept().idle.pop();
        let kept = kept.filter(|(_, used)| used.elapsed() < TRUSTED_FOR);
        let mut connection = CloseIfAbandoned(match kept {
            Some((connection, _)) => Some(connection),
            None => Some(Box::pin(self.acquire()).await?),
        });
        let Some(raw) = &mut connection.0 else {
            return Err(StoreError::defect(Service::Postgres, "a connection vanished"));
        };
        let done = match work(raw).await {
            Ok(done) => done,
            Err(error) => {
                // The others are likely as old, and as dead, as this one.
                self.kept().idle.clear();
                return Err(error);
            }
        };
        let connection = connection.0.take();
        let mut kept = self.kept();
        if kept.idle.len() < MAX_KEPT && !kept.closed {
            kept.idle.extend(connection.map(|connection| (connection, Instant::now())));
        }
        Ok(done)
    }

    /// Waits until `order`, which somebody has seen here, is on disk, whether its commit waited for
    /// that or not.
    ///
    /// # Errors
    /// `Unknown` when the server does not say; `Unavailable` when it was restarted, and the order is
    /// not there any more.
    pub async fn flush(&self, order: OrderId) -> Result<(), StoreError> {
        self.flusher.flush(self, order).await
    }

    /// Whether as many wait for the disk already as may.
    pub fn is_flush_behind(&self) -> bool {
        self.flusher.is_full()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(|poison| poison.into_inner())
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
        {
            let mut kept = self.kept();
            kept.closed = true;
            kept.idle.clear();
        }
        // It would also wait, for minutes, for its own attempts to reach a server that is gone.
        let _ = timeout(CLOSE_TIMEOUT, self.pool.close()).await;
    }
}
