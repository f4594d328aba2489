//! How a pool makes its connections: one that is on its way is made to its end when nobody waits for it any more.
//!
//! The pool makes a connection inside of the future that asks for one, and drops it with that. Where a connection takes
//! longer than anybody waits (a database that sleeps, or is far away, or checks passwords slowly), each would be thrown
//! away, for ever.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Connection, Postgres};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::durability::DurabilityCheck;
use super::stale_sessions;
use super::time_limits::CONNECTED_WITHIN;
use redis_link::timeout::within;

/// Connections of one process for purchases: four batches in flight, and the reads of vouchers and
/// owners. Few on purpose: more transactions in flight than cores make a hot row slower, not faster.
pub(super) const PURCHASE_CONNECTIONS: u32 = 8;

/// Connections of one process for everything else.
pub(super) const OTHER_CONNECTIONS: u32 = 4;

/// Connections of one process for steps that may wait for the row of a voucher: so many for those that buyers take, and as
/// many for all others. No reader waits behind them, and neither an administrator nor the payment gateway behind buyers.
pub(super) const STEP_CONNECTIONS: u32 = 2;

/// How many these are.
pub const CONNECTIONS: u32 = PURCHASE_CONNECTIONS + OTHER_CONNECTIONS + 2 * STEP_CONNECTIONS;

/// Connections that are made for nobody, at most, in the pools of a process: half of each. The others are left to those
/// who wait. For the pool pauses, up to two seconds, after a server has refused several times.
static FOR_NOBODY: [Semaphore; 3] = [
    Semaphore::const_new(PURCHASE_CONNECTIONS as usize / 2),
    Semaphore::const_new(OTHER_CONNECTIONS as usize / 2),
    Semaphore::const_new(STEP_CONNECTIONS as usize / 2),
];

/// A connection that lay idle for longer is asked whether it lives before it is used.
const TRUSTED_FOR: Duration = Duration::from_secs(2);
/// How long it may take to answer that.
const PING_TIMEOUT: Duration = Duration::from_millis(200);

type Acquired = sqlx::Result<PoolConnection<Postgres>>;

/// Resolves to a connection. Dropped before, it goes on in a task, and the connection comes to lie in the pool.
pub(super) struct Connecting {
    rest: Option<Pin<Box<dyn Future<Output = Acquired> + Send>>>,
    for_nobody: &'static Semaphore,
}

impl Connecting {
    pub(super) fn in_pool(pool: &PgPool) -> Self {
        let which = match pool.options().get_max_connections() {
            PURCHASE_CONNECTIONS => 0,
            OTHER_CONNECTIONS => 1,
            _ => 2,
        };
        Self { rest: Some(Box::pin(pool.acquire())), for_nobody: &FOR_NOBODY[which] }
    }
}

impl Future for Connecting {
    type Output = Acquired;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Acquired> {
        let Some(rest) = self.rest.as_mut() else { unreachable!("it is not polled after its end") };
        let acquired = rest.as_mut().poll(context);
        if acquired.is_ready() {
            self.rest = None;
        }
        acquired
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        let Some(rest) = self.rest.take() else { return };
        let (Ok(runtime), Ok(permit)) = (Handle::try_current(), self.for_nobody.try_acquire())
        else {
            return;
        };
        runtime.spawn(async move {
            drop(rest.await);
            drop(permit);
        });
    }
}

/// A pool that connects when it is first used.
pub(super) fn pool(
    connections: u32,
    options: PgConnectOptions,
    durability: &DurabilityCheck,
) -> PgPool {
    let durability = durability.clone();
    let database: Arc<str> = stale_sessions::database_of(&options).into();
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(CONNECTED_WITHIN)
        // The statement that waited for it has told so.
        .acquire_slow_level(tracing::log::LevelFilter::Off)
        // A round trip per query for what the query itself finds out.
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let durability = durability.clone();
            Box::pin(async move { durability.ask(connection).await })
        })
        // After a pause a connection may be dead, and nobody has noticed.
        .before_acquire(move |connection, state| {
            let database = Arc::clone(&database);
            Box::pin(async move {
                if stale_sessions::may_be_in_session_of(state.age, &database) {
                    return Ok(false);
                }
                if state.idle_for < TRUSTED_FOR {
                    return Ok(true);
                }
                Ok(matches!(within(PING_TIMEOUT, connection.ping()).await, Ok(Ok(()))))
            })
        })
        .connect_lazy_with(options)
}
