//! The connections to one server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, FromRedisValue, ProtocolVersion, RedisResult, ServerErrorKind, Value};
use tokio_util::task::AbortOnDropHandle;

use super::address::ServerAddress;
use super::dedicated::{DedicatedConnection, DedicatedConnections};
use super::error::BoxedCause;
use super::error::LinkError;
use super::link::{Link, config, is_broken};
use super::request::{Asking, CONNECT_TIMEOUT, Request, ScriptCall};
use super::subscriber::Subscriber;
use crate::timeout::{unless_silent, within};

/// How long the shared connection may bring no answer, to nobody.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// How long an attempt to connect may take when nobody waits for it any more.
const SLOW_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An attempt to connect, in a task of its own.
type Attempt = AbortOnDropHandle<Result<Link, BoxedCause>>;

/// One server at a time, and the connections to it.
pub(super) struct RedisServer {
    address: Arc<ServerAddress>,
    shared: RwLock<Option<SharedConnection>>,
    /// An attempt that goes on when nobody waits for it any more: a server may always take longer to be connected
    /// to than anybody waits.
    connecting: tokio::sync::Mutex<Option<Attempt>>,
    dedicated: DedicatedConnections,
    losses: Losses,
}

/// Counts the shared connections that have ended, of all servers of one handle.
pub(super) type Losses = tokio::sync::watch::Sender<u64>;

/// The shared connection of a while.
#[derive(Clone)]
struct SharedConnection {
    /// Its number, so that a request that saw it break discards this connection and not the next one.
    generation: u64,
    link: Link,
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
    pub(super) fn command(self) -> Cmd {
        // To Redis 0 is for ever.
        let timeout_ms = self.timeout.as_millis().max(1);
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.replicas).arg(u64::try_from(timeout_ms).unwrap_or(u64::MAX));
        wait
    }
}

impl RedisServer {
    pub(super) fn new(address: ServerAddress, losses: &Losses) -> Self {
        let (shared, connecting, dedicated) = Default::default();
        Self { address: Arc::new(address), shared, connecting, dedicated, losses: losses.clone() }
    }

    /// Asks on the shared connection; tells `sending` its generation, just before. Where the server closed the
    /// connection before the request was sent, it is asked once more, on a new one.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        request: impl Request,
        asking: bool,
        sending: impl FnOnce(u64),
    ) -> Result<T, LinkError> {
        match self.ask_once(request, asking, sending).await {
            Err(Failure::Unsent(_)) => {
                // Boxed: it is rare, and every command under way would carry it.
                let again = Box::pin(self.ask_once(request, asking, |_| ())).await;
                again.map_err(Failure::into_error)
            }
            answer => answer.map_err(Failure::into_error),
        }
    }

    async fn ask_once<T: FromRedisValue>(
        &self,
        request: impl Request,
        asking: bool,
        sending: impl FnOnce(u64),
    ) -> Result<T, Failure> {
        let mut shared = self.connection().await.map_err(Failure::Told)?;
        sending(shared.generation);
        let before = shared.link.written();
        let answer = send(request, &mut shared.link.connection, asking);
        let so_far = || shared.answers.load(Ordering::Relaxed);
        // Waits for an answer as long as others get theirs on the same connection.
        match unless_silent(ANSWER_TIMEOUT, so_far, answer).await {
            Ok(answer) => {
                shared.answers.fetch_add(1, Ordering::Relaxed);
                answer.map_err(|error| {
                    let unsent = is_broken(&error) && shared.link.written() == before;
                    let error = self.failed(shared.generation, error);
                    // A broken connection writes no more.
                    if unsent { Failure::Unsent(error) } else { Failure::Told(error) }
                })
            }
            Err(silence) => {
                // Its other end may be gone: TCP finds that out after a quarter of an hour. A
                // new connection costs a round trip.
                self.discard(shared.generation);
                Err(Failure::Told(LinkError::unknown(silence)))
            }
        }
    }

    /// Sends all of `calls` at once on the shared connection. Each has its own answer.
    pub(super) async fn ask_all(
        &self,
        calls: &[ScriptCall],
        sending: impl FnOnce(u64),
    ) -> Result<Vec<RedisResult<Value>>, LinkError> {
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
    ) -> Result<(T, usize), LinkError> {
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
                .map_err(LinkError::from)?;
            // The request was done: what fails from here on has an unknown outcome.
            let wait = acknowledgement.command();
            Ok::<_, LinkError>((
                answer,
                wait.query_async(connection).await.map_err(LinkError::unknown)?,
            ))
        };
        let patience = ANSWER_TIMEOUT.saturating_add(acknowledgement.timeout);
        let answer = within(patience, exchange).await.map_err(LinkError::unknown)??;
        connection.done();
        Ok(answer)
    }

    /// A fresh connection that hears what is published.
    pub(super) async fn subscriber(&self, limit: Duration) -> Result<Subscriber, LinkError> {
        let subscriber =
            async { Ok(Subscriber::plain(self.address.login().await?.pubsub().await?)) };
        self.in_time(limit, subscriber).await
    }

    /// The same at a node of a cluster, where it hears sharded messages, too. That needs RESP3.
    pub(super) async fn shard_subscriber(&self, limit: Duration) -> Result<Subscriber, LinkError> {
        self.in_time(limit, async {
            let login = self.address.login().await?;
            let settings = login.info.redis_settings().clone();
            let login = login.with(settings.set_protocol(ProtocolVersion::RESP3));
            let (told, pushes) = tokio::sync::mpsc::unbounded_channel();
            let link = login.link_with(config().set_push_sender(told)).await?;
            Ok(Subscriber::sharded(link, pushes))
        })
        .await
    }

    /// How full the pool of dedicated connections is, if there is one.
    pub(super) fn pool_status(&self) -> Option<deadpool_redis::Status> {
        self.dedicated.status()
    }

    /// Which shared connection is in use, if one is.
    pub(super) fn generation(&self) -> Option<u64> {
        self.shared().map(|shared| shared.generation)
    }

    fn failed(&self, generation: u64, error: redis::RedisError) -> LinkError {
        if is_of_the_past(&error) {
            self.discard(generation);
        }
        LinkError::from(error)
    }

    fn discard(&self, generation: u64) {
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        if shared.as_ref().is_some_and(|existing| existing.generation == generation) {
            *shared = None;
        }
    }

    /// `None` also when the server has closed it, which it does to one that was idle for long, or when it
    /// was restarted.
    fn shared(&self) -> Option<SharedConnection> {
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        shared.as_ref().filter(|shared| !shared.link.has_ended()).cloned()
    }

    async fn connection(&self) -> Result<SharedConnection, LinkError> {
        match self.shared() {
            Some(shared) => Ok(shared),
            // Boxed: its future is thirty times the size of a command's, and every command
            // under way would carry it.
            None => Box::pin(self.connect()).await,
        }
    }

    async fn connect(&self) -> Result<SharedConnection, LinkError> {
        // One task connects; the others wait as long as that one attempt may take.
        let connecting = within(CONNECT_TIMEOUT, self.connecting.lock()).await;
        let mut connecting = connecting.map_err(LinkError::unavailable)?;
        if let Some(shared) = self.shared() {
            return Ok(shared);
        }
        let link = self.in_time(CONNECT_TIMEOUT, self.attempt(&mut connecting)).await?;
        static GENERATIONS: AtomicU64 = AtomicU64::new(0);
        let generation = GENERATIONS.fetch_add(1, Ordering::Relaxed);
        let (ended, losses) = (link.ended(), self.losses.clone());
        tokio::spawn(async move {
            ended.await;
            losses.send_modify(|count| *count += 1);
        });
        let fresh = SharedConnection { generation, link, answers: Arc::default() };
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        *shared = Some(fresh.clone());
        Ok(fresh)
    }

    /// What the attempt that is under way makes, or one beside it: the server may be another one since, and reached
    /// at once.
    async fn attempt(&self, under_way: &mut Option<Attempt>) -> Result<Link, BoxedCause> {
        let is_second = under_way.is_some();
        let first = under_way.get_or_insert_with(|| {
            let address = Arc::clone(&self.address);
            let link = async move { within(SLOW_CONNECT_TIMEOUT, address.link()).await? };
            AbortOnDropHandle::new(tokio::spawn(link))
        });
        let made = tokio::select! {
            made = first => made.unwrap_or_else(|ended| Err(ended.into())),
            made = self.address.link(), if is_second => made,
        };
        *under_way = None;
        made
    }

    async fn dedicated_connection(&self) -> Result<DedicatedConnection, LinkError> {
        self.dedicated.take(&self.address).await
    }

    /// What `connecting` makes, unless it takes too long. Nothing was asked for yet.
    async fn in_time<T>(
        &self,
        limit: Duration,
        connecting: impl Future<Output = Result<T, BoxedCause>>,
    ) -> Result<T, LinkError> {
        let silent = |silence| LinkError::unavailable(format!("{silence} from {}", self.address));
        within(limit, connecting).await.map_err(silent)?.map_err(LinkError::not_connected)
    }
}

/// A request without an answer.
enum Failure {
    /// Surely nothing of it was sent.
    Unsent(LinkError),
    /// What became of it, the error says.
    Told(LinkError),
}

impl Failure {
    fn into_error(self) -> LinkError {
        match self {
            // Also the second time: nothing was done.
            Self::Unsent(error) => LinkError::unsent_after(&error),
            Self::Told(error) => error,
        }
    }
}

/// Whether a connection that brought this is of no use any more. A master that was demoted
/// stays one that answers, and so does a server that has a password since it was made.
fn is_of_the_past(error: &redis::RedisError) -> bool {
    let read_only = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
    read_only || error.code() == Some("NOAUTH") || is_broken(error)
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
