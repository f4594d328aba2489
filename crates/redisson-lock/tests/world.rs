//! What a test of the lock stands on: the run's Redis, and names of its own.

use std::time::Duration;

use faults::Proxy;
use redis_link::{Redis, SubscriberSink, SubscriberStream};
use redisson_lock::{Guard, Lease, Lock, LockClient, LockError, LockOptions};
use testkit::program::Program;
use testkit::wait::{eventually, must};
use tokio::task::JoinHandle;

/// A lease that outlasts any test, and what a test waits for in vain: what is left behind is found, and not over by then.
pub const LONG: Duration = Duration::from_secs(600);

/// One test's own world.
pub struct World {
    pub redis_url: String,
    pub redis: Redis,
    /// Begins every name of this test.
    prefix: String,
}

impl World {
    pub async fn new() -> Self {
        let redis_url = testkit::servers::redis_url().await;
        let redis = Redis::new(&redis_url).unwrap();
        Self { redis_url, redis, prefix: format!("t_{}:", uuid::Uuid::new_v4().simple()) }
    }

    /// A world, the name of its lock, and a client.
    pub async fn with_locks() -> (Self, String, LockClient) {
        let world = Self::new().await;
        let (name, locks) = (world.name(), world.client());
        (world, name, locks)
    }

    /// A world, `seckill` on its Redis, and the name of a lock.
    pub async fn with_program() -> (Self, Program, String) {
        let world = Self::new().await;
        let (program, name) = (seckill(&world.redis_url), world.name());
        (world, program, name)
    }

    /// The name of a lock of this test.
    pub fn name(&self) -> String {
        format!("{}lock:order:7", self.prefix)
    }

    pub fn locks(&self, options: LockOptions) -> LockClient {
        LockClient::new(self.redis.clone(), options)
    }

    pub fn lock_client(&self, lease: Lease) -> LockClient {
        self.locks(LockOptions::default().lease(lease))
    }

    /// A client whose locks nobody loses.
    pub fn client(&self) -> LockClient {
        self.lock_client(Lease::Renewed(LONG))
    }

    /// A client whose network the test can break.
    pub async fn behind_proxy(&self, options: LockOptions) -> (Proxy, LockClient) {
        let proxy = Proxy::start(&self.redis_url).await.unwrap();
        let locks = LockClient::new(Redis::new(proxy.url()).unwrap(), options);
        (proxy, locks)
    }

    pub async fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        self.redis.query(&command).await.unwrap()
    }

    pub async fn exists(&self, key: &str) -> bool {
        self.ask::<i64>(&["EXISTS", key]).await == 1
    }

    pub async fn holds(&self, lock: &str, owner: &str) -> Option<String> {
        self.ask(&["HGET", lock, owner]).await
    }

    pub async fn pttl(&self, key: &str) -> i64 {
        self.ask(&["PTTL", key]).await
    }

    /// How many connections listen for what is published on it.
    pub async fn subscribers(&self, channel: &str) -> i64 {
        let answer: (String, i64) = self.ask(&["PUBSUB", "NUMSUB", channel]).await;
        answer.1
    }

    /// How many connections listen for releases of the lock.
    pub async fn listeners(&self, name: &str) -> i64 {
        self.subscribers(&channel(name)).await
    }

    pub async fn until_listeners(&self, name: &str, count: i64) {
        eventually("so many listen", async || self.listeners(name).await == count).await;
    }
}

/// A client of its own connections, whose locks nobody loses.
pub fn renewing(redis_url: &str) -> LockClient {
    let options = LockOptions::default().lease(Lease::Renewed(LONG));
    LockClient::new(Redis::new(redis_url).unwrap(), options)
}

/// Who hears what is published there from now on.
pub async fn hearing(redis: &Redis, channel: &str) -> (SubscriberSink, SubscriberStream) {
    let subscriber = redis.subscriber(&redis.shard_of(channel)).await.unwrap();
    let (mut sink, stream) = subscriber.split();
    sink.subscribe(&[channel.to_owned()]).await.unwrap();
    (sink, stream)
}

/// What is published next.
pub async fn heard(hearing: &mut (SubscriberSink, SubscriberStream)) -> String {
    must("a message comes", hearing.1.next()).await.unwrap().get_payload().unwrap()
}

/// Where the release of a lock is told.
pub fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// `seckill`, and what it runs.
pub fn seckill(redis_url: &str) -> Program {
    Program::alone().with("REDIS_URL", redis_url).with("PATH", "/usr/bin:/bin")
}

/// Takes a lock that is free.
pub async fn taken(lock: &Lock) -> Guard {
    lock.try_acquire().await.unwrap().unwrap()
}

/// Takes a lock that is free, and gives it back.
pub async fn passes(lock: &Lock) {
    taken(lock).await.release().await.unwrap();
}

/// Whoever waits in a task of its own.
pub fn waiting(lock: &Lock) -> JoinHandle<Result<Guard, LockError>> {
    tokio::spawn(lock.acquire())
}

/// Waits until what is `left` of a lease was seen to grow so often.
pub async fn renewed(times: usize, mut left: impl AsyncFnMut() -> i64) {
    let (mut seen, mut before) = (0, i64::MAX);
    eventually("the lease was renewed", async || {
        let left = left().await;
        seen += usize::from(left > before);
        before = left;
        seen >= times
    })
    .await;
}
