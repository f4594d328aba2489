//! Through a cluster of three masters.

use std::sync::LazyLock;

use futures_util::future::join_all;
use redis_link::LinkError;
use redis_link::LuaScript;
use redis_link::{Redis, ScriptCall};
use redisson_lock::LockError;

use super::{heard, listening, locks, set, subscriber};
use testkit::redis_nodes::{Cluster, Node, migrate};
use testkit::wait::{eventually, must};

static ONE: LazyLock<LuaScript> = LazyLock::new(|| LuaScript::new("return 1"));

/// Names in slots of different nodes, with braces and without.
const NAMES: [&str; 6] =
    ["lock:order:1", "lock:order:2", "lock:order:3", "a:{b}:c", "{a}:x", "{lock}:{y}"];

#[tokio::test(flavor = "multi_thread")]
async fn locks_exclude_whatever_node_they_are_on() {
    let cluster = Cluster::start(3).await;
    let owners = join_all(NAMES.map(|name| cluster.index_of(name))).await;
    assert!((0..3).all(|index| owners.contains(&index)), "{owners:?}");
    let redis = Redis::new(&cluster.url()).unwrap();
    let (ours, theirs) = (locks(&redis), locks(&Redis::new(&cluster.url()).unwrap()));
    redis.ping().await.unwrap();
    assert_eq!(redis.generation(), None);
    for name in NAMES {
        let node = cluster.node_of(name).await;
        // With an owner who may enter again the scripts have two keys, fenced a third.
        let owner = ours.owner();
        let lock = ours.lock(name).owned_by(&owner).fenced();
        let outer = lock.try_acquire().await.unwrap().unwrap();
        let inner = lock.try_acquire().await.unwrap().unwrap();
        assert_eq!(node.command::<String>(&["HGET", name, owner.field()]).await, "2");
        assert!(theirs.lock(name).try_acquire().await.unwrap().is_none(), "{name}");
        inner.release().await.unwrap();
        assert!(theirs.lock(name).try_acquire().await.unwrap().is_none(), "{name}");
        outer.release().await.unwrap();
        let guard = theirs.lock(name).try_acquire().await.unwrap().unwrap();
        drop(guard);
    }
    theirs.shutdown().await;
    for name in NAMES {
        let left: i64 = cluster.node_of(name).await.command(&["EXISTS", name]).await;
        assert_eq!(left, 0, "{name}: what was dropped is given back");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_node_publishes_is_heard_on_another_and_a_waiter_is_woken_by_it() {
    let cluster = Cluster::start(3).await;
    let redis = Redis::new(&cluster.url()).unwrap();
    redis.ping().await.unwrap(); // and with it, who serves what is known
    let mut subscriber = listening(&redis, "channel").await;
    for (index, node) in cluster.nodes.iter().enumerate() {
        node.command::<()>(&["PUBLISH", "channel", &index.to_string()]).await;
        assert_eq!(heard(&mut subscriber).await, Some(index.to_string()));
    }

    let (holder, waiter) = (locks(&redis), locks(&Redis::new(&cluster.url()).unwrap()));
    for name in &NAMES[..3] {
        let held = holder.lock(*name).acquire().await.unwrap();
        let waiting = tokio::spawn(waiter.lock(*name).acquire());
        eventually("somebody listens", async || {
            let channel = format!("redisson_lock__channel:{{{name}}}");
            let mut listeners = 0;
            for node in &cluster.nodes {
                let answer: (String, i64) = node.command(&["PUBSUB", "NUMSUB", &channel]).await;
                listeners += answer.1;
            }
            listeners > 0
        })
        .await;
        held.release().await.unwrap();
        // The lease of a minute would be no help here.
        let guard = must("the waiter enters", waiting).await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_survive_the_migration_of_their_slot() {
    let cluster = Cluster::start(3).await;
    let redis = Redis::new(&cluster.url()).unwrap();
    let (ours, theirs) = (locks(&redis), locks(&redis));
    // Both in one slot: one is held while it is on its way, the other is taken there.
    let (held, free) = ("{slot}:held", "{slot}:free");
    let from = cluster.index_of(held).await;
    let to = &cluster.nodes[(from + 1) % 3];
    let guard = ours.lock(held).try_acquire().await.unwrap().unwrap();
    let meanwhile = async || {
        assert!(theirs.lock(held).try_acquire().await.unwrap().is_none());
        // What is new is made where the slot goes.
        let guard = ours.lock(free).try_acquire().await.unwrap().unwrap();
        assert!(theirs.lock(free).try_acquire().await.unwrap().is_none());
        assert_eq!(cluster.nodes[from].command::<i64>(&["DBSIZE"]).await, 1);
        guard.release().await.unwrap();
        // Scripts with several keys have to wait until all of them are at one place.
        let owner = ours.owner();
        match theirs.lock(free).owned_by(&owner).try_acquire().await {
            Ok(guard) => guard.unwrap().release().await.unwrap(),
            Err(error) => assert!(error.retry_may_help() && !error.outcome_unknown(), "{error}"),
        }
    };
    migrate(&cluster, held, to, meanwhile).await;
    assert!(theirs.lock(held).try_acquire().await.unwrap().is_none());
    assert_eq!(to.command::<i64>(&["EXISTS", held]).await, 1);
    guard.release().await.unwrap();
    assert_eq!(to.command::<i64>(&["EXISTS", held]).await, 0);
    for name in [held, free] {
        theirs.lock(name).try_acquire().await.unwrap().unwrap().release().await.unwrap();
    }
}

/// The others go on as if nothing were, and it is found again when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_or_silent_node_costs_only_its_own_slots() {
    let mut cluster = Cluster::start_with(3, &["--cluster-require-full-coverage", "no"]).await;
    let redis = Redis::new(&cluster.url()).unwrap();
    for name in NAMES {
        set(&redis, name, "before").await;
    }
    let owners = join_all(NAMES.map(|name| cluster.index_of(name))).await;
    let index = owners[0];
    cluster.nodes[index].pause();
    for (name, owner) in NAMES.into_iter().zip(owners) {
        let answer: Result<String, LinkError> = redis.query(redis::cmd("GET").arg(name)).await;
        if owner == index {
            let error = answer.unwrap_err();
            assert!(error.retry_may_help(), "{name}: {error}");
        } else {
            assert_eq!(answer.unwrap(), "before", "{name}");
        }
    }
    cluster.nodes[index].restart().await;
    set(&redis, NAMES[0], "after").await;
    let value: String = cluster.nodes[index].command(&["GET", NAMES[0]]).await;
    assert_eq!(value, "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_takes_over_is_found() {
    let mut cluster = Cluster::start(3).await;
    let redis = Redis::new(&cluster.url()).unwrap();
    let index = cluster.index_of(NAMES[0]).await;
    let replica = cluster.add_replica(index).await;
    set(&redis, NAMES[0], "before").await;
    cluster.nodes[index].kill();
    set(&redis, NAMES[0], "after").await;
    assert_eq!(replica.command::<String>(&["GET", NAMES[0]]).await, "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_in_different_slots_are_a_defect_and_some_seeds_may_be_dead() {
    let mut cluster = Cluster::start(3).await;
    let mut gone = Node::start(&[]).await;
    gone.kill();
    let url = cluster.url().replace("://", &format!("://{},", gone.address()));
    let redis = Redis::new(&url).unwrap();
    let call = |first: &str, second: &str| ScriptCall::new(&ONE).key(first).key(second);
    let error = redis.invoke::<i64>(&call("a", "b")).await.unwrap_err();
    assert!(!error.retry_may_help() && error.to_string().contains("CrossSlot"), "{error}");
    assert_eq!(redis.invoke::<i64>(&call("{x}a", "{x}b")).await.unwrap(), 1);

    for node in &mut cluster.nodes {
        node.kill();
    }
    let error = locks(&redis).lock("name").try_acquire().await.unwrap_err();
    assert!(matches!(&error, LockError::Redis(error) if error.retry_may_help()), "{error}");
    assert!(subscriber(&redis, "channel").await.is_err_and(|error| error.retry_may_help()));
}
