//! A connection of a pool that is on its way, and is made to its end when nobody waits for it any more.
//!
//! The pool makes a connection inside of the future that asks for one, and drops it with that. Where a connection takes
//! longer than anybody waits (a database that sleeps, or is far away, or checks passwords slowly), each would be thrown
//! away, for ever.

use std::pin::Pin;
use std::task::{Context, Poll};

use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPool;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::postgres::{OTHER_CONNECTIONS, PURCHASE_CONNECTIONS, STEP_CONNECTIONS};

/// Connections that are made for nobody, at most, in the pools of a process: half of each. The others are left to those
/// who wait. For the pool pauses, up to two seconds, after a server has refused several times.
static FOR_NOBODY: [Semaphore; 3] = [
    Semaphore::const_new(PURCHASE_CONNECTIONS as usize / 2),
    Semaphore::const_new(OTHER_CONNECTIONS as usize / 2),
    Semaphore::const_new(STEP_CONNECTIONS as usize / 2),
];

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
