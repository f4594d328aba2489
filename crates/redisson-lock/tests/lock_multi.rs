//! All of several locks as one: all or nothing, whatever comes between.

use std::time::Duration;

use futures_util::FutureExt;
use redis_link::Redis;
use redisson_lock::{Lease, Lock, LockClient, LockError, LockOptions, MultiLock};

use crate::lock_cancelled::poll_and_drop;
use crate::world::{LONG, World, taken};
use testkit::redis_nodes::Node;
use testkit::wait::must;

/// Long enough that a busy machine renews it in time.
const SHORT: Duration = Duration::from_millis(1200);

fn names(world: &World) -> [String; 3] {
    ["a", "b", "c"].map(|part| format!("{}:{part}", world.name()))
}

fn all(locks: &LockClient, names: &[String]) -> MultiLock {
    MultiLock::new(names.iter().map(|name| locks.lock(name)).collect()).unwrap()
}

/// What became of the second lock, and of no other.
fn of_the_second(error: &LockError) -> &LockError {
    let LockError::Together(failures) = error else { panic!("{error}") };
    let [(1, cause)] = failures.as_slice() else { panic!("{error}") };
    cause
}

impl World {
    async fn are_held(&self, names: &[String]) -> Vec<bool> {
        let mut held = Vec::new();
        for name in names {
            held.push(self.exists(name).await);
        }
        held
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_are_taken_or_none_is_and_whoever_waits_for_one_is_woken() {
    let world = World::new().await;
    let (names, locks) = (names(&world), world.client());
    let multi = all(&locks, &names);
    for held in 0..3 {
        let other = taken(&locks.lock(&names[held])).await;
        assert!(multi.try_acquire().await.unwrap().is_none());
        for limit in [Duration::ZERO, Duration::from_millis(50)] {
            assert!(multi.acquire_within(limit).await.unwrap().is_none());
        }
        world.until_listeners(&names[held], 0).await;
        let waiting = multi.clone();
        let waiter = tokio::spawn(async move { waiting.acquire().await });
        world.until_listeners(&names[held], 1).await;
        let expected = [0, 1, 2].map(|name| name == held);
        assert_eq!(world.are_held(&names).await, expected, "it holds none of the others");
        other.release().await.unwrap();
        // The end of a lease would be no help here: none is over so soon.
        let guard = must("the waiter enters", waiter).await.unwrap().unwrap();
        assert!(guard.validity() <= LONG && !guard.is_lost());
        assert_eq!(world.are_held(&names).await, [true; 3]);
        assert!(multi.try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
        assert_eq!(world.are_held(&names).await, [false; 3]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loss_of_one_is_the_loss_of_all_and_is_told() {
    let world = World::new().await;
    let (names, locks) = (names(&world), world.lock_client(Lease::Renewed(SHORT)));
    let fenced = |name: &String| locks.lock(name).fenced();
    let multi = MultiLock::new(names.iter().map(fenced).collect()).unwrap();
    let guard = multi.acquire().await.unwrap();
    assert!(guard.guards().all(|guard| guard.fence().is_some()));
    assert!(guard.lost().now_or_never().is_none());
    world.ask::<()>(&["DEL", &names[1]]).await;
    must("the loss is told", guard.lost()).await;
    assert!(guard.is_lost() && guard.validity().is_zero());
    assert_eq!(world.are_held(&names).await, [true, false, true], "nothing is made anew");
    let error = guard.release().await.unwrap_err();
    assert!(matches!(of_the_second(&error), LockError::NotHeld(_)), "{error}");
    assert!(error.to_string().contains("lock 1"), "{error}");
    assert_eq!(world.are_held(&names).await, [false; 3], "the others were given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_node_is_named_and_the_others_are_free() {
    let world = World::new().await;
    let (names, locks) = (names(&world), world.client());
    let mut node = Node::start(&[]).await;
    let options = LockOptions::default().outage_patience(Duration::from_millis(300));
    let elsewhere = LockClient::new(Redis::new(&node.url()).unwrap(), options);
    // The name is one of the others', and no duplicate: it is another Redis.
    let members: Vec<Lock> =
        vec![locks.lock(&names[0]), elsewhere.lock(&names[0]), locks.lock(&names[2])];
    let multi = MultiLock::new(members).unwrap();
    multi.acquire().await.unwrap().release().await.unwrap();
    node.kill();
    for waits in [false, true] {
        let error = match waits {
            false => multi.try_acquire().await.unwrap_err(),
            true => must("the wait fails", multi.acquire()).await.unwrap_err(),
        };
        assert!(of_the_second(&error).retry_may_help() && error.retry_may_help(), "{error}");
        assert_eq!(world.are_held(&names).await, [false; 3]);
    }
    // One that is no lock will not become one by waiting.
    locks.shutdown().await;
    let locks = world.client();
    world.ask::<()>(&["SET", &names[1], "precious"]).await;
    let error = must("the wait fails", all(&locks, &names).acquire()).await.unwrap_err();
    assert!(matches!(of_the_second(&error), LockError::NotALock { .. }), "{error}");
    assert!(!error.retry_may_help());
    assert_eq!(world.are_held(&names).await, [false, true, false]);
}

#[tokio::test]
async fn what_is_dropped_at_any_await_point_leaves_nothing_behind() {
    let world = World::new().await;
    let names = names(&world);
    for polls in 0..50 {
        for contended in [false, true] {
            let locks = world.client();
            let multi = all(&locks, &names);
            let other = world.client();
            let held = if contended { Some(taken(&other.lock(&names[1])).await) } else { None };
            poll_and_drop(polls, multi.try_acquire()).await;
            poll_and_drop(polls, multi.acquire()).await;
            locks.shutdown().await;
            let left = world.are_held(&names).await;
            assert_eq!(left, [false, contended, false], "after {polls} polls");
            if let Some(held) = held {
                held.release().await.unwrap();
            }
        }
        let locks = world.client();
        let guard = all(&locks, &names).acquire().await.unwrap();
        poll_and_drop(polls, guard.release()).await;
        locks.shutdown().await;
        assert_eq!(world.are_held(&names).await, [false; 3], "a release after {polls} polls");
    }
}

#[tokio::test]
async fn lists_that_make_no_sense_are_refused() {
    let (world, name, locks) = World::with_locks().await;
    assert!(matches!(MultiLock::new(Vec::new()), Err(LockError::NothingToLock)));
    let owner = locks.owner();
    for second in [locks.lock(&name), locks.clone().lock(&name).owned_by(&owner)] {
        let refused = MultiLock::new(vec![locks.lock(&name).owned_by(&owner), second]);
        assert!(matches!(&refused, Err(LockError::Twice(Some(twice))) if *twice == name));
    }
    // One error, of the one lock that has a bad name; not the silence of the others.
    let multi = MultiLock::new(vec![locks.lock(&name), locks.lock("")]).unwrap();
    let error = multi.acquire().await.unwrap_err();
    assert!(matches!(of_the_second(&error), LockError::InvalidName(0)), "{error}");
    assert!(!world.exists(&name).await);
}
