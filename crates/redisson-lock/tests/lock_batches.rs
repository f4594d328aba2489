//! Many calls in one pipeline: each has the answer that is its own.

use std::error::Error;
use std::sync::Arc;

use futures_util::future::join_all;
use redis_link::Redis;
use redisson_lock::{LockClient, LockError, LockOptions};

use crate::world::World;
use testkit::redis_nodes::Node;

/// As many as go into several batches.
const MANY: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_calls_that_come_together_each_has_its_own_answer() {
    let world = World::new().await;
    let (ours, others) = (world.locks(LockOptions::default()), world.locks(LockOptions::default()));
    let name = |number: usize| format!("{}:{number}", world.name());
    // Every third is held, every third is no lock.
    let mut held = Vec::new();
    for number in (0..MANY).filter(|number| number % 3 == 1) {
        held.push(others.lock(name(number)).acquire().await.unwrap());
    }
    for number in (0..MANY).filter(|number| number % 3 == 2) {
        world.ask::<()>(&["SET", &name(number), "a string"]).await;
    }
    let tries = join_all((0..MANY).map(|number| ours.lock(name(number)).try_acquire())).await;
    let mut granted = Vec::new();
    for (number, tried) in tries.into_iter().enumerate() {
        match (number % 3, tried) {
            (0, Ok(Some(guard))) => granted.push(guard),
            (1, Ok(None)) => {}
            (2, Err(LockError::NotALock { name: of, .. })) => assert_eq!(of, name(number)),
            (_, tried) => panic!("{number}: {tried:?}"),
        }
    }
    // One of them is gone before its release.
    world.ask::<()>(&["DEL", &name(0)]).await;
    let released = join_all(granted.into_iter().map(|guard| guard.release())).await;
    for (place, released) in released.into_iter().enumerate() {
        match (place, released) {
            (0, Err(LockError::NotHeld(of))) => assert_eq!(of, name(0)),
            (1.., Ok(())) => {}
            (_, released) => panic!("{place}: {released:?}"),
        }
    }
    for number in 0..MANY {
        assert_eq!(world.exists(&name(number)).await, number % 3 != 0, "{number}");
    }
    join_all(held.into_iter().map(|guard| guard.release())).await;
}

/// Redis refuses a script for a key that its user may not touch.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_name_that_is_forbidden_spoils_nothing_for_the_calls_beside_it() {
    let node = Node::start(&[]).await;
    let url = node.url_of_user(&["~order:*", "&*", "+@all"]).await;
    let locks = Arc::new(LockClient::new(Redis::new(&url).unwrap(), LockOptions::default()));
    let tries = (0..MANY).map(|number| {
        let kind = if number % 10 == 0 { "forbidden" } else { "order" };
        let lock = locks.lock(format!("{kind}:{number}"));
        tokio::spawn(async move {
            let guard = lock.try_acquire().await?.unwrap();
            guard.release().await
        })
    });
    for (number, done) in join_all(tries).await.into_iter().enumerate() {
        match (number % 10, done.unwrap()) {
            (0, Err(error @ LockError::NotPermitted(_))) => assert!(error.source().is_some()),
            (1.., Ok(())) => {}
            (_, done) => panic!("{number}: {done:?}"),
        }
    }
    locks.shutdown().await;
    assert_eq!(node.command::<i64>(&["DBSIZE"]).await, 0);
}

/// Shared owners and fenced locks go by the same pipeline as the others; and a server that was told to
/// forget its scripts is taught them again, without an error and without a second grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn scripts_that_a_server_has_forgotten_are_loaded_again_and_each_lock_is_granted_once() {
    let node = Node::start(&[]).await;
    let locks = LockClient::new(Redis::new(&node.url()).unwrap(), LockOptions::default());
    for round in 0..10 {
        node.command::<()>(&["SCRIPT", "FLUSH"]).await;
        let owner = locks.owner();
        let lock = |number: usize| match number % 3 {
            0 => locks.lock(format!("{round}:{number}")),
            1 => locks.lock(format!("{round}:{number}")).owned_by(&owner),
            _ => locks.lock(format!("{round}:{number}")).fenced(),
        };
        let tries = join_all((0..MANY).map(|number| lock(number).try_acquire())).await;
        let guards: Vec<_> = tries.into_iter().map(|tried| tried.unwrap().unwrap()).collect();
        for number in 0..MANY {
            let state = lock(number).state().await.unwrap().unwrap();
            assert_eq!(state.holds, 1, "{number}");
        }
        node.command::<()>(&["SCRIPT", "FLUSH"]).await;
        for released in join_all(guards.into_iter().map(|guard| guard.release())).await {
            released.unwrap();
        }
        for number in 0..MANY {
            assert!(!lock(number).is_locked().await.unwrap(), "{number}");
        }
    }
    locks.shutdown().await;
}

/// Then no waiter can be told of a release, and what Redis has forgotten is sent whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_publish_nothing_or_load_no_script_can_give_back_what_it_took() {
    let node = Node::start(&[]).await;
    for rules in [["~*", "resetchannels", "+@all"].as_slice(), &["~*", "&*", "+@all", "-script"]] {
        let url = node.url_of_user(rules).await;
        node.command::<()>(&["SCRIPT", "FLUSH"]).await;
        let locks = LockClient::new(Redis::new(&url).unwrap(), LockOptions::default());
        let lock = locks.lock("name");
        for lock in [lock.clone(), lock.clone().owned_by(&locks.owner()), lock.fair().fenced()] {
            lock.acquire().await.unwrap().release().await.unwrap();
            assert!(!lock.is_locked().await.unwrap());
            let left = lock.acquire().await.unwrap();
            assert!(lock.force_release().await.unwrap());
            drop(left);
        }
        locks.shutdown().await;
        assert_eq!(node.command::<i64>(&["EXISTS", "name"]).await, 0);
    }
}
