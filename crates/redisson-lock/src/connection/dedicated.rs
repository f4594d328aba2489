//! Dedicated connections, for requests that would keep all others on a shared one waiting.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::RedisError;
use super::link::Link;
use super::request::{CONNECT_TIMEOUT, unavailable};
use crate::timeout::within;

/// Connections at once. A request that comes when all are in use waits as long as connecting may
/// take.
const MAX_CONNECTIONS: usize = 32;

/// Those of one server at a time: of one that was left, for another master, nothing is used again.
pub(super) struct DedicatedConnections {
    idle: Arc<Mutex<Idle>>,
    places: Arc<Semaphore>,
}

#[derive(Default)]
struct Idle {
    links: Vec<Link>,
    /// Of which server they are, counted.
    server: u64,
}

impl Default for DedicatedConnections {
    fn default() -> Self {
        Self { idle: Arc::default(), places: Arc::new(Semaphore::new(MAX_CONNECTIONS)) }
    }
}

/// One connection. [`DedicatedConnection::done`] keeps it for the next one; dropped before,
/// with an answer outstanding perhaps, it is closed.
pub(super) struct DedicatedConnection {
    link: Link,
    server: u64,
    idle: Arc<Mutex<Idle>>,
    _place: OwnedSemaphorePermit,
}

impl DedicatedConnections {
    /// The server is not what it was.
    pub(super) fn leave(&self) {
        let mut idle = locked(&self.idle);
        idle.links.clear();
        idle.server += 1;
    }

    /// A connection that lives. One that was used before is asked first: nothing was sent yet, so a
    /// broken one costs nothing here. Where the server is silent it is left.
    pub(super) async fn take(
        &self,
        connect: impl Future<Output = Result<Link, RedisError>>,
    ) -> Result<DedicatedConnection, RedisError> {
        let place = within(CONNECT_TIMEOUT, Arc::clone(&self.places).acquire_owned()).await;
        let Ok(_place) = place.map_err(unavailable)? else {
            unreachable!("nobody closes the semaphore of the dedicated connections");
        };
        let idle = Arc::clone(&self.idle);
        let (used, server) = {
            let mut idle = locked(&idle);
            idle.links.retain(|link| !link.has_ended());
            (idle.links.pop(), idle.server)
        };
        if let Some(mut link) = used {
            let ping = redis::cmd("PING");
            let answer = within(CONNECT_TIMEOUT, ping.exec_async(&mut link.connection)).await;
            match answer.map_err(unavailable).inspect_err(|_| self.leave())? {
                Ok(()) => return Ok(DedicatedConnection { link, server, idle, _place }),
                Err(_) => self.leave(),
            }
        }
        let server = locked(&idle).server;
        let link = connect.await.inspect_err(|_| self.leave())?;
        Ok(DedicatedConnection { link, server, idle, _place })
    }
}

impl DedicatedConnection {
    pub(super) fn get(&mut self) -> &mut MultiplexedConnection {
        &mut self.link.connection
    }

    /// Everything that was asked is answered.
    pub(super) fn done(self) {
        let mut idle = locked(&self.idle);
        if idle.server == self.server {
            idle.links.push(self.link.clone());
        }
    }
}

fn locked(idle: &Mutex<Idle>) -> MutexGuard<'_, Idle> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}
