//! The lock when leases end, keys vanish, answers get lost and Redis goes away.

use std::time::Duration;

use faults::{Fault, Proxy};
use futures_util::FutureExt;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use private_stores::{Home, Plan, Server, Servers};
use redis_link::Redis;
use redisson_lock::{Guard, Lease, LockClient, LockError, LockOptions};

use crate::lock::LONG;
use crate::world::World;
use testkit::wait::{eventually, must};

/// Long enough that a busy machine renews it in time.
const SHORT: Duration = Duration::from_millis(1200);

/// Waits until the lease was seen to grow so often.
pub async fn renewed(world: &World, name: &str, times: usize) {
    let (mut seen, mut before) = (0, i64::MAX);
    eventually("the lease was renewed", async || {
        let left = world.pttl(name).await;
        seen += usize::from(left > before);
        before = left;
        seen >= times
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_renewed_past_its_end_and_no_longer_after_the_release() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(SHORT)));
    let guard = locks.lock(&name).try_acquire().await.unwrap().unwrap();
    renewed(&world, &name, 5).await;
    assert!(guard.lost().now_or_never().is_none());
    let (field, lost) = (guard.owner().field().to_owned(), guard.lost());
    guard.release().await.unwrap();
    // A watchdog that outlived the release would keep this alive.
    world.ask::<()>(&["HSET", &name, &field, "1"]).await;
    world.ask::<()>(&["PEXPIRE", &name, "1200"]).await;
    eventually("the lease ended", async || !world.exists(&name).await).await;
    assert!(lost.now_or_never().is_none(), "a released lock is not a lost one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_lease_is_never_renewed_and_announces_its_end() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    let fixed = Lease::Fixed(Duration::from_millis(200));
    let guard = locks
        .lock(&name)
        .owned_by(&locks.owner())
        .lease(fixed)
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    must("the end is announced", guard.lost()).await;
    eventually("Redis let go", async || !world.exists(&name).await).await;
    assert!(matches!(guard.release().await, Err(LockError::NotHeld(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_vanished_or_was_taken_over_is_announced_and_not_made_again() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(SHORT)));
    let guard = locks.lock(&name).try_acquire().await.unwrap().unwrap();
    world.ask::<()>(&["DEL", &name]).await;
    must("the loss is announced", guard.lost()).await;
    assert!(!world.exists(&name).await, "a renewal never creates");
    assert!(matches!(guard.release().await, Err(LockError::NotHeld(_))));

    let guard = locks.lock(&name).try_acquire().await.unwrap().unwrap();
    world.ask::<()>(&["DEL", &name]).await;
    world.ask::<()>(&["HSET", &name, "somebody:1", "1"]).await;
    world.ask::<()>(&["PEXPIRE", &name, "1000000"]).await;
    must("the loss is announced", guard.lost()).await;
    drop(guard);
    locks.shutdown().await;
    assert_eq!(world.holds(&name, "somebody:1").await.as_deref(), Some("1"));
    assert!(world.pttl(&name).await > 900_000, "nobody else's lease is changed");
}

/// A guard whose lock was lost and a guard of the same owner that took it anew are two:
/// the end of the first does not end the second.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_guard_does_not_give_back_what_its_owner_took_later() {
    let world = World::new().await;
    let name = world.lock_name();
    for drops in [true, false] {
        let locks = world.lock_client(Lease::Renewed(LONG));
        let owner = locks.owner();
        let fixed = Lease::Fixed(Duration::from_millis(200));
        let lost = locks
            .lock(&name)
            .owned_by(&owner.clone())
            .lease(fixed)
            .try_acquire()
            .await
            .unwrap()
            .unwrap();
        must("the lease ends", lost.lost()).await;
        eventually("Redis let go", async || !world.exists(&name).await).await;
        let anew = locks.lock(&name).owned_by(&owner).try_acquire().await.unwrap().unwrap();
        if drops {
            drop(lost);
        } else {
            assert!(matches!(lost.release().await, Err(LockError::NotHeld(_))));
        }
        locks.shutdown().await; // whatever was to be given back is
        assert_eq!(world.holds(&name, owner.field()).await.as_deref(), Some("1"));
        anew.release().await.unwrap();
    }
}

/// Also where the first guard was made before anybody else had its owner, and while its
/// watchdog still runs: it must not take the later grant for its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_watchdog_does_not_take_a_later_grant_of_its_owner_for_its_own() {
    let world = World::new().await;
    for recorded in [true, false] {
        let name = format!("{}:{recorded}", world.lock_name());
        let locks = world.lock_client(Lease::Renewed(SHORT));
        let lost = if recorded {
            locks.lock(&name).owned_by(&locks.owner()).try_acquire().await
        } else {
            locks.lock(&name).try_acquire().await
        };
        let lost = lost.unwrap().unwrap();
        let owner = lost.owner().clone();
        world.ask::<()>(&["DEL", &name]).await;
        let anew = locks.lock(&name).owned_by(&owner).try_acquire().await.unwrap().unwrap();
        must("the loss is announced", lost.lost()).await;
        assert!(anew.lost().now_or_never().is_none());
        drop(lost);
        locks.shutdown().await;
        assert_eq!(world.holds(&name, owner.field()).await.as_deref(), Some("1"));
        anew.release().await.unwrap();
        assert!(!world.exists(&name).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_cut_off_from_redis_learns_it_by_the_deadline() {
    let world = World::new().await;
    for fault in [Fault::Down, Fault::Deaf] {
        let proxy = Proxy::start(&world.redis_url).await.unwrap();
        let name = format!("{}:{fault:?}", world.lock_name());
        let lease = Lease::Fixed(SHORT);
        let locks =
            LockClient::new(Redis::new(proxy.url()).unwrap(), LockOptions::default().lease(lease));
        let renewed = Lease::Renewed(SHORT);
        let guard = locks
            .lock(&name)
            .owned_by(&locks.owner())
            .lease(renewed)
            .try_acquire()
            .await
            .unwrap()
            .unwrap();
        proxy.break_by(fault);
        must("the loss is announced", guard.lost()).await;
        eventually("Redis let go", async || !world.exists(&name).await).await;
        drop(guard);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_went_deaf_is_replaced() {
    let world = World::new().await;
    let proxy = Proxy::start(&world.redis_url).await.unwrap();
    let redis = Redis::new(proxy.url()).unwrap();
    redis.ping().await.unwrap();
    proxy.break_by(Fault::Deaf);
    assert!(redis.ping().await.unwrap_err().outcome_unknown());
    proxy.break_by(Fault::None);
    // The network is well again; only the old connection will never answer.
    redis.ping().await.unwrap();
}

struct Shared {
    world: World,
    proxy: Proxy,
    locks: LockClient,
    name: String,
    outer: Guard,
}

/// A lock held once by an owner who may enter again, behind a proxy.
async fn held_once_behind_a_proxy(fair: bool) -> Shared {
    let world = World::new().await;
    let proxy = Proxy::start(&world.redis_url).await.unwrap();
    let lease = Lease::Renewed(LONG);
    let locks = LockClient::new(
        Redis::new(proxy.url()).unwrap(),
        LockOptions::default().lease(lease).fair(fair),
    );
    let name = world.lock_name();
    let outer = locks.lock(&name).owned_by(&locks.owner()).try_acquire().await.unwrap().unwrap();
    // Every script is known to the server by now: a call is one request.
    locks
        .lock(&name)
        .owned_by(outer.owner())
        .try_acquire()
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    Shared { world, proxy, locks, name, outer }
}

impl Shared {
    async fn one_hold_remains(self) {
        self.locks.shutdown().await;
        let holds = self.world.holds(&self.name, self.outer.owner().field()).await;
        assert_eq!(holds.as_deref(), Some("1"));
        self.outer.release().await.unwrap();
        assert!(!self.world.exists(&self.name).await);
    }
}

/// What may be lost, of a plain lock and of a fair one.
fn losses() -> [(Fault, bool); 4] {
    let (answer, request) = (Fault::LoseAnswer, Fault::LoseRequest);
    [(answer, false), (request, false), (answer, true), (request, true)]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_answer_is_lost_costs_one_hold_not_two() {
    for (fault, fair) in losses() {
        let shared = held_once_behind_a_proxy(fair).await;
        let owner = shared.outer.owner();
        let inner =
            shared.locks.lock(&shared.name).owned_by(owner).try_acquire().await.unwrap().unwrap();
        shared.proxy.break_by(fault);
        let released = inner.release().await;
        assert!(released.as_ref().is_err_and(LockError::outcome_unknown), "{released:?}");
        shared.one_hold_remains().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_whose_answer_is_lost_is_taken_back_and_one_that_never_came_is_not() {
    for (fault, fair) in losses() {
        let shared = held_once_behind_a_proxy(fair).await;
        shared.proxy.break_by(fault);
        let taken =
            shared.locks.lock(&shared.name).owned_by(shared.outer.owner()).try_acquire().await;
        assert!(taken.as_ref().is_err_and(LockError::outcome_unknown), "{taken:?}");
        shared.one_hold_remains().await;
    }
}

async fn private_redis() -> Servers {
    let plan = Plan { home: Home::Throwaway, postgres: false, redis: true, durable: false };
    tokio::task::spawn_blocking(move || Servers::start(&plan).unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_learns_that_redis_sleeps_and_nothing_is_left_when_it_wakes() {
    let servers = private_redis().await;
    let redis = Redis::new(servers.redis_url().unwrap()).unwrap();
    let lease = Lease::Renewed(SHORT);
    let locks = LockClient::new(redis.clone(), LockOptions::default().lease(lease));
    let guard = locks.lock("held").try_acquire().await.unwrap().unwrap();
    let pid = Pid::from_raw(servers.pid(Server::Redis).unwrap().cast_signed());
    kill(pid, Signal::SIGSTOP).unwrap();
    // Sent, but not done before Redis wakes: unknown, and taken back then.
    let long = Lease::Renewed(LONG);
    let unknown = locks.lock("asleep").owned_by(&locks.owner()).lease(long).try_acquire().await;
    assert!(unknown.as_ref().is_err_and(LockError::retry_may_help), "{unknown:?}");
    must("the loss is announced", guard.lost()).await;
    kill(pid, Signal::SIGCONT).unwrap();
    drop(guard);
    locks.shutdown().await;
    for name in ["held", "asleep"] {
        let there: i64 = redis.query(redis::cmd("EXISTS").arg(name)).await.unwrap();
        assert_eq!(there, 0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_redis_that_knows_no_script_serves_at_once() {
    let mut servers = private_redis().await;
    let redis = Redis::new(servers.redis_url().unwrap()).unwrap();
    let locks = LockClient::new(
        redis.clone(),
        LockOptions::default().lease(Lease::Renewed(Duration::from_secs(3))),
    );
    for _ in 0..2 {
        let held = locks.lock("held").try_acquire().await.unwrap().unwrap();
        locks.lock("other").try_acquire().await.unwrap().unwrap().release().await.unwrap();
        let mut stopped = servers;
        servers = tokio::task::spawn_blocking(move || {
            stopped.restart(Server::Redis).unwrap();
            stopped
        })
        .await
        .unwrap();
        // The old connection is found broken by whoever uses it first.
        eventually("Redis answers again", async || redis.ping().await.is_ok()).await;
        locks.lock("other").try_acquire().await.unwrap().unwrap().release().await.unwrap();
        must("the loss is announced", held.lost()).await;
        assert!(matches!(held.release().await, Err(LockError::NotHeld(_))));
    }
}
