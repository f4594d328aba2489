//! A connection that somebody else has made, in place of those of this crate.

use deadpool_redis::PoolError;
use futures_util::future::BoxFuture;
use redis::aio::{ConnectionLike, PubSub};
use redis::{Client, Cmd, FromRedisValue, Pipeline, RedisFuture, Value};

use super::error::{BoxedCause, LinkError};
use super::node::{ANSWER_TIMEOUT, Acknowledgement};
use super::request::{CONNECT_TIMEOUT, Request};
use super::subscriber::Subscriber;
use crate::timeout::within;

/// What carries commands, lent for one request.
pub type LentConnection<'a> = Box<dyn ConnectionLike + Send + 'a>;

/// A connection of a program, or a pool of them, for [`Redis::over`](super::Redis::over). The table at the end of the
/// crate's front page says what is lost with each.
///
/// ```no_run
/// use std::error::Error;
/// use std::pin::Pin;
///
/// use redis_link::redis::Client;
/// use redis_link::{AnyConnection, LentConnection, Redis};
///
/// type Lent<'a> = Result<LentConnection<'a>, Box<dyn Error + Send + Sync>>;
///
/// /// Makes a connection for each request.
/// struct Fresh(Client);
///
/// impl AnyConnection for Fresh {
///     fn lend(&self) -> Pin<Box<dyn Future<Output = Lent<'_>> + Send + '_>> {
///         Box::pin(async {
///             let connection = self.0.get_multiplexed_async_connection().await?;
///             Ok(Box::new(connection) as LentConnection<'_>)
///         })
///     }
/// }
///
/// # fn example() -> Result<(), Box<dyn Error>> {
/// let redis = Redis::over(Fresh(Client::open("redis://127.0.0.1/")?));
/// # Ok(())
/// # }
/// ```
pub trait AnyConnection: Send + Sync + 'static {
    /// A connection on which one request is run: a script with its keys and arguments, and what belongs to it. It has
    /// 400 ms, and then the request 500 ms.
    ///
    /// # Errors
    /// Why there is none. Nothing was sent: the caller is told `Unavailable`, or `Misconfigured` where this is a
    /// `redis::RedisError` that says so.
    fn lend(&self) -> BoxFuture<'_, Result<LentConnection<'_>, BoxedCause>>;

    /// A fresh connection that receives what is published. By default there is none, and waiters try once a second.
    ///
    /// # Errors
    /// Why there is none. It is asked for again, with growing pauses.
    fn subscribe(&self) -> BoxFuture<'_, Result<PubSub, BoxedCause>> {
        Box::pin(async { Err("this connection hears nothing that is published".into()) })
    }

    /// Whether a request that failed with this error was certainly not sent: then the caller is told `Unavailable` in
    /// place of `Unknown`. `false` is always safe. By default only a refused connection is.
    fn certainly_not_sent(&self, error: &redis::RedisError) -> bool {
        error.is_connection_refusal()
    }
}

/// A connection whose clones are one: `MultiplexedConnection`, or `ConnectionManager` (feature `connection-manager` of
/// the crate `redis`).
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use redis_link::redis::Client;
/// use redis_link::{Redis, SharedBy};
///
/// let client = Client::open("redis://127.0.0.1/")?;
/// let connection = client.get_multiplexed_async_connection().await?;
/// let redis = Redis::over(SharedBy::new(connection, Some(client)));
/// redis.ping().await?;
/// # Ok(())
/// # }
/// ```
pub struct SharedBy<C> {
    connection: C,
    client: Option<Client>,
}

/// A pool of `deadpool-redis`.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use redis_link::deadpool_redis::{Manager, Pool};
/// use redis_link::redis::Client;
/// use redis_link::{PooledBy, Redis};
///
/// let client = Client::open("redis://127.0.0.1/")?;
/// let pool = Pool::builder(Manager::new("redis://127.0.0.1/")?).max_size(16).build()?;
/// let redis = Redis::over(PooledBy::new(pool, Some(client)));
/// redis.ping().await?;
/// # Ok(())
/// # }
/// ```
pub struct PooledBy {
    pool: deadpool_redis::Pool,
    client: Option<Client>,
}

impl<C> SharedBy<C> {
    /// This connection; `client` makes those that receive what is published. `None`: nothing is received.
    pub const fn new(connection: C, client: Option<Client>) -> Self {
        Self { connection, client }
    }
}

impl PooledBy {
    /// This pool; `client` makes the connections that receive what is published. `None`: nothing is received.
    pub const fn new(pool: deadpool_redis::Pool, client: Option<Client>) -> Self {
        Self { pool, client }
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> AnyConnection for SharedBy<C> {
    fn lend(&self) -> BoxFuture<'_, Result<LentConnection<'_>, BoxedCause>> {
        Box::pin(async { Ok(Box::new(self.connection.clone()) as LentConnection<'_>) })
    }

    fn subscribe(&self) -> BoxFuture<'_, Result<PubSub, BoxedCause>> {
        Box::pin(subscribed(self.client.as_ref()))
    }
}

impl AnyConnection for PooledBy {
    fn lend(&self) -> BoxFuture<'_, Result<LentConnection<'_>, BoxedCause>> {
        Box::pin(async {
            match self.pool.get().await {
                Ok(lent) => Ok(Box::new(lent) as LentConnection<'_>),
                // Why there is no connection is told by the one that could not be made.
                Err(PoolError::Backend(error)) => Err(error.into()),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn subscribe(&self) -> BoxFuture<'_, Result<PubSub, BoxedCause>> {
        Box::pin(subscribed(self.client.as_ref()))
    }
}

async fn subscribed(client: Option<&Client>) -> Result<PubSub, BoxedCause> {
    let client = client.ok_or("no client was given that would hear of releases")?;
    Ok(client.get_async_pubsub().await?)
}

/// Such a connection in use.
pub(super) struct Foreign(pub(super) Box<dyn AnyConnection>);

impl Foreign {
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        request: impl Request,
        sending: impl FnOnce(u64),
    ) -> Result<T, LinkError> {
        let mut lent = self.lent().await?;
        // No order over its callers is known: it is no shared connection that anybody has seen.
        sending(u64::MAX);
        let answer =
            within(ANSWER_TIMEOUT, request.send(&mut lent)).await.map_err(LinkError::unknown)?;
        answer.map_err(|error| self.failed(error))
    }

    pub(super) async fn ask_acknowledged<T: FromRedisValue>(
        &self,
        request: impl Request,
        acknowledgement: Acknowledgement,
        sending: impl FnOnce(),
    ) -> Result<(T, usize), LinkError> {
        let mut lent = self.lent().await?;
        sending();
        let exchange = async {
            let answer = request.send(&mut lent).await.map_err(|error| self.failed(error))?;
            let wait = acknowledgement.command();
            Ok::<_, LinkError>((
                answer,
                wait.query_async(&mut lent).await.map_err(LinkError::unknown)?,
            ))
        };
        let patience = ANSWER_TIMEOUT.saturating_add(acknowledgement.timeout);
        within(patience, exchange).await.map_err(LinkError::unknown)?
    }

    pub(super) async fn subscriber(
        &self,
        limit: std::time::Duration,
    ) -> Result<Subscriber, LinkError> {
        let subscribed = within(limit, self.0.subscribe()).await.map_err(LinkError::unavailable)?;
        subscribed.map(Subscriber::plain).map_err(LinkError::unavailable)
    }

    async fn lent(&self) -> Result<Lent<'_>, LinkError> {
        let lent = within(CONNECT_TIMEOUT, self.0.lend()).await.map_err(LinkError::unavailable)?;
        lent.map(Lent).map_err(LinkError::not_connected)
    }

    fn failed(&self, error: redis::RedisError) -> LinkError {
        if self.0.certainly_not_sent(&error) { LinkError::unavailable(error) } else { error.into() }
    }
}

struct Lent<'a>(LentConnection<'a>);

impl ConnectionLike for Lent<'_> {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.0.req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}
