//! The PostgreSQL handle: one pool for purchases, and a small one for everything else, so that no
//! reader takes a connection from a buyer.

use std::str::FromStr;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Postgres};
use tokio::time::timeout;

use super::distribution::{self, Distribution, DistributionError};
use super::durability::{DatabaseDurability, DurabilityCheck};
use super::node_name::{NodeName, PROGRAM};
use super::outage::DatabaseOutage;
use super::time_limits::{ANSWER_WITHIN, CONNECTION_WITHIN};
use super::{MigrationError, Service, StoreError, migrations};
use redisson_lock::timeout::within;

/// The pool's own time-out for a connection. It is longer, so that `CONNECTION_WITHIN` decides.
const POOL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a handle that is closed waits for what is under way. Purchases have ended before.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The server ends a statement after this long, whatever became of its client. (One that a paused
/// server has not read yet runs when the server goes on.)
const STATEMENT_TIMEOUT: &str = "5s";

/// Connections of one process for purchases: four batches in flight, and the reads of vouchers and
/// owners. Few on purpose: more transactions in flight than cores make a hot row slower, not faster.
const PURCHASE_CONNECTIONS: u32 = 8;

/// Connections of one process for everything else.
const OTHER_CONNECTIONS: u32 = 4;

/// Connections of one process for the steps of an order's life, and for changes of a voucher. They may wait
/// for the row of a voucher that sells fast, or that somebody holds: no reader waits behind them.
const STEP_CONNECTIONS: u32 = 2;

/// Shared by all handles of the process: it is about the log.
static OUTAGE: DatabaseOutage = DatabaseOutage::new();

/// A connection that lay idle for longer is asked whether it lives before it is used.
const TRUSTED_FOR: Duration = Duration::from_secs(2);
/// How long it may take to answer that.
const PING_TIMEOUT: Duration = Duration::from_millis(200);

/// Runs one statement on a connection of `pool`. Where no answer comes in time, the connection is closed:
/// in the pool it would be pinged without a time-out.
///
/// # Errors
/// `Unavailable` without a connection, `Unknown` when no answer came in time; what `statement` returns.
pub(super) async fn in_time<T>(
    pool: &PgPool,
    statement: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
) -> Result<T, StoreError> {
    let answer = bounded(ANSWER_WITHIN, pool, false, statement).await;
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
    statement: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
) -> Result<T, StoreError> {
    let answer = async {
        let mut connection = ClosedUnlessKept::new(acquire(pool).await?);
        match within(ANSWER_WITHIN, statement(connection.get())).await {
            Ok(answer) => {
                let answer = answer?;
                connection.keep();
                Ok(answer)
            }
            Err(silence) => Err(StoreError::unknown(Service::Postgres, silence)),
        }
    };
    let answer = answer.await;
    OUTAGE.observe(&answer);
    answer
}

/// A connection of `pool`.
///
/// # Errors
/// `Unavailable` when none was to be had in time: nothing was sent.
async fn acquire(pool: &PgPool) -> Result<PoolConnection<Postgres>, StoreError> {
    // In a box: making a connection is a large future, and the callers of this are deep already.
    match Box::pin(within(CONNECTION_WITHIN, pool.acquire())).await {
        Ok(acquired) => acquired.map_err(|error| StoreError::unavailable(Service::Postgres, error)),
        Err(timed_out) => Err(StoreError::unavailable(Service::Postgres, timed_out)),
    }
}

/// [`in_time`] with another limit. `closing` is for work after which the connection is of no other use.
async fn bounded<T>(
    limit: Duration,
    pool: &PgPool,
    closing: bool,
    statement: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
) -> Result<T, StoreError> {
    let answer = async {
        let acquired = acquire(pool).await?;
        // It is also closed when time is over or the caller drops this future.
        let mut connection = ClosedUnlessKept::new(acquired);
        let answer = statement(connection.get()).await?;
        if !closing {
            connection.keep();
        }
        Ok(answer)
    };
    match within(limit, answer).await {
        Ok(answer) => answer,
        Err(silence) => Err(StoreError::unknown(Service::Postgres, silence)),
    }
}

/// Connections to PostgreSQL. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Database {
    purchases: PgPool,
    others: PgPool,
    steps: PgPool,
    durability: DurabilityCheck,
    node: Option<NodeName>,
}

/// A connection that is closed when this is dropped, for work on it failed or was broken off.
struct ClosedUnlessKept(Option<PoolConnection<Postgres>>);

impl ClosedUnlessKept {
    fn new(connection: PoolConnection<Postgres>) -> Self {
        Self(Some(connection))
    }

    fn get(&mut self) -> &mut PgConnection {
        self.0.as_mut().unwrap_or_else(|| unreachable!("a connection is there until it is kept"))
    }

    /// The work is done: the connection goes back to its pool.
    fn keep(mut self) {
        drop(self.0.take());
    }
}

impl Drop for ClosedUnlessKept {
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
        Self::connecting(url, None)
    }

    /// The handle of a server process: its connections carry the name of `node`.
    pub fn of_node(url: &str, node: NodeName) -> Result<Self, StoreError> {
        Self::connecting(url, Some(node))
    }

    fn connecting(url: &str, node: Option<NodeName>) -> Result<Self, StoreError> {
        let name = node.map_or_else(|| PROGRAM.to_owned(), |node| node.to_string());
        let options = PgConnectOptions::from_str(url)?
            .application_name(&name)
            .options([
                ("statement_timeout", STATEMENT_TIMEOUT),
                ("idle_in_transaction_session_timeout", STATEMENT_TIMEOUT),
            ])
            // The planner's compilation never pays for statements this small.
            .options([("jit", "off")])
            .log_slow_statements(tracing::log::LevelFilter::Off, Duration::ZERO);
        let durability = DurabilityCheck::default();
        let purchases = pool(PURCHASE_CONNECTIONS, options.clone(), &durability);
        let others = pool(OTHER_CONNECTIONS, options.clone(), &durability);
        let steps = pool(STEP_CONNECTIONS, options, &durability);
        Ok(Self { purchases, others, steps, durability, node })
    }

    /// From now on warns of a server that runs with `fsync` or `full_page_writes` off, and with
    /// `required` does not connect to one.
    pub fn watch_durability(&self, required: bool) {
        self.durability.watch(required);
    }

    /// What the newest connection was told.
    pub fn durability(&self) -> DatabaseDurability {
        self.durability.found()
    }

    /// The name of the server process whose handle this is.
    pub fn node(&self) -> Option<NodeName> {
        self.node
    }

    /// Runs `work`, which only reads and is nobody's purchase, on a connection of its own for at most
    /// `limit`. Then the connection is closed: its settings are those of `work`.
    ///
    /// # Errors
    /// `Unavailable` when it takes longer; what `work` returns.
    pub async fn read_within<T>(
        &self,
        limit: Duration,
        work: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        let work = async |connection: &mut PgConnection| {
            let limit_ms = limit.as_millis().to_string();
            let set = sqlx::query("select set_config('statement_timeout', $1, false)");
            set.bind(limit_ms).execute(&mut *connection).await?;
            work(connection).await
        };
        bounded(limit, &self.others, true, work).await.map_err(StoreError::into_read_error)
    }

    /// The pool for statements outside a purchase.
    pub fn pool(&self) -> &PgPool {
        &self.others
    }

    /// The pool for what may wait for the row of a voucher, outside a purchase.
    pub fn steps(&self) -> &PgPool {
        &self.steps
    }

    /// The pool that purchases have to themselves.
    pub fn purchases(&self) -> &PgPool {
        &self.purchases
    }

    /// One connection for a purchase.
    ///
    /// # Errors
    /// `Unavailable` when none was to be had in time: nothing was sent.
    async fn acquire(&self) -> Result<PoolConnection<Postgres>, StoreError> {
        acquire(&self.purchases).await
    }

    /// Runs `work` of a purchase, whole statements, on a connection of its own. When `work` fails or is
    /// dropped half-way, the connection is closed: its state is unknown.
    ///
    /// # Errors
    /// `Unavailable` without a connection; what `work` returns.
    pub async fn run<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let acquired = self.acquire().await;
        OUTAGE.observe_failure(&acquired);
        let mut connection = ClosedUnlessKept::new(acquired?);
        let done = work(connection.get()).await;
        match &done {
            Err(error) if !error.outcome_unknown() => {}
            answer => OUTAGE.observe(answer),
        }
        if done.is_ok() {
            connection.keep();
        }
        done
    }

    /// Applies the migrations that are missing. Safe from several processes at once:
    /// an advisory lock lets one in.
    ///
    /// # Errors
    /// `MadeBeforeRelease` when a version before 0.1.0 made the database. `Unavailable` also when another
    /// session keeps a lock that a migration needs. `Defect` when a migration fails, or differs from the
    /// one that was applied.
    pub async fn migrate(&self) -> Result<(), MigrationError> {
        // Its settings are not for purchases: the connection is closed.
        let mut connection = ClosedUnlessKept::new(self.acquire().await?);
        migrations::run(connection.get()).await
    }

    /// Whether every migration of this version was applied. It only reads.
    ///
    /// # Errors
    /// `MadeBeforeRelease` when a version before 0.1.0 made the database.
    pub async fn is_migrated(&self) -> Result<bool, MigrationError> {
        let mut connection = ClosedUnlessKept::new(self.acquire().await?);
        migrations::are_applied(connection.get()).await
    }

    /// Distributes the data over the workers of Citus. Safe from several processes at once.
    ///
    /// # Errors
    /// `NotPrepared` with what is missing.
    pub async fn distribute(&self) -> Result<Distribution, DistributionError> {
        let mut connection = ClosedUnlessKept::new(self.acquire().await?);
        distribution::run(connection.get()).await
    }

    /// Whether the server answers, on a connection for purchases: readers cannot make it look away.
    pub async fn ping(&self) -> Result<(), StoreError> {
        in_time(&self.purchases, async |connection| connection.ping().await).await
    }

    /// Closes the connections, waiting a moment for those in use.
    pub async fn close(&self) {
        // Without a limit it would wait, for minutes, for its own attempts to reach a server that is gone.
        let all =
            async { tokio::join!(self.purchases.close(), self.others.close(), self.steps.close()) };
        let _ = timeout(CLOSE_TIMEOUT, all).await;
    }
}

fn pool(connections: u32, options: PgConnectOptions, durability: &DurabilityCheck) -> PgPool {
    let durability = durability.clone();
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(POOL_TIMEOUT)
        // A round trip per query for what the query itself finds out.
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let durability = durability.clone();
            Box::pin(async move { durability.ask(connection).await })
        })
        // After a pause a connection may be dead, and nobody has noticed.
        .before_acquire(|connection, state| {
            Box::pin(async move {
                if state.idle_for < TRUSTED_FOR {
                    return Ok(true);
                }
                Ok(matches!(within(PING_TIMEOUT, connection.ping()).await, Ok(Ok(()))))
            })
        })
        .connect_lazy_with(options)
}
