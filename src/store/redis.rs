//! The Redis handle.
//!
//! Commands of all tasks travel together on one *shared*, multiplexed connection, in the
//! order they were sent; the order is what lets a clean-up follow the command it cleans up
//! after. The pool makes that connection anew when it is lost. A pool connection per
//! command would cost a `PING` each time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use deadpool_redis::{Config, Pool, PoolConfig, Runtime, Timeouts};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, ScriptInvocation};

use super::patience::{Silence, unless_silent, within};
use super::{Service, StoreError};

const POOL_SIZE: usize = 8;

/// A connection is made, checked or waited for no longer than this.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(400);
/// How long the shared connection may bring no answer, to nobody.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// The libraries' own time-outs, plain ones: out of the way.
const LIBRARY_TIMEOUT: Duration = Duration::from_secs(60);

/// A handle on one Redis. Cheap to clone. A connection that breaks is replaced by the
/// next command; commands are never sent twice by this handle.
#[derive(Clone)]
pub struct Redis {
    url: String,
    pool: Pool,
    shared: Arc<Shared>,
}

struct Shared {
    current: RwLock<Option<Current>>,
    connecting: tokio::sync::Mutex<()>,
}

/// The shared connection of a while.
#[derive(Clone)]
struct Current {
    /// Which one, so that only who saw it break drops it.
    generation: u64,
    connection: MultiplexedConnection,
    /// How many commands it answered, to tell a long queue from a silent server.
    answers: Arc<AtomicU64>,
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Redis").finish_non_exhaustive()
    }
}

impl Redis {
    /// A handle that connects when it is first used.
    ///
    /// # Errors
    /// `Defect` when `url` is not a Redis URL.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        let mut config = Config::from_url(url);
        config.pool = Some(PoolConfig {
            max_size: POOL_SIZE,
            timeouts: Timeouts {
                wait: Some(LIBRARY_TIMEOUT),
                create: Some(LIBRARY_TIMEOUT),
                recycle: Some(LIBRARY_TIMEOUT),
            },
            ..PoolConfig::default()
        });
        let pool = config
            .create_pool(Some(Runtime::Tokio1))
            .map_err(|error| StoreError::defect(Service::Redis, error.to_string()))?;
        let shared = Shared { current: RwLock::new(None), connecting: tokio::sync::Mutex::new(()) };
        Ok(Self { url: url.to_owned(), pool, shared: Arc::new(shared) })
    }

    /// Sends one command on the shared connection.
    ///
    /// # Errors
    /// `Unknown` when it was sent and nothing was heard for 500 ms; it may still run.
    pub async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        let mut current = self.connection().await?;
        let answer = command.query_async(&mut current.connection);
        let answer = heard(&current.answers, answer).await;
        self.settle(current.generation, answer)
    }

    /// Runs a script on the shared connection, loading it where the server lacks it.
    ///
    /// # Errors
    /// As [`Redis::query`].
    pub async fn invoke<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, StoreError> {
        self.invoke_noting(script, |_| ()).await
    }

    /// As [`Redis::invoke`]; tells `sending` on which shared connection (see
    /// [`Redis::generation`]) just before the script is sent. Where it was not told, nothing
    /// was sent.
    ///
    /// # Errors
    /// As [`Redis::query`].
    pub async fn invoke_noting<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
        sending: impl FnOnce(u64),
    ) -> Result<T, StoreError> {
        let mut current = self.connection().await?;
        sending(current.generation);
        let answer = script.invoke_async(&mut current.connection);
        let answer = heard(&current.answers, answer).await;
        self.settle(current.generation, answer)
    }

    /// TEMPORARY
    pub async fn subscriber(&self) -> Result<redis::aio::PubSub, StoreError> {
        let client = redis::Client::open(self.url.as_str())?;
        Ok(client.get_async_pubsub().await?)
    }

    /// TEMPORARY
    pub async fn invoke_acknowledged<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
        _replicas: usize,
        _timeout: Duration,
        sending: impl FnOnce(),
    ) -> Result<(T, usize), StoreError> {
        sending();
        Ok((self.invoke(script).await?, 0))
    }

    /// Whether the server answers.
    ///
    /// # Errors
    /// As [`Redis::query`].
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.query::<String>(&redis::cmd("PING")).await.map(|_| ())
    }

    /// Which shared connection is in use, if one is: commands sent on the same one run in
    /// the order they were sent.
    pub fn generation(&self) -> Option<u64> {
        self.current().map(|current| current.generation)
    }

    fn settle<T>(
        &self,
        generation: u64,
        answer: Result<redis::RedisResult<T>, Silence>,
    ) -> Result<T, StoreError> {
        let answer = answer.map_err(|silence| {
            // Its other end may be gone: TCP finds that out after a quarter of an hour. A new
            // connection costs a round trip.
            self.discard(generation);
            StoreError::Unknown { service: Service::Redis, cause: silence.into() }
        })?;
        answer.map_err(|error| {
            if error.is_unrecoverable_error() || error.is_connection_dropped() {
                self.discard(generation);
            }
            StoreError::from(error)
        })
    }

    fn discard(&self, generation: u64) {
        let mut current = self.shared.current.write().unwrap_or_else(|poison| poison.into_inner());
        if current.as_ref().is_some_and(|existing| existing.generation == generation) {
            *current = None;
        }
    }

    fn current(&self) -> Option<Current> {
        self.shared.current.read().unwrap_or_else(|poison| poison.into_inner()).clone()
    }

    async fn connection(&self) -> Result<Current, StoreError> {
        match self.current() {
            Some(current) => Ok(current),
            // Boxed: its future is thirty times the size of a command's, and every command
            // under way would carry it.
            None => Box::pin(self.connect()).await,
        }
    }

    async fn connect(&self) -> Result<Current, StoreError> {
        // One task connects; the others wait as long as that one attempt may take.
        let connecting = within(CONNECT_TIMEOUT, self.shared.connecting.lock()).await;
        let _connecting = connecting.map_err(unavailable)?;
        if let Some(current) = self.current() {
            return Ok(current);
        }
        let pooled = within(CONNECT_TIMEOUT, self.pool.get()).await.map_err(unavailable)??;
        // Taken out of the pool: the shared connection must not occupy one of its places.
        let mut connection = deadpool_redis::Connection::take(pooled);
        connection.set_response_timeout(LIBRARY_TIMEOUT);
        static GENERATIONS: AtomicU64 = AtomicU64::new(0);
        let generation = GENERATIONS.fetch_add(1, Ordering::Relaxed);
        let fresh = Current { generation, connection, answers: Arc::default() };
        let mut current = self.shared.current.write().unwrap_or_else(|poison| poison.into_inner());
        *current = Some(fresh.clone());
        Ok(fresh)
    }
}

/// Waits for an answer as long as others get theirs on the same connection.
async fn heard<T>(answers: &AtomicU64, answer: impl Future<Output = T>) -> Result<T, Silence> {
    let so_far = || answers.load(Ordering::Relaxed);
    let answer = unless_silent(ANSWER_TIMEOUT, so_far, answer).await?;
    answers.fetch_add(1, Ordering::Relaxed);
    Ok(answer)
}

/// Nothing was sent: there was no connection to send it on.
fn unavailable(silence: Silence) -> StoreError {
    StoreError::Unavailable { service: Service::Redis, cause: silence.into() }
}
