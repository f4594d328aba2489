//! The fair lock: who is next, what stands in Redis meanwhile, and what becomes of those who leave.

use std::time::Duration;

use faults::Fault;
use redisson_lock::{Lock, LockClient, LockError, LockOptions, MultiLock, RedLock, RedLockOptions};

use crate::world::{World, channel, heard, hearing, waiting};
use testkit::wait::{eventually, must};

/// What a waiter adds to the places of those behind it, as Redisson's `fairLockWaitTimeout`.
const PLACE: i64 = 300_000;
/// Some thread of some Java program.
const FOREIGN: &str = "285475da-9152-4c83-822a-67ee2f116a79:52";

impl World {
    pub async fn fair_queue(&self, name: &str) -> Vec<String> {
        self.ask(&["LRANGE", &format!("redisson_lock_queue:{{{name}}}"), "0", "-1"]).await
    }

    fn places(name: &str) -> String {
        format!("redisson_lock_timeout:{{{name}}}")
    }

    /// How long this waiter keeps its place yet, in milliseconds.
    async fn place_left(&self, name: &str, waiter: &str) -> i64 {
        let ends: f64 = self.ask(&["ZSCORE", &Self::places(name), waiter]).await;
        #[allow(clippy::cast_possible_truncation)]
        let ends = ends as i64;
        ends - self.now_ms().await
    }

    async fn now_ms(&self) -> i64 {
        let (seconds, micros): (i64, i64) = self.ask(&["TIME"]).await;
        seconds * 1000 + micros / 1000
    }

    pub async fn until_queued(&self, name: &str, waiters: usize) -> Vec<String> {
        eventually("so many stand in the queue", async || {
            self.fair_queue(name).await.len() == waiters
        })
        .await;
        self.fair_queue(name).await
    }

    /// A Java thread in the queue that never comes to look, as after `kill -9`.
    async fn foreign_waiter(&self, name: &str) {
        let ends = (self.now_ms().await + PLACE).to_string();
        self.ask::<()>(&["RPUSH", &format!("redisson_lock_queue:{{{name}}}"), FOREIGN]).await;
        self.ask::<()>(&["ZADD", &Self::places(name), &ends, FOREIGN]).await;
    }

    /// Who was told last that the lock is free.
    async fn turn_of(&self, name: &str) -> Option<String> {
        self.ask(&["HGET", &format!("lock_turn:{{{name}}}"), "owner"]).await
    }

    /// Nothing is left of the lock and its queue.
    pub async fn is_gone(&self, name: &str) -> bool {
        !self.exists(name).await
            && self.fair_queue(name).await.is_empty()
            && !self.exists(&Self::places(name)).await
    }
}

fn fair(locks: &LockClient, name: &str) -> Lock {
    locks.lock(name).fair()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fair_lock_stands_in_redis_as_redissons_does() {
    let (world, name, locks) = World::with_locks().await;
    let held = fair(&locks, &name).acquire().await.unwrap();
    assert_eq!(world.holds(&name, held.owner().field()).await.as_deref(), Some("1"));
    assert!(world.fair_queue(&name).await.is_empty(), "who enters at once stands in no queue");
    let first = waiting(&fair(&locks, &name));
    world.until_queued(&name, 1).await;
    let second = waiting(&fair(&locks, &name));
    let queue = world.until_queued(&name, 2).await;
    for (place, waiter) in queue.iter().enumerate() {
        let channel = format!("{}:{waiter}", channel(&name));
        let alone = async || world.subscribers(&channel).await == 1;
        eventually("each listens on a channel of its own", alone).await;
        // Behind the lease of the holder, and one place for each.
        let behind = PLACE * (i64::try_from(place).unwrap() + 1);
        let left = world.place_left(&name, waiter).await;
        assert!((behind + 300_000..=behind + 600_000).contains(&left), "{left} at {place}");
    }
    assert_eq!(world.listeners(&name).await, 0, "nobody on the channel of the plain lock");
    for key in [format!("redisson_lock_queue:{{{name}}}"), World::places(&name)] {
        let left = world.pttl(&key).await;
        assert!(left > 24 * 60 * 60 * 1000, "{key} must not stay for ever, nor end early: {left}");
    }
    held.release().await.unwrap();
    let guard = must("the first enters", first).await.unwrap().unwrap();
    assert_eq!(guard.owner().field(), queue[0]);
    assert_eq!(world.fair_queue(&name).await, queue[1..]);
    let left = world.place_left(&name, &queue[1]).await;
    assert!(
        (PLACE..=PLACE + 600_000).contains(&left),
        "the place of the first is taken off: {left}"
    );
    guard.release().await.unwrap();
    let guard = must("the second enters", second).await.unwrap().unwrap();
    assert_eq!(guard.owner().field(), queue[1]);
    guard.release().await.unwrap();
    assert!(world.is_gone(&name).await);
}

/// Between its release and the entry of the next one a fair lock is free, and not for everybody.
#[tokio::test(flavor = "multi_thread")]
async fn a_free_lock_is_kept_for_the_first_in_the_queue_who_is_told_and_soon_for_the_next() {
    let (world, name, locks) = World::with_locks().await;
    let lock = fair(&locks, &name);
    let held = lock.acquire().await.unwrap();
    world.foreign_waiter(&name).await;
    let channel = format!("{}:{FOREIGN}", channel(&name));
    let mut hearing = hearing(&world.redis, &channel).await;
    held.release().await.unwrap();
    assert_eq!(heard(&mut hearing).await, "0");
    let place = world.place_left(&name, FOREIGN).await;
    assert!(place > PLACE / 2, "Redisson counts with the place: {place}");
    assert_eq!(world.turn_of(&name).await.as_deref(), Some(FOREIGN));
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(lock.acquire_within(Duration::ZERO).await.unwrap().is_none());
    assert!(lock.acquire_within(Duration::from_millis(50)).await.unwrap().is_none());
    assert!(!world.exists(&name).await);
    assert_eq!(world.fair_queue(&name).await, [FOREIGN], "no place is left of those who gave up");
    // Redisson makes the place of who joins, and how long it sleeps, of the places before it: were the turn of the
    // first a short place, those behind would lose theirs when it enters.
    let behind = waiting(&lock);
    let queue = world.until_queued(&name, 2).await;
    let left = world.place_left(&name, &queue[1]).await;
    assert!(left > PLACE + PLACE / 2, "a place of its own behind the first one's: {left}");
    must("the next one enters", behind).await.unwrap().unwrap().release().await.unwrap();
}

/// Redisson releases without a limit for the one it tells; then who waits behind it sets the limit, of five seconds.
/// The place would last five minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_waiter_that_another_program_told_is_skipped() {
    let (world, name, locks) = World::with_locks().await;
    world.foreign_waiter(&name).await;
    let guard = must("the next one enters", fair(&locks, &name).acquire()).await.unwrap();
    guard.release().await.unwrap();
    assert!(world.is_gone(&name).await);
}

/// One that was told, entered by Redisson's script and stands in the queue again was not told again.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_over_puts_nobody_out_who_came_again() {
    let (world, name, locks) = World::with_locks().await;
    let lock = fair(&locks, &name);
    let held = lock.acquire().await.unwrap();
    world.foreign_waiter(&name).await;
    held.release().await.unwrap();
    let turn = format!("lock_turn:{{{name}}}");
    world.ask::<()>(&["HSET", &turn, "until", "1"]).await;
    // Told, and its time is over; but meanwhile it left and came back.
    let ends = (world.now_ms().await + PLACE + 7).to_string();
    world.ask::<()>(&["ZADD", &World::places(&name), &ends, FOREIGN]).await;
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_eq!(world.fair_queue(&name).await, [FOREIGN]);
    // This try has told it. Now it does not come.
    world.ask::<()>(&["HSET", &turn, "until", "1"]).await;
    let guard = lock.try_acquire().await.unwrap().expect("nobody else comes");
    guard.release().await.unwrap();
    assert!(world.is_gone(&name).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_comes_to_look_keeps_its_place_and_those_behind_it_theirs() {
    let (world, name, locks) = World::with_locks().await;
    let held = fair(&locks, &name).acquire().await.unwrap();
    let waiter = waiting(&fair(&locks, &name));
    let ours = world.until_queued(&name, 1).await.remove(0);
    world.foreign_waiter(&name).await;
    // As if both had waited for nearly six minutes. At once: it may look by itself in between.
    let now = world.now_ms().await;
    let [sooner, later] = [now + 1_000, now + 2_000].map(|ends| ends.to_string());
    world.ask::<()>(&["ZADD", &World::places(&name), &sooner, &ours, &later, FOREIGN]).await;
    world.ask::<()>(&["PUBLISH", &format!("{}:{ours}", channel(&name)), "0"]).await;
    eventually("it has looked", async || world.place_left(&name, &ours).await > PLACE / 2).await;
    assert!(world.place_left(&name, FOREIGN).await > world.place_left(&name, &ours).await);
    held.release().await.unwrap();
    must("it enters", waiter).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(world.fair_queue(&name).await, [FOREIGN]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gives_up_leaves_the_queue_and_the_others_their_order() {
    let (world, name, locks) = World::with_locks().await;
    let held = fair(&locks, &name).acquire().await.unwrap();
    let mut waiters = Vec::new();
    for number in 0..3 {
        waiters.push(waiting(&fair(&locks, &name)));
        world.until_queued(&name, number + 1).await;
    }
    let queue = world.fair_queue(&name).await;
    let last = world.place_left(&name, &queue[2]).await;
    waiters.remove(1).abort();
    assert_eq!(world.until_queued(&name, 2).await, [queue[0].clone(), queue[2].clone()]);
    let now = world.place_left(&name, &queue[2]).await;
    assert!(now <= last - PLACE, "one place less is before it: {now} after {last}");
    // At the moment at which its wait tells, the place is gone.
    let limited = fair(&locks, &name).acquire_within(Duration::from_millis(100));
    assert!(limited.await.unwrap().is_none());
    assert_eq!(world.fair_queue(&name).await.len(), 2);
    // A shutdown takes everybody out.
    locks.shutdown().await;
    for waiter in waiters {
        assert!(matches!(waiter.await.unwrap(), Err(LockError::ShutDown)));
    }
    assert!(world.fair_queue(&name).await.is_empty());
    drop(held);
}

/// It cannot know whether it stands in the queue, and does not stand there twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_answer_is_lost_keeps_its_place() {
    for fault in [Fault::LoseAnswer, Fault::LoseRequest] {
        let (world, name, holder) = World::with_locks().await;
        let (proxy, locks) = world.behind_proxy(LockOptions::default()).await;
        // Every script is known to the server afterwards: a call is one request.
        fair(&locks, &name).acquire().await.unwrap().release().await.unwrap();
        let held = fair(&holder, &name).acquire().await.unwrap();
        proxy.break_by(fault);
        let waiter = waiting(&fair(&locks, &name));
        let queue = world.until_queued(&name, 1).await;
        let behind = waiting(&fair(&holder, &name));
        world.until_queued(&name, 2).await;
        let channel = format!("{}:{}", channel(&name), queue[0]);
        eventually("it listens", async || world.subscribers(&channel).await == 1).await;
        assert_eq!(world.fair_queue(&name).await[..1], queue);
        held.release().await.unwrap();
        let guard = must("it enters first", waiter).await.unwrap().unwrap();
        assert_eq!(guard.owner().field(), queue[0]);
        assert_eq!(world.holds(&name, &queue[0]).await.as_deref(), Some("1"));
        guard.release().await.unwrap();
        must("the one behind enters", behind).await.unwrap().unwrap().release().await.unwrap();
        locks.shutdown().await;
        assert!(world.is_gone(&name).await);
    }
}

/// An owner has one place, however many of its tasks wait; while it holds the lock it needs none.
#[tokio::test(flavor = "multi_thread")]
async fn two_waits_of_one_owner_have_one_place_and_a_holder_enters_again_before_those_who_wait() {
    let (world, name, locks) = World::with_locks().await;
    let held = fair(&locks, &name).acquire().await.unwrap();
    let owner = locks.owner();
    let lock = fair(&locks, &name).owned_by(&owner).fenced();
    let (one, two) = (waiting(&lock), waiting(&lock));
    world.until_queued(&name, 1).await;
    let behind = waiting(&fair(&locks, &name).fenced());
    let queue = world.until_queued(&name, 2).await;
    assert_eq!(queue[0], owner.field());
    one.abort();
    assert!(one.await.unwrap_err().is_cancelled());
    held.release().await.unwrap();
    let outer = must("the other one enters", two).await.unwrap().unwrap();
    let inner = must("the owner enters again", lock.acquire()).await.unwrap();
    let token = outer.fence();
    assert_eq!(inner.fence(), token);
    outer.release().await.unwrap();
    assert!(!behind.is_finished());
    assert_eq!(world.holds(&name, owner.field()).await.as_deref(), Some("1"));
    inner.release().await.unwrap();
    let guard = must("the one behind enters", behind).await.unwrap().unwrap();
    assert!(guard.fence() > token);
    guard.release().await.unwrap();
    assert!(world.is_gone(&name).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_and_fair_keep_each_other_out_and_several_at_once_are_refused() {
    let (world, name, locks) = World::with_locks().await;
    let plain = locks.lock(&name).acquire().await.unwrap();
    assert!(fair(&locks, &name).try_acquire().await.unwrap().is_none());
    plain.release().await.unwrap();
    let held = fair(&locks, &name).acquire().await.unwrap();
    assert!(locks.lock(&name).try_acquire().await.unwrap().is_none());
    // Breaking it open tells the first in the queue.
    let waiter = waiting(&fair(&locks, &name));
    world.until_queued(&name, 1).await;
    assert!(locks.lock(&name).force_release().await.unwrap());
    let next = must("the first enters", waiter).await.unwrap().unwrap();
    assert!(matches!(held.release().await, Err(LockError::NotHeld(_))));
    next.release().await.unwrap();

    let several = MultiLock::new(vec![locks.lock("a"), fair(&locks, "b")]);
    assert!(matches!(several, Err(LockError::FairTogether)));
    let node = world.locks(LockOptions::default().fair(true));
    let nodes = RedLock::new(vec![node], RedLockOptions::default());
    assert!(matches!(nodes, Err(LockError::FairTogether)));
}
