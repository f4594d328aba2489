//! Dedicated connections, for requests that would keep all others on a shared one waiting: a pool of
//! `deadpool-redis`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use deadpool_redis::{Connection, Hook, HookError, Manager, Pool, Status};
use redis::aio::MultiplexedConnection;

use super::address::ServerAddress;
use super::error::LinkError;
use super::link::{ServerLogin, config, taken};
use super::request::CONNECT_TIMEOUT;
use crate::timeout::within;

/// Connections at once. A request that comes when all are in use waits as long as connecting may
/// take.
const MAX_CONNECTIONS: usize = 32;

/// The pool of one server at a time: of one that was left, for another master, nothing is used again.
#[derive(Default)]
pub(super) struct DedicatedConnections {
    pool: Mutex<Option<Pool>>,
}

/// One connection. [`DedicatedConnection::done`] keeps it for the next one; dropped before,
/// with an answer outstanding perhaps, it is closed.
pub(super) struct DedicatedConnection(Option<Connection>);

impl DedicatedConnections {
    /// The server is not what it was.
    pub(super) fn leave(&self) {
        *self.pool() = None;
    }

    /// How full the pool is; `None`: there is none.
    pub(super) fn status(&self) -> Option<Status> {
        self.pool().as_ref().map(Pool::status)
    }

    /// A connection that lives. The pool asks one that was used before: nothing was sent yet, so a broken one
    /// costs nothing here. Where the server is silent, or there is none, it is left.
    pub(super) async fn take(
        &self,
        address: &ServerAddress,
    ) -> Result<DedicatedConnection, LinkError> {
        let silent = |silence| LinkError::unavailable(format!("{silence} from {address}"));
        let known = self.pool().clone();
        let pool = match known {
            Some(pool) => pool,
            None => {
                let login = within(CONNECT_TIMEOUT, address.login()).await.map_err(silent)?;
                let pool = pool_of(&login.map_err(LinkError::not_connected)?)?;
                self.pool().get_or_insert(pool).clone()
            }
        };
        let is_full = || pool.status().size == MAX_CONNECTIONS;
        match within(CONNECT_TIMEOUT, pool.get()).await {
            Ok(Ok(connection)) => Ok(DedicatedConnection(Some(connection))),
            Err(_) if is_full() => {
                Err(LinkError::unavailable("all dedicated connections are in use"))
            }
            Err(silence) => {
                self.leave();
                Err(silent(silence))
            }
            Ok(Err(error)) => {
                self.leave();
                // Ours says what the library does not: which server it is, and whether it was the password.
                let ours = within(CONNECT_TIMEOUT, Box::pin(address.link())).await;
                Err(match ours {
                    Ok(Err(cause)) => LinkError::not_connected(cause),
                    _ => LinkError::unavailable(error),
                })
            }
        }
    }

    fn pool(&self) -> MutexGuard<'_, Option<Pool>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Without time-outs of its own, which are plain ones, and opened by the login as it is: the pool's own
/// configuration leaves out certificates.
fn pool_of(login: &ServerLogin) -> Result<Pool, LinkError> {
    let manager =
        Manager::new_with_config(login.for_library(), config()).map_err(LinkError::unavailable)?;
    let first_ping = Hook::async_fn(|connection: &mut MultiplexedConnection, _| {
        Box::pin(async move {
            let answer = redis::cmd("PING").exec_async(connection).await;
            taken(answer).map_err(HookError::Backend)
        })
    });
    let pool = Pool::builder(manager).max_size(MAX_CONNECTIONS).post_create(first_ping);
    pool.build().map_err(LinkError::unavailable)
}

impl DedicatedConnection {
    /// # Panics
    /// Never: it is there until it is done.
    pub(super) fn get(&mut self) -> &mut MultiplexedConnection {
        match &mut self.0 {
            Some(connection) => connection,
            None => unreachable!("a dedicated connection is there until it is done"),
        }
    }

    /// Everything that was asked is answered.
    pub(super) fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for DedicatedConnection {
    fn drop(&mut self) {
        self.0.take().map(Connection::take);
    }
}
