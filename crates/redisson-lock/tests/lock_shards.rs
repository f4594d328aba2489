//! Waiters in a cluster: they hear plain messages and sharded ones, wherever their slot goes.
//!
//! A waiter also tries now and then by the clock, every ten seconds. That it was woken by something
//! else shows by a key that is made at the same moment and lives for five.

use redis_link::Redis;
use redisson_lock::{Guard, LockClient, LockError};
use tokio::task::JoinHandle;

use crate::world::{channel, heard, hearing, renewing, waiting};
use testkit::redis_nodes::{Cluster, Node, migrate};
use testkit::wait::{eventually, must};

/// By the node that has its slot.
const NAMES: [&str; 3] = ["b", "c", "a"];

type Waiting = JoinHandle<Result<Guard, LockError>>;

/// How often the node has said that a lock is held.
async fn misses(node: &Node) -> u64 {
    let told = node.field(&["INFO", "commandstats"], "cmdstat_pttl").await;
    let calls = told.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// How many listen to a lock's plain messages there, and how many to sharded ones.
async fn listeners(node: &Node, name: &str) -> (i64, i64) {
    let channel = channel(name);
    let plain: (String, i64) = node.command(&["PUBSUB", "NUMSUB", &channel]).await;
    let sharded: (String, i64) = node.command(&["PUBSUB", "SHARDNUMSUB", &channel]).await;
    (plain.1, sharded.1)
}

/// Until somebody waits there in both ways, and has tried so often since that it sleeps now.
async fn until_asleep(node: &Node, name: &str, before: u64, tries: u64) {
    eventually("the waiter listens", async || listeners(node, name).await == (1, 1)).await;
    until_tried(node, before, tries).await;
}

async fn until_tried(node: &Node, before: u64, tries: u64) {
    let mut looks = 0;
    eventually("it has tried again", async || {
        looks += 1;
        // A subscription that was confirmed before the try makes for no other.
        let tries = if looks < 200 { tries } else { tries - 1 };
        misses(node).await >= before + tries
    })
    .await;
}

/// Somebody who waits for a lock that a foreign program holds without an end. It tries, tries again in the
/// queue, and once more when the subscription is confirmed.
async fn asleep(locks: &LockClient, node: &Node, name: &str) -> Waiting {
    node.command::<()>(&["HSET", name, "a-foreign-program:1", "1"]).await;
    let before = misses(node).await;
    let waiting = waiting(&locks.lock(name));
    until_asleep(node, name, before, 3).await;
    waiting
}

/// Makes the key that shows, by its being there, that not much time has passed since.
async fn short_lived(node: &Node, name: &str) {
    node.command::<()>(&["SET", &format!("{{{name}}}:soon"), "1", "PX", "5000"]).await;
}

/// The lock is released by a program that tells it in this way only.
async fn released(node: &Node, name: &str, publish: &str) {
    short_lived(node, name).await;
    node.command::<()>(&["DEL", name]).await;
    node.command::<()>(&[publish, &channel(name), "0"]).await;
}

async fn enters_soon(node: &Node, name: &str, waiting: Waiting) {
    let guard = must("the waiter enters", waiting).await.unwrap().unwrap();
    let there: i64 = node.command(&["EXISTS", &format!("{{{name}}}:soon")]).await;
    assert_eq!(there, 1, "it was the clock that woke it");
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_woken_by_a_plain_message_and_by_a_sharded_one() {
    let cluster = Cluster::start(3).await;
    for (node, name) in cluster.nodes.iter().zip(NAMES) {
        for publish in ["PUBLISH", "SPUBLISH"] {
            let locks = renewing(&cluster.url());
            let waiting = asleep(&locks, node, name).await;
            released(node, name, publish).await;
            enters_soon(node, name, waiting).await;
            eventually("nobody listens any more", async || listeners(node, name).await == (0, 0))
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_told_in_both_ways() {
    let cluster = Cluster::start(3).await;
    let redis = Redis::new(&cluster.url()).unwrap();
    let (lock, channel) = (renewing(&cluster.url()).lock(NAMES[0]), channel(NAMES[0]));
    let guard = lock.acquire().await.unwrap();
    let mut hearing = hearing(&redis, &channel).await;
    guard.release().await.unwrap();
    let _held = lock.acquire().await.unwrap();
    assert!(lock.force_release().await.unwrap());
    cluster.nodes[0].command::<()>(&["SPUBLISH", &channel, "the end"]).await;
    for expected in ["0", "0", "0", "0", "the end"] {
        assert_eq!(heard(&mut hearing).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_takes_its_waiters_along() {
    let cluster = Cluster::start(3).await;
    let (name, from, to) = (NAMES[0], &cluster.nodes[0], &cluster.nodes[2]);
    let locks = renewing(&cluster.url());
    let waiting = asleep(&locks, from, name).await;
    let before = misses(to).await;
    migrate(&cluster, name, to, async || ()).await;
    until_asleep(to, name, before, 2).await;
    released(to, name, "SPUBLISH").await;
    enters_soon(to, name, waiting).await;
    for node in [from, to] {
        eventually("nobody listens any more", async || listeners(node, name).await == (0, 0)).await;
    }
}

/// As if it was told when the subscription was gone at one place and not there yet at the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_while_the_slot_moves_is_not_slept_through() {
    let cluster = Cluster::start(3).await;
    let (name, from, to) = (NAMES[0], &cluster.nodes[0], &cluster.nodes[2]);
    let locks = renewing(&cluster.url());
    let waiting = asleep(&locks, from, name).await;
    short_lived(from, name).await;
    migrate(&cluster, name, to, async || from.command(&["DEL", name]).await).await;
    enters_soon(to, name, waiting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_a_master_that_dies_hear_its_replica() {
    let mut cluster = Cluster::start(3).await;
    let (name, replica) = (NAMES[0], cluster.add_replica(0).await);
    let locks = renewing(&cluster.url());
    let waiting = asleep(&locks, &cluster.nodes[0], name).await;
    eventually("the replica has it", async || {
        replica.field(&["INFO", "keyspace"], "db0").await.starts_with("keys=1")
    })
    .await;
    cluster.nodes[0].kill();
    until_asleep(&replica, name, 0, 2).await;
    released(&replica, name, "SPUBLISH").await;
    enters_soon(&replica, name, waiting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_master_makes_nobody_deaf_elsewhere() {
    let mut cluster = Cluster::start_with(3, &["--cluster-require-full-coverage", "no"]).await;
    let locks = renewing(&cluster.url());
    let in_vain = asleep(&locks, &cluster.nodes[2], NAMES[2]).await;
    let waiting = asleep(&locks, &cluster.nodes[0], NAMES[0]).await;
    let tries = misses(&cluster.nodes[0]).await;
    cluster.nodes[2].kill();
    let node = &cluster.nodes[0];
    eventually("it is seen to be dead", async || {
        node.field(&["CLUSTER", "INFO"], "cluster_slots_fail").await != "0"
    })
    .await;
    assert_eq!(misses(node).await, tries, "a connection was lost that had no reason to be");
    released(node, NAMES[0], "SPUBLISH").await;
    enters_soon(node, NAMES[0], waiting).await;
    in_vain.abort();
}

/// As before Redis 7.
#[tokio::test(flavor = "multi_thread")]
async fn where_there_are_no_sharded_messages_plain_ones_do() {
    let absent = ["SSUBSCRIBE", "SUNSUBSCRIBE", "SPUBLISH"];
    let absent: Vec<&str> =
        absent.into_iter().flat_map(|name| ["--rename-command", name, ""]).collect();
    let cluster = Cluster::start_with(3, &absent).await;
    let (name, node) = (NAMES[0], &cluster.nodes[0]);
    let locks = renewing(&cluster.url());
    let guard = locks.lock(name).acquire().await.unwrap();
    let before = misses(node).await;
    let waiting = waiting(&locks.lock(name));
    eventually("the waiter listens", async || listeners(node, name).await == (1, 0)).await;
    until_tried(node, before, 3).await;
    short_lived(node, name).await;
    guard.release().await.unwrap();
    enters_soon(node, name, waiting).await;
    eventually("nobody listens any more", async || listeners(node, name).await == (0, 0)).await;
}
