//! What many sequences share: connections, a clock that only the test moves, and a look at
//! Redis past the locks.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use faults::{Fault, Proxy};
use redis_link::LuaScript;
use redis_link::{Redis, ScriptCall};
use tokio::runtime;
use tokio::task::yield_now;

use super::model::{Seen, Verdict};

static LOOK: LazyLock<LuaScript> = LazyLock::new(|| {
    LuaScript::new(
        "local seen = {} for at, key in ipairs(KEYS) do \
             seen[at] = {redis.call('pttl', key), redis.call('hgetall', key)} end return seen",
    )
});

static AGE: LazyLock<LuaScript> = LazyLock::new(|| {
    LuaScript::new(
        "for _, key in ipairs(redis.call('keys', ARGV[1])) do \
             redis.call('pexpire', key, redis.call('pttl', key) - ARGV[2]) end",
    )
});

static SWEEP: LazyLock<LuaScript> = LazyLock::new(|| {
    LuaScript::new(
        "local kept = {} for _, key in ipairs(redis.call('keys', ARGV[1])) do \
             if redis.call('pttl', key) < 0 then table.insert(kept, key) end \
             redis.call('del', key) end return kept",
    )
});

/// Where a client's commands go. The first way is straight.
pub struct Way {
    pub redis: Redis,
    pub proxy: Option<Proxy>,
}

pub struct Ground {
    url: String,
    pub probe: Redis,
    pub ways: Vec<Way>,
    /// Of this many tasks, all of connections.
    connections: usize,
    /// The proxies run elsewhere, so that the tasks here are the locks'.
    network: runtime::Handle,
    /// So long, by a real clock, before a test that waits in vain says so.
    pub patience: Duration,
}

impl Ground {
    pub async fn new(url: &str, network: &runtime::Handle, patience: Duration) -> Self {
        let mut ground = Self {
            url: url.to_owned(),
            probe: Redis::new(url).unwrap(),
            ways: vec![Way { redis: Redis::new(url).unwrap(), proxy: None }],
            connections: 0,
            network: network.clone(),
            patience,
        };
        for _ in 0..2 {
            let way = ground.new_way().await;
            ground.ways.push(way);
        }
        ground.probe.ping().await.unwrap();
        ground.barrier().await;
        ground.connections = tasks();
        ground
    }

    pub async fn new_way(&self) -> Way {
        let url = self.url.clone();
        let proxy =
            self.network.spawn(async move { Proxy::start(&url).await.unwrap() }).await.unwrap();
        Way { redis: Redis::new(proxy.url()).unwrap(), proxy: Some(proxy) }
    }

    pub fn break_by(&self, client: usize, fault: Fault) -> bool {
        let proxy = self.ways[client].proxy.as_ref();
        proxy.inspect(|proxy| proxy.break_by(fault)).is_some()
    }

    /// Until everything sent on the ways before this is answered and the answers read.
    pub async fn barrier(&self) {
        // A connection that was cut is found to be by whoever uses it first.
        let pings = self.ways.iter().map(|way| way.redis.ping());
        futures_util::future::join_all(pings).await;
        for _ in 0..4 {
            yield_now().await;
        }
    }

    /// About as long as anything that was just sent needs to be answered.
    pub async fn round_trip(&self) {
        for _ in 0..2 {
            self.probe.ping().await.unwrap();
        }
    }

    pub async fn look(&self, names: &[String]) -> Vec<Seen> {
        let call = names.iter().fold(ScriptCall::new(&LOOK), ScriptCall::key);
        self.probe.invoke(&call).await.unwrap()
    }

    /// Redis counts down what has this in its name.
    pub async fn age(&self, pattern: &str, by: Duration) {
        let call = ScriptCall::new(&AGE).arg(pattern).arg(by.as_millis());
        self.probe.invoke::<()>(&call).await.unwrap();
    }

    /// Removes what has this in its name. What would have stayed for ever.
    pub async fn sweep(&self, pattern: &str) -> Vec<String> {
        self.probe.invoke(&ScriptCall::new(&SWEEP).arg(pattern)).await.unwrap()
    }

    /// How many connections listen for releases of each.
    pub async fn listeners(&self, names: &[String]) -> Vec<i64> {
        let mut command = redis::cmd("PUBSUB");
        command.arg("NUMSUB");
        for name in names {
            command.arg(format!("redisson_lock__channel:{{{name}}}"));
        }
        let answer: Vec<(String, i64)> = self.probe.query(&command).await.unwrap();
        answer.into_iter().map(|(_, listeners)| listeners).collect()
    }

    /// Until no task is left but those of the connections.
    pub async fn until_no_task_is_left(&self) -> Verdict {
        let begun = Instant::now();
        while tasks() > self.connections {
            if begun.elapsed() > self.patience {
                return Err(format!("{} tasks are left, {} known", tasks(), self.connections));
            }
            self.barrier().await;
        }
        Ok(())
    }
}

pub fn tasks() -> usize {
    runtime::Handle::current().metrics().num_alive_tasks()
}
