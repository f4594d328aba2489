//! A grant is never told when its lease is over: by the fake at the exact instant, then beside real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use faults::{Fault, Proxy};
use futures_util::future::{BoxFuture, join_all, ready};
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, Value};
use redis_link::{AnyConnection, LentConnection, Redis};
use redisson_lock::fake::FakeRedis;
use redisson_lock::{Lease, Lock, LockClient, LockError, LockOptions};
use testkit::redis_nodes::Node;
use testkit::wait::{eventually, must};

use crate::world::{LONG, World, passes};

/// Both are shorter than the 500 ms after which a server counts as silent.
const LEASE: Duration = Duration::from_millis(200);
const LATE: Duration = Duration::from_millis(400);
const PROMPT: Duration = Duration::ZERO;

fn is_too_late<T>(entered: &Result<T, LockError>) -> bool {
    matches!(entered, Err(error @ LockError::TooLate) if !error.outcome_unknown())
}

/// The fake behind a slow network.
#[derive(Clone)]
struct SlowFake {
    fake: FakeRedis,
    request: Duration,
    answer: Duration,
    /// How many calls are slow yet.
    slow: Arc<AtomicUsize>,
}

impl SlowFake {
    fn new(fake: &FakeRedis, request: Duration, answer: Duration) -> Self {
        Self { fake: fake.clone(), request, answer, slow: Arc::new(usize::MAX.into()) }
    }

    fn locks(&self, options: LockOptions) -> LockClient {
        LockClient::new(Redis::over(self.clone()), options)
    }
}

impl AnyConnection for SlowFake {
    fn lend(
        &self,
    ) -> BoxFuture<'_, Result<LentConnection<'_>, Box<dyn std::error::Error + Send + Sync>>> {
        let lent: LentConnection<'_> = Box::new(self.clone());
        Box::pin(ready(Ok(lent)))
    }
}

impl ConnectionLike for SlowFake {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let one_less = |left: usize| left.checked_sub(1);
            let is_slow = self.slow.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
            let (request, answer) =
                if is_slow.is_ok() { (self.request, self.answer) } else { (PROMPT, PROMPT) };
            tokio::time::sleep(request).await;
            let answered = self.fake.req_packed_command(command).await;
            tokio::time::sleep(answer).await;
            answered
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.fake.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        0
    }
}

/// Nobody holds it, and another one enters.
async fn is_free(fake: &FakeRedis, name: &str) {
    let others = LockClient::new(Redis::over(fake.clone()), LockOptions::default());
    assert_eq!(others.lock(name).state().await.unwrap(), None);
    passes(&others.lock(name)).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_grants_a_lock_until_the_lease_is_over_and_no_longer() {
    let tick = Duration::from_millis(10);
    for lease in [Lease::Fixed(LEASE), Lease::Renewed(LEASE)] {
        for (late, is_in_time) in
            [(LEASE - tick, true), (LEASE, false), (LEASE + tick, false), (LATE, false)]
        {
            // What is late is the answer, or already the request: then Redis keeps the grant for a lease more.
            for (request, answer) in [(PROMPT, late), (late, PROMPT)] {
                let fake = FakeRedis::default();
                let slow = SlowFake::new(&fake, request, answer);
                let locks = slow.locks(LockOptions::default().lease(lease));
                for lock in [locks.lock("l"), locks.lock("l").owned_by(&locks.owner()).fenced()] {
                    let entered = lock.try_acquire().await;
                    if is_in_time {
                        let guard = entered.unwrap().unwrap();
                        assert!(!guard.is_lost(), "{late:?}");
                        drop(guard.release().await);
                    } else {
                        assert!(is_too_late(&entered), "{late:?}: {entered:?}");
                    }
                    is_free(&fake, "l").await;
                }
                locks.shutdown().await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_takes_a_late_grant_for_an_outage() {
    let options = LockOptions::default().lease(Lease::Fixed(LEASE));
    for late in [LEASE, LATE] {
        let fake = FakeRedis::default();
        let slow = SlowFake::new(&fake, late, PROMPT);
        let locks = slow.locks(options.outage_patience(LONG));
        // It ends: with the limit of the wait, or with the patience for outages.
        let lock = locks.lock("l");
        for limit in [PROMPT, LEASE * 10] {
            let entered = lock.acquire_within(limit).await;
            assert!(is_too_late(&entered), "{limit:?}: {entered:?}");
        }
        let entered = lock.acquire().await;
        assert!(is_too_late(&entered), "{entered:?}");
        locks.shutdown().await;
        is_free(&fake, "l").await;
        // The grant, what gives it back, and the next grant are late; the one after it is not.
        slow.slow.store(3, Ordering::SeqCst);
        let locks = slow.locks(options);
        let guard = locks.lock("l").acquire().await.unwrap();
        assert!(!guard.is_lost());
        guard.release().await.unwrap();
        locks.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_grant_costs_its_owner_none_of_its_other_holds_and_others_none_of_their_locks() {
    let fake = FakeRedis::default();
    let slow = SlowFake::new(&fake, LEASE, PROMPT);
    let options = LockOptions::default();
    let locks = slow.locks(options);
    slow.slow.store(0, Ordering::SeqCst);
    let owner = locks.owner();
    let lock = locks.lock("l").owned_by(&owner);
    let outer = lock.acquire().await.unwrap();
    slow.slow.store(1, Ordering::SeqCst);
    let entered = lock.clone().lease(Lease::Fixed(LEASE)).try_acquire().await;
    assert!(is_too_late(&entered), "{entered:?}");
    assert_eq!(lock.holds(&owner).await.unwrap(), 1);
    assert!(!outer.is_lost());
    outer.release().await.unwrap();

    // A holder who came in when the lease was over stays.
    let slow = SlowFake::new(&fake, PROMPT, LATE);
    let late = slow.locks(options.lease(Lease::Fixed(LEASE))).lock("l");
    let next = locks.lock("l");
    let (entered, next) = tokio::join!(late.try_acquire(), async {
        tokio::time::sleep(LEASE).await;
        next.acquire().await.unwrap()
    });
    assert!(is_too_late(&entered), "{entered:?}");
    next.release().await.unwrap();
}

/// A client whose network can hold back what Redis answers.
struct Behind {
    world: World,
    proxy: Proxy,
    locks: LockClient,
}

impl Behind {
    async fn start() -> Self {
        let world = World::new().await;
        let options = LockOptions::default().lease(Lease::Fixed(LEASE));
        let (proxy, locks) = world.behind_proxy(options).await;
        // From here on it is connected, and Redis knows the scripts: a try is one request.
        for lock in [locks.lock(world.name()), locks.lock(world.name()).fair()] {
            passes(&lock.lease(Lease::Fixed(LONG)).fenced()).await;
        }
        Self { world, proxy, locks }
    }

    fn lock(&self, number: usize) -> Lock {
        self.locks.lock(format!("{}:{number}", self.world.name())).fenced()
    }

    /// What comes of it if the answers come when the lease of the lock of this number is over.
    async fn late<T: Send + 'static>(
        &self,
        number: usize,
        entering: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let name = self.lock(number).name().to_owned();
        self.proxy.break_by(Fault::HoldAnswers);
        let entering = tokio::spawn(entering);
        // The counter outlives the grant.
        let token = format!("redisson_lock_token:{{{name}}}");
        eventually("Redis granted it", async || self.world.exists(&token).await).await;
        eventually("the lease is over", async || !self.world.exists(&name).await).await;
        self.proxy.break_by(Fault::None);
        must("it is answered", entering).await.unwrap()
    }
}

/// One by itself, and others in pipelines.
#[tokio::test(flavor = "multi_thread")]
async fn of_eight_answers_that_the_network_holds_back_none_grants_a_lock() {
    for is_fair in [false, true] {
        let behind = Behind::start().await;
        let lock = |number| match is_fair {
            false => behind.lock(number),
            true => behind.lock(number).fair(),
        };
        let tries = (0..8).map(|number| {
            let lock = lock(number);
            async move {
                match number % 2 {
                    0 => lock.try_acquire().await,
                    _ => lock.acquire_within(PROMPT).await,
                }
            }
        });
        let entered = behind.late(0, join_all(tries.collect::<Vec<_>>())).await;
        assert!(entered.iter().all(is_too_late), "{entered:?}");
        let others = behind.world.lock_client(Lease::Fixed(LONG));
        for name in (0..8).map(|number| lock(number).name().to_owned()) {
            assert!(behind.world.is_gone(&name).await);
            passes(&others.lock(name)).await;
        }
        // A wait goes on, and enters by the next answer.
        let waiting = lock(8).lease(Lease::Renewed(LEASE)).acquire();
        let guard = behind.late(8, waiting).await.unwrap();
        assert!(guard.validity() > Duration::ZERO);
        drop(guard);
        behind.locks.shutdown().await;
    }
}

/// In the words of the issue: `WAIT` may take longer than the lease.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_waited_for_less_long_than_the_lease() {
    let (master, replica) = Node::pair().await;
    let second = Duration::from_secs(1);
    let locks = LockClient::new(Redis::new(&master.url()).unwrap(), LockOptions::default());
    let lock = locks.lock("l").lease(Lease::Renewed(second));
    replica.pause();
    for within in [second, second * 3, Duration::MAX] {
        for lock in [lock.clone(), lock.clone().fair()].map(|lock| lock.acknowledged_by(1, within))
        {
            for entered in [
                lock.try_acquire().await,
                lock.acquire_within(LONG).await,
                lock.acquire().await.map(Some),
            ] {
                assert!(matches!(entered, Err(LockError::InvalidLease)), "{entered:?}");
            }
        }
    }
    // A replica that is always later than that is told at once, and nothing is taken and given back until then.
    let lock = lock.acknowledged_by(1, LEASE);
    let entered = must("it is told", lock.acquire()).await;
    assert!(matches!(entered, Err(LockError::NotReplicated { .. })), "{entered:?}");
    locks.shutdown().await;
    assert_eq!(master.command::<i64>(&["EXISTS", "l"]).await, 0);
    replica.resume();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_that_comes_when_the_lease_is_over_grants_nothing() {
    let (master, replica) = Node::pair().await;
    let proxy = Proxy::start(&master.url()).await.unwrap();
    let second = Duration::from_secs(1);
    let options = LockOptions::default().lease(Lease::Renewed(second));
    let locks = LockClient::new(Redis::new(proxy.url()).unwrap(), options);
    let lock = locks.lock("l").acknowledged_by(1, second * 9 / 10);
    must("the replica is there", async {
        // Until it follows, it acknowledges nothing.
        while lock.try_acquire().await.is_err() {}
    })
    .await;
    locks.lock("l").acquire().await.unwrap().release().await.unwrap();
    replica.pause();
    let (entered, ()) = tokio::join!(lock.try_acquire(), async {
        eventually("WAIT waits", async || {
            master.field(&["INFO", "clients"], "blocked_clients").await == "1"
        })
        .await;
        proxy.break_by(Fault::HoldAnswers);
        replica.resume();
        eventually("the lease is over", async || {
            master.command::<i64>(&["EXISTS", "l"]).await == 0
        })
        .await;
        proxy.break_by(Fault::None);
    });
    assert!(is_too_late(&entered), "{entered:?}");
    let others = LockClient::new(Redis::new(&master.url()).unwrap(), options);
    passes(&others.lock("l")).await;
    locks.shutdown().await;
}
