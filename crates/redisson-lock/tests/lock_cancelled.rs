//! Waits dropped at every await point: nothing is left behind, and nobody else's wake-up is lost.

use std::task::Poll;

use redis_link::Redis;
use redisson_lock::{Lock, LockClient, Owner};
use tokio::task::{JoinSet, yield_now};

use crate::world::{LONG, World, channel, renewing};
use testkit::still_clock::StillClock;
use testkit::wait::{PATIENCE, must};

const POLLS: usize = 60;

/// Who waits, in every way that there is.
#[derive(Debug, Clone, Copy)]
struct Manner {
    limited: bool,
    fenced: bool,
    owned: bool,
    fair: bool,
}

fn manners() -> impl Iterator<Item = Manner> {
    (0..16).map(|bits| Manner {
        limited: bits & 1 > 0,
        fenced: bits & 2 > 0,
        owned: bits & 4 > 0,
        fair: bits & 8 > 0,
    })
}

impl Manner {
    fn lock(self, locks: &LockClient, name: &str, owner: &Owner) -> Lock {
        let lock = self.others(locks, name);
        let lock = if self.fenced { lock.fenced() } else { lock };
        if self.owned { lock.owned_by(owner) } else { lock }
    }

    /// The lock of those who come in: it is fair for all or for none.
    fn others(self, locks: &LockClient, name: &str) -> Lock {
        let lock = locks.lock(name);
        if self.fair { lock.fair() } else { lock }
    }

    /// Polls so often, and drops the wait, or the guard that it brought. Every other time
    /// the server is given time to answer in between, by `beside`.
    async fn wait_and_drop(self, lock: Lock, polls: usize, beside: Redis) {
        let (polls, pings) =
            if polls.is_multiple_of(2) { (polls, false) } else { (polls / 4, true) };
        let mut waiting = Box::pin(async {
            if self.limited {
                // Longer than any test lasts.
                return lock.acquire_within(LONG).await;
            }
            lock.acquire().await.map(Some)
        });
        for _ in 0..polls {
            if let Poll::Ready(entered) = futures_util::poll!(&mut waiting) {
                assert!(entered.unwrap().is_some());
                return;
            }
            if pings {
                beside.ping().await.unwrap();
            } else {
                yield_now().await;
            }
        }
    }
}

/// Polls `future` up to `polls` times, and drops it.
pub async fn poll_and_drop(polls: usize, future: impl Future) {
    let mut future = Box::pin(future);
    for _ in 0..polls {
        if futures_util::poll!(&mut future).is_ready() {
            return;
        }
        yield_now().await;
    }
}

/// Without a sleep: the clock may stand still.
async fn until_nobody_listens(world: &World, name: &str) {
    let channels = format!("{}*", channel(name));
    while !world.ask::<Vec<String>>(&["PUBSUB", "CHANNELS", &channels]).await.is_empty() {
        yield_now().await;
    }
}

/// The holder leaves before, while and after the others are dropped; whoever waits to the
/// end comes in, and when all are gone nothing tells of them.
async fn dropped_while_the_holder_leaves(world: &World, manner: Manner) {
    let holder = world.client();
    let (locks, stays) = (renewing(&world.redis_url), renewing(&world.redis_url));
    let mut names = Vec::new();
    for polls in 0..POLLS {
        let name = format!("{}:{manner:?}:{polls}", world.name());
        let held = manner.others(&holder, &name).acquire().await.unwrap();
        let owner = locks.owner();
        let mut tasks = JoinSet::new();
        for same_client in [true, false] {
            let client = if same_client { &locks } else { &stays };
            let lock = manner.others(client, &name);
            tasks.spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
        }
        for polls in [polls / 2, polls, polls + 1] {
            let lock = manner.lock(&locks, &name, &owner);
            let beside = world.redis.clone();
            tasks.spawn(async move { manner.wait_and_drop(lock, polls, beside).await });
        }
        for _ in 0..polls / 2 {
            yield_now().await;
        }
        held.release().await.unwrap();
        tasks.join_all().await;
        names.push(name);
    }
    for client in [locks, stays, holder] {
        client.shutdown().await;
    }
    for name in names {
        assert!(world.is_gone(&name).await, "{name}");
        until_nobody_listens(world, &name).await;
    }
}

/// Whoever is not woken sleeps for ever here: the clock by which a waiter would try again
/// stands still.
#[test]
fn waits_dropped_at_any_await_point_cost_nobody_the_wake_up() {
    for manner in manners() {
        let test = async {
            let world = World::new().await;
            dropped_while_the_holder_leaves(&world, manner).await;
        };
        let ended = StillClock::new().block_on(PATIENCE, test);
        assert!(ended.is_some(), "{manner:?}: somebody waits in vain");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn waits_dropped_on_several_threads_leave_nothing_behind() {
    let world = World::new().await;
    for manner in manners() {
        let test = dropped_while_the_holder_leaves(&world, manner);
        must("those who stay have been inside", test).await;
    }
}
