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
use super::session::{database_of, give_back, may_be_in_session_of};
use super::time_limits::CONNECTED_WITHIN;
use redis_link::timeout::within;

/// What a pool is for, and how many connections it has. A pool is known again by its size: so no two kinds have the same,
/// which the compiler refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::FromRepr)]
#[repr(u32)]
pub(super) enum PoolKind {
    /// Purchases: four batches in flight, and the reads of vouchers and owners. Few on purpose: more transactions in
    /// flight than cores make a hot row slower, not faster.
    Purchases = 8,
    /// Everything else.
    Others = 4,
    /// Steps that may wait for the row of a voucher: one pool for those that buyers take, and one for all others. No reader
    /// waits behind them, and neither an administrator nor the payment gateway behind buyers.
    Steps = 2,
}

/// How many connections a process has: of steps there are two pools.
pub const CONNECTIONS: u32 = PoolKind::Purchases.connections()
    + PoolKind::Others.connections()
    + 2 * PoolKind::Steps.connections();

impl PoolKind {
    pub(super) const fn connections(self) -> u32 {
        self as u32
    }

    /// Half of the connections: so many are made for nobody at most. The others are left to those who wait. For the pool
    /// pauses, up to two seconds, after a server has refused several times.
    pub(super) const fn half(self) -> usize {
        self as usize / 2
    }

    fn for_nobody(self) -> &'static Semaphore {
        static PURCHASES: Semaphore = Semaphore::const_new(PoolKind::Purchases.half());
        static OTHERS: Semaphore = Semaphore::const_new(PoolKind::Others.half());
        static STEPS: Semaphore = Semaphore::const_new(PoolKind::Steps.half());
        match self {
            Self::Purchases => &PURCHASES,
            Self::Others => &OTHERS,
            Self::Steps => &STEPS,
        }
    }
}

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
        // Only a test has a pool of another size.
        let kind = PoolKind::from_repr(pool.options().get_max_connections());
        let for_nobody = kind.unwrap_or(PoolKind::Steps).for_nobody();
        Self { rest: Some(Box::pin(pool.acquire())), for_nobody }
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
            if let Ok(connection) = rest.await {
                give_back(connection);
            }
            drop(permit);
        });
    }
}

/// A pool that connects when it is first used.
pub(super) fn pool(
    kind: PoolKind,
    options: PgConnectOptions,
    durability: &DurabilityCheck,
) -> PgPool {
    let durability = durability.clone();
    let database: Arc<str> = database_of(&options).into();
    PgPoolOptions::new()
        .max_connections(kind.connections())
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
                if may_be_in_session_of(state.age, &database) {
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
