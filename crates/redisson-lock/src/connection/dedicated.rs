//! Dedicated connections, for requests that would keep all others on a shared one waiting.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadpool_redis::{Connection, Manager, Pool};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::BoxedCause;
use super::error::RedisError;
use super::request::{CONNECT_TIMEOUT, unavailable};
use crate::timeout::within;

/// Connections at once. A request that comes when all are in use waits as long as connecting may
/// take.
const MAX_CONNECTIONS: usize = 32;

/// A pool per server: of one that was left, for another master, nothing is used again.
pub(super) struct DedicatedConnections {
    pool: Mutex<Option<Pool>>,
    /// Of all pools together. In a pool nobody waits, so that what takes long there is the
    /// server.
    places: Arc<Semaphore>,
}

impl Default for DedicatedConnections {
    fn default() -> Self {
        Self { pool: Mutex::default(), places: Arc::new(Semaphore::new(MAX_CONNECTIONS)) }
    }
}

/// One connection. It goes back into the pool by [`DedicatedConnection::done`]; dropped before,
/// with an answer outstanding perhaps, it is closed.
pub(super) struct DedicatedConnection {
    connection: Option<Connection>,
    _place: OwnedSemaphorePermit,
}

impl DedicatedConnections {
    /// The pool in use, if there is one.
    pub(super) fn pool(&self) -> Option<Pool> {
        self.current().clone()
    }

    /// A pool for this server from now on.
    pub(super) fn found(
        &self,
        server: Client,
        config: AsyncConnectionConfig,
    ) -> Result<Pool, BoxedCause> {
        let manager = Manager::new_with_config(server.get_connection_info().clone(), config)?;
        let pool = Pool::builder(manager).max_size(MAX_CONNECTIONS).build()?;
        *self.current() = Some(pool.clone());
        Ok(pool)
    }

    /// The server is not what it was.
    pub(super) fn leave(&self) {
        *self.current() = None;
    }

    /// One connection of `pool`. It was asked whether it lives: nothing was sent yet, so a
    /// broken one costs nothing here. Where the server is silent the pool is left.
    pub(super) async fn take(&self, pool: &Pool) -> Result<DedicatedConnection, RedisError> {
        let place = within(CONNECT_TIMEOUT, Arc::clone(&self.places).acquire_owned()).await;
        let Ok(_place) = place.map_err(unavailable)? else {
            unreachable!("nobody closes the semaphore of the dedicated connections");
        };
        let connection = match within(CONNECT_TIMEOUT, pool.get()).await {
            Ok(connection) => connection.map_err(unavailable),
            Err(silence) => Err(unavailable(silence)),
        };
        let connection = Some(connection.inspect_err(|_| self.leave())?);
        Ok(DedicatedConnection { connection, _place })
    }

    fn current(&self) -> MutexGuard<'_, Option<Pool>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DedicatedConnection {
    pub(super) fn get(&mut self) -> &mut MultiplexedConnection {
        match self.connection.as_deref_mut() {
            Some(connection) => connection,
            None => unreachable!("a connection is there until it is done with or dropped"),
        }
    }

    /// Everything that was asked is answered.
    pub(super) fn done(mut self) {
        drop(self.connection.take());
    }
}

impl Drop for DedicatedConnection {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(Connection::take(connection));
        }
    }
}
