//! The connections to one server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, ProtocolVersion, RedisResult,
    ServerErrorKind, Value,
};

use super::dedicated::{DedicatedConnection, DedicatedConnections};
use super::error::BoxedCause;
use super::error::RedisError;
use super::request::{Asking, CONNECT_TIMEOUT, Request, ScriptCall, unavailable, unknown};
use super::sentinels::Sentinels;
use super::subscriber::Subscriber;
use crate::timeout::{unless_silent, within};

/// How long the shared connection may bring no answer, to nobody.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// Which server.
pub(super) enum ServerAddress {
    /// This one.
    Fixed(Client),
    /// The present master, asked for anew for each connection.
    Elected(Sentinels),
}

/// One server at a time, and the connections to it.
pub(super) struct RedisServer {
    address: ServerAddress,
    shared: RwLock<Option<SharedConnection>>,
    connecting: tokio::sync::Mutex<()>,
    dedicated: DedicatedConnections,
}

/// The shared connection of a while.
#[derive(Clone)]
struct SharedConnection {
    /// Which one, so that only who saw it break drops it.
    generation: u64,
    connection: MultiplexedConnection,
    /// How many commands it answered, to tell a long queue from a silent server.
    answers: Arc<AtomicU64>,
}

/// How many replicas have to have it, and how long they are waited for.
#[derive(Clone, Copy)]
pub(super) struct Acknowledgement {
    pub(super) replicas: usize,
    pub(super) timeout: Duration,
}

impl Acknowledgement {
    fn command(self) -> Cmd {
        // To Redis 0 is for ever.
        let timeout_ms = self.timeout.as_millis().max(1);
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.replicas).arg(u64::try_from(timeout_ms).unwrap_or(u64::MAX));
        wait
    }
}

impl RedisServer {
    pub(super) fn new(address: ServerAddress) -> Self {
        let (shared, connecting, dedicated) = Default::default();
        Self { address, shared, connecting, dedicated }
    }

    /// Asks on the shared connection; tells `sending` on which, just before.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        request: impl Request,
        asking: bool,
        sending: impl FnOnce(u64),
    ) -> Result<T, RedisError> {
        let mut shared = self.connection().await?;
        sending(shared.generation);
        let answer = send(request, &mut shared.connection, asking);
        let so_far = || shared.answers.load(Ordering::Relaxed);
        // Waits for an answer as long as others get theirs on the same connection.
        match unless_silent(ANSWER_TIMEOUT, so_far, answer).await {
            Ok(answer) => {
                shared.answers.fetch_add(1, Ordering::Relaxed);
                answer.map_err(|error| self.failed(shared.generation, error))
            }
            Err(silence) => {
                // Its other end may be gone: TCP finds that out after a quarter of an hour. A
                // new connection costs a round trip.
                self.discard(shared.generation);
                Err(unknown(silence))
            }
        }
    }

    /// Sends all of `calls` at once on the shared connection. Each has its own answer.
    pub(super) async fn ask_all(
        &self,
        calls: &[ScriptCall],
        sending: impl FnOnce(u64),
    ) -> Result<Vec<RedisResult<Value>>, RedisError> {
        let mut sent_on = None;
        let noting = |generation| {
            sent_on = Some(generation);
            sending(generation);
        };
        let answers: Vec<RedisResult<Value>> = self.ask(calls, false, noting).await?;
        let is_over = answers.iter().any(|answer| answer.as_ref().is_err_and(is_of_the_past));
        if let (true, Some(generation)) = (is_over, sent_on) {
            self.discard(generation);
        }
        Ok(answers)
    }

    /// Asks on a connection of its own, then waits there for the replicas: WAIT is about what
    /// its own connection wrote, and keeps everybody else on it waiting.
    pub(super) async fn ask_acknowledged<T: FromRedisValue>(
        &self,
        request: impl Request,
        asking: bool,
        acknowledgement: Acknowledgement,
        sending: impl FnOnce(),
    ) -> Result<(T, usize), RedisError> {
        let mut connection = Box::pin(self.dedicated_connection()).await?;
        sending();
        let exchange = async {
            let connection = connection.get();
            let answer = send(request, connection, asking)
                .await
                .inspect_err(|error| {
                    if is_of_the_past(error) {
                        self.dedicated.leave();
                    }
                })
                .map_err(RedisError::from)?;
            // The request was done; of what fails from here on that has to be said.
            let wait = acknowledgement.command();
            Ok::<_, RedisError>((answer, wait.query_async(connection).await.map_err(unknown)?))
        };
        let patience = ANSWER_TIMEOUT.saturating_add(acknowledgement.timeout);
        let answer = within(patience, exchange).await.map_err(unknown)??;
        connection.done();
        Ok(answer)
    }

    /// A fresh connection that hears what is published.
    pub(super) async fn subscriber(&self) -> Result<Subscriber, RedisError> {
        let connecting = async {
            let connection = self.client().await?.get_async_pubsub().await?;
            Ok::<_, BoxedCause>(Subscriber::plain(connection))
        };
        within(CONNECT_TIMEOUT, connecting).await.map_err(unavailable)?.map_err(unavailable)
    }

    /// The same of a node of a cluster: it hears sharded messages, too, which needs RESP3.
    pub(super) async fn shard_subscriber(&self) -> Result<Subscriber, RedisError> {
        let connecting = async {
            let info = self.client().await?.get_connection_info().clone();
            let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            let client = Client::open(info.set_redis_settings(settings))?;
            let (told, pushes) = tokio::sync::mpsc::unbounded_channel();
            let config = config().set_push_sender(told);
            let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            Ok::<_, BoxedCause>(Subscriber::sharded(connection, pushes))
        };
        within(CONNECT_TIMEOUT, connecting).await.map_err(unavailable)?.map_err(unavailable)
    }

    /// Which shared connection is in use, if one is.
    pub(super) fn generation(&self) -> Option<u64> {
        self.shared().map(|shared| shared.generation)
    }

    fn failed(&self, generation: u64, error: redis::RedisError) -> RedisError {
        if is_of_the_past(&error) {
            self.discard(generation);
        }
        RedisError::from(error)
    }

    fn discard(&self, generation: u64) {
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        if shared.as_ref().is_some_and(|existing| existing.generation == generation) {
            *shared = None;
        }
    }

    fn shared(&self) -> Option<SharedConnection> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn connection(&self) -> Result<SharedConnection, RedisError> {
        match self.shared() {
            Some(shared) => Ok(shared),
            // Boxed: its future is thirty times the size of a command's, and every command
            // under way would carry it.
            None => Box::pin(self.connect()).await,
        }
    }

    async fn connect(&self) -> Result<SharedConnection, RedisError> {
        // One task connects; the others wait as long as that one attempt may take.
        let connecting = within(CONNECT_TIMEOUT, self.connecting.lock()).await;
        let _connecting = connecting.map_err(unavailable)?;
        if let Some(shared) = self.shared() {
            return Ok(shared);
        }
        let connection = self.fresh_connection().await?;
        static GENERATIONS: AtomicU64 = AtomicU64::new(0);
        let generation = GENERATIONS.fetch_add(1, Ordering::Relaxed);
        let fresh = SharedConnection { generation, connection, answers: Arc::default() };
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        *shared = Some(fresh.clone());
        Ok(fresh)
    }

    async fn dedicated_connection(&self) -> Result<DedicatedConnection, RedisError> {
        let pool = match self.dedicated.pool() {
            Some(pool) => pool,
            None => {
                let client = within(CONNECT_TIMEOUT, self.client()).await.map_err(unavailable)?;
                let found = client.and_then(|client| self.dedicated.found(client, config()));
                found.map_err(unavailable)?
            }
        };
        self.dedicated.take(&pool).await
    }

    async fn fresh_connection(&self) -> Result<MultiplexedConnection, RedisError> {
        let config = config();
        let connecting = async {
            let client = self.client().await?;
            let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            Ok::<_, BoxedCause>(connection)
        };
        within(CONNECT_TIMEOUT, connecting).await.map_err(unavailable)?.map_err(unavailable)
    }

    async fn client(&self) -> Result<Client, BoxedCause> {
        match &self.address {
            ServerAddress::Fixed(client) => Ok(client.clone()),
            ServerAddress::Elected(sentinels) => sentinels.master(&config()).await,
        }
    }
}

/// Whether a connection that brought this is of no use any more. A master that was demoted
/// stays one that answers.
fn is_of_the_past(error: &redis::RedisError) -> bool {
    let read_only = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
    read_only || error.is_unrecoverable_error() || error.is_connection_dropped()
}

async fn send<T: FromRedisValue>(
    request: impl Request,
    connection: &mut MultiplexedConnection,
    asking: bool,
) -> RedisResult<T> {
    if asking {
        // Boxed: it is rare, and every command under way would carry it.
        return Box::pin(request.send(&mut Asking(connection))).await;
    }
    request.send(connection).await
}

/// Without the library's own time-outs, which are plain ones.
fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None)
}
