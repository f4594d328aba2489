//! The handle itself, the same for every form of the URL.

use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::Status as PoolStatus;
use redis::{Cmd, FromRedisValue, Value};
use tokio::sync::watch;

use super::RedisUrl;
use super::address::ServerAddress;
use super::cluster::Cluster;
use super::error::LinkError;
use super::foreign::{AnyConnection, Foreign};
use super::link::ServerLogin;
use super::node::{Acknowledgement, Losses, RedisServer};
use super::outage::{OutageListener, OutageWatch};
use super::renewal::{ReadUrl, Renewal};
use super::request::{CONNECT_TIMEOUT, Request, ScriptCall, is_no_script};
use super::sentinels::Sentinels;
use super::slots::Address;
use super::subscriber::Subscriber;
use super::tls::Tls;
use super::url::Place;

/// A handle on one Redis: a server, the master that sentinels watch, or a cluster. Cheap to clone. A
/// connection that breaks, or that the server has closed, is replaced by the next command. Commands are never sent
/// twice by this handle, except where the first time surely did nothing: on a connection that was closed before
/// they were written, to another node of a cluster after one that refused them, to a server that lacked the script.
#[derive(Clone)]
pub struct Redis {
    topology: Arc<Topology>,
    outage: Arc<OutageWatch>,
    losses: Losses,
}

/// A server of a cluster with its replicas, or the one server there is: what [`Redis::shard_of`] names, for
/// [`Redis::subscriber`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shard(Option<Address>);

pub(super) enum Topology {
    One(RedisServer),
    Many(Box<Cluster>),
    Foreign(Foreign),
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
    /// `Misconfigured` when `url` is not a Redis URL (see [`RedisUrl`] for the forms it has), or names a file of TLS that
    /// is of no use. Its words are fit for whoever wrote the URL, and do not repeat it.
    pub fn new(url: &str) -> Result<Self, LinkError> {
        Self::open(url, None)
    }

    /// As [`Redis::new`] of the URL that `read` returns. `read` is called again for each new connection, which uses the
    /// user and the password of that moment. The servers stay those of the first URL; the log has a warning if a later URL
    /// names others, or is malformed. `read` must not block for long.
    ///
    /// # Errors
    /// As [`Redis::new`].
    pub fn with_changing_login(
        url: &str,
        read: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) -> Result<Self, LinkError> {
        Self::open(url, Some(Arc::new(read)))
    }

    fn open(text: &str, read: Option<ReadUrl>) -> Result<Self, LinkError> {
        let malformed = |cause: super::MalformedUrl| {
            LinkError::misconfigured(format!("the Redis URL is malformed: {cause}"))
        };
        let url: RedisUrl = text.parse().map_err(malformed)?;
        let renewal = read.map(|read| Renewal::new(text, &url, read));
        let tls = url.tls.as_ref().map(Tls::load).transpose().map_err(LinkError::misconfigured)?;
        let of_nobody = |info| ServerLogin { info, tls: tls.clone(), renewal: None };
        let server = |info| ServerLogin { renewal: renewal.clone(), ..of_nobody(info) };
        let losses = Losses::default();
        let topology = match url.place {
            Place::Server(info) => Topology::One(RedisServer::new(
                ServerAddress::Fixed(Box::new(server(*info))),
                &losses,
            )),
            Place::Sentinels { servers, name, login } => {
                let servers = servers.into_iter().map(of_nobody).collect();
                let sentinels = Sentinels::new(servers, name, login, renewal);
                Topology::One(RedisServer::new(ServerAddress::Elected(sentinels), &losses))
            }
            Place::Cluster(seeds) => {
                let seeds: Vec<_> = seeds.into_iter().map(server).collect();
                let cluster = Cluster::new(&seeds, &losses).ok_or_else(|| {
                    LinkError::misconfigured("the Redis URL names no node of a cluster")
                })?;
                Topology::Many(Box::new(cluster))
            }
        };
        Ok(Self::with(topology, losses))
    }

    /// A handle on a connection that the program has already. The table at the end of the crate's front page says what
    /// is lost with it.
    pub fn over(connection: impl AnyConnection) -> Self {
        Self::with(Topology::Foreign(Foreign(Box::new(connection))), Losses::default())
    }

    fn with(topology: Topology, losses: Losses) -> Self {
        Self { topology: Arc::new(topology), outage: Arc::new(OutageWatch::logging()), losses }
    }

    /// Tells `listener` of outages. Without one this handle writes them to the log.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), redis_link::LinkError> {
    /// use std::sync::Arc;
    ///
    /// use redis_link::{OutageEvent, Redis};
    ///
    /// let listener = Arc::new(|event: OutageEvent<'_>| match event {
    ///     OutageEvent::Began(error) => eprintln!("Redis is away: {error}"),
    ///     OutageEvent::Ended => eprintln!("Redis is back"),
    /// });
    /// let redis = Redis::new("redis://127.0.0.1/")?.on_outage(listener);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn on_outage(mut self, listener: OutageListener) -> Self {
        self.outage = Arc::new(OutageWatch::new(listener));
        self
    }

    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Sends one command on the shared connection; in a cluster, to the node that serves its
    /// first key.
    ///
    /// # Errors
    /// `Unknown` when it was sent and nothing was heard for 500 ms; it may still run.
    /// `Unavailable` when a server turned it away, or there is none: a master that was
    /// demoted, a slot that is on its way to another node.
    pub async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, LinkError> {
        self.ask(command, |_| ()).await
    }

    /// Runs a script on the shared connection, loading it where the server lacks it. Its keys
    /// have to be in one slot.
    ///
    /// ```no_run
    /// # async fn example(redis: redis_link::Redis) -> Result<(), redis_link::LinkError> {
    /// use std::sync::LazyLock;
    ///
    /// use redis_link::{LuaScript, ScriptCall};
    ///
    /// static ADD: LazyLock<LuaScript> =
    ///     LazyLock::new(|| LuaScript::new("return redis.call('incrby', KEYS[1], ARGV[1])"));
    ///
    /// let visits: i64 = redis.invoke(&ScriptCall::new(&ADD).key("visits").arg(7)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Redis::query`].
    pub async fn invoke<T: FromRedisValue>(&self, script: &ScriptCall) -> Result<T, LinkError> {
        self.ask(script, |_| ()).await
    }

    /// Runs a script on the shared connection; calls `sending` with the number of this connection (see
    /// [`Redis::generation`]) just before the script is sent. Where it was not called, nothing
    /// was sent. Over a connection of the caller's own the number is `u64::MAX`.
    ///
    /// # Errors
    /// As [`Redis::query`].
    pub async fn call<T: FromRedisValue>(
        &self,
        script: &ScriptCall,
        sending: impl FnOnce(u64),
    ) -> Result<T, LinkError> {
        self.ask(script, sending).await
    }

    /// Runs scripts that wait together in one round trip, on one server, in their order; each has
    /// its own answer. `sending` is called with the number of the connection, just before they are sent.
    ///
    /// # Errors
    /// As [`Redis::query`], for all of them. `Defect` unless [`Redis::is_one_server`]: in a cluster their keys may be
    /// on different servers, so there, and over a connection of the caller's own, each has to be sent by itself.
    ///
    /// # Panics
    /// Never, unless the `redis` crate loses an answer.
    pub async fn call_all(
        &self,
        calls: &[ScriptCall],
        sending: impl FnOnce(u64),
    ) -> Result<Vec<Result<Value, LinkError>>, LinkError> {
        let Topology::One(node) = &*self.topology else {
            return Err(LinkError::defect("a pipeline has no one server here"));
        };
        let sent = node.ask_all(calls, sending).await;
        let sent = sent.inspect_err(|error| self.outage.observe::<()>(&[], &Err(error.clone())))?;
        assert_eq!(sent.len(), calls.len(), "a pipeline has one answer for each of its calls");
        let mut answers = Vec::with_capacity(calls.len());
        let mut outage: Option<LinkError> = None;
        for (call, answer) in calls.iter().zip(sent) {
            let answer = match (answer, &outage) {
                // Nothing was done. The first call that is sent again loads the script; where it meets
                // an outage, the others do not wait for the same.
                (Err(error), None) if is_no_script(&error) => {
                    let again: Result<Value, LinkError> = self.call(call, |_| ()).await;
                    outage = again.as_ref().err().filter(|error| error.retry_may_help()).cloned();
                    again
                }
                (Err(error), Some(outage)) if is_no_script(&error) => {
                    Err(LinkError::unsent_after(outage))
                }
                (answer, _) => {
                    let answer = answer.map_err(LinkError::from);
                    self.outage.observe(call.name(), &answer);
                    answer
                }
            };
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Runs a script, then waits until `replicas` replicas have what it wrote, and no longer
    /// than `timeout`; returns the script's answer and how many have it, which may be fewer,
    /// or more. On a connection that nobody else uses meanwhile: one of a pool of 32 for each server. `sending` is
    /// called just before something is sent. A `timeout` of less than a millisecond is one, since 0 is for ever to Redis.
    ///
    /// # Errors
    /// As [`Redis::query`]; the answer may take 500 ms longer than `timeout`. `Unknown` also when the script was done
    /// and the replicas could not be asked. `Unavailable` when all connections of the pool were in use for 400 ms.
    pub async fn call_acknowledged<T: FromRedisValue>(
        &self,
        script: &ScriptCall,
        replicas: usize,
        timeout: Duration,
        sending: impl FnOnce(),
    ) -> Result<(T, usize), LinkError> {
        let acknowledgement = Acknowledgement { replicas, timeout };
        match &*self.topology {
            Topology::One(node) => {
                node.ask_acknowledged(script, false, acknowledgement, sending).await
            }
            Topology::Many(cluster) => {
                Box::pin(cluster.ask_acknowledged(script, acknowledgement, sending)).await
            }
            Topology::Foreign(foreign) => {
                Box::pin(foreign.ask_acknowledged(script, acknowledgement, sending)).await
            }
        }
    }

    /// How full the pool is of connections that are not shared, for [`Redis::call_acknowledged`]. `None`: none was
    /// needed yet, or this is a cluster, where each node has its own, or a connection of the caller's own.
    #[must_use]
    pub fn pool_status(&self) -> Option<PoolStatus> {
        match &*self.topology {
            Topology::One(node) => node.pool_status(),
            Topology::Many(_) | Topology::Foreign(_) => None,
        }
    }

    /// The server that tells what is published on a channel, as far as is known.
    #[must_use]
    pub fn shard_of(&self, channel: &str) -> Shard {
        match &*self.topology {
            Topology::One(_) | Topology::Foreign(_) => Shard(None),
            Topology::Many(cluster) => Shard(cluster.shard_of(channel)),
        }
    }

    /// A fresh connection that receives what is published on the channels of a shard. Its stream ends
    /// when it is lost; of a server that went silent only a `ping` can tell, which has no time-out
    /// of its own. Nothing subscribes anew: that is for the caller, which knows the channels.
    ///
    /// # Errors
    /// `Unavailable` when there was no connection within 400 ms.
    pub async fn subscriber(&self, shard: &Shard) -> Result<Subscriber, LinkError> {
        self.subscriber_within(shard, CONNECT_TIMEOUT).await
    }

    /// The same, where connecting may take up to `limit`.
    ///
    /// # Errors
    /// As [`Redis::subscriber`].
    pub async fn subscriber_within(
        &self,
        shard: &Shard,
        limit: Duration,
    ) -> Result<Subscriber, LinkError> {
        match (&*self.topology, &shard.0) {
            (Topology::One(node), _) => node.subscriber(limit).await,
            (Topology::Foreign(foreign), _) => foreign.subscriber(limit).await,
            (Topology::Many(cluster), Some(address)) => cluster.subscriber(address, limit).await,
            (Topology::Many(_), None) => {
                Err(LinkError::unavailable("the cluster has no such shard"))
            }
        }
    }

    /// Tells that a subscriber failed. In a cluster the slots may be elsewhere: afterwards
    /// [`Redis::shard_of`] knows, unless nobody could say.
    pub async fn subscription_lost(&self, shard: &Shard) {
        if let (Topology::Many(cluster), Some(address)) = (&*self.topology, &shard.0) {
            cluster.subscription_lost(address).await;
        }
    }

    /// Whether the server answers; of a cluster, whether some node does.
    ///
    /// # Errors
    /// As [`Redis::query`].
    pub async fn ping(&self) -> Result<(), LinkError> {
        self.query::<String>(&redis::cmd("PING")).await.map(|_| ())
    }

    /// Checks that every server that takes writes answers: in a cluster, every master at the address that the
    /// cluster announces.
    ///
    /// # Errors
    /// As [`Redis::query`]; the words name the server.
    pub async fn ping_masters(&self) -> Result<(), LinkError> {
        let Topology::Many(cluster) = &*self.topology else { return self.ping().await };
        for master in cluster.all_masters().await? {
            master.node.ask::<String>(&redis::cmd("PING"), false, |_| ()).await?;
        }
        Ok(())
    }

    /// Whether the user may run scripts that the server does not have yet.
    ///
    /// # Errors
    /// `Defect` when it may not; others as [`Redis::query`].
    pub async fn may_run_scripts(&self) -> Result<(), LinkError> {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg("return 1");
        match self.query::<String>(&load).await {
            Err(LinkError::Defect(_)) => {
                self.query::<i64>(redis::cmd("EVAL").arg("return 1").arg(0)).await.map(drop)
            }
            answer => answer.map(drop),
        }
    }

    /// Which shared connection is in use, if one is: commands sent on the same one run in
    /// the order they were sent. Always `None` for a cluster, where the second of two
    /// commands may take another way than the first, and over a connection of the caller's own.
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        match &*self.topology {
            Topology::One(node) => node.generation(),
            Topology::Many(_) | Topology::Foreign(_) => None,
        }
    }

    /// How many shared connections have ended. It changes whenever one does, whether anybody asked for something or
    /// not: the server may have been restarted, and have forgotten what it was told. It never changes over a connection
    /// of the caller's own.
    #[must_use]
    pub fn losses(&self) -> watch::Receiver<u64> {
        self.losses.subscribe()
    }

    /// Whether all keys are known to be on one server, so that a script may have any of them. `false` for a cluster, and
    /// over a connection of the caller's own, which may lead to one.
    #[must_use]
    pub fn is_one_server(&self) -> bool {
        matches!(&*self.topology, Topology::One(_))
    }

    async fn ask<T: FromRedisValue>(
        &self,
        request: impl Request,
        sending: impl FnOnce(u64),
    ) -> Result<T, LinkError> {
        let answer = match &*self.topology {
            Topology::One(node) => node.ask(request, false, sending).await,
            // Boxed: every command under way would carry the way through a cluster.
            Topology::Many(cluster) => Box::pin(cluster.ask(request, sending)).await,
            Topology::Foreign(foreign) => Box::pin(foreign.ask(request, sending)).await,
        };
        self.outage.observe(request.name(), &answer);
        answer
    }
}
