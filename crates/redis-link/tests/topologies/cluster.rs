//! Through a cluster of three masters.

use std::sync::LazyLock;
use std::time::Duration;

use futures_util::future::join_all;
use redis_link::{LinkError, LuaScript, Redis, ScriptCall};
use tokio::time::sleep;

use super::{heard, listening, set, subscriber};
use testkit::redis_nodes::{Cluster, Node};

static ONE: LazyLock<LuaScript> = LazyLock::new(|| LuaScript::new("return 1"));

/// Names in slots of different nodes, with braces and without.
const NAMES: [&str; 6] =
    ["lock:order:1", "lock:order:2", "lock:order:3", "a:{b}:c", "{a}:x", "{lock}:{y}"];

#[tokio::test(flavor = "multi_thread")]
async fn what_one_node_publishes_is_heard_on_another() {
    let cluster = Cluster::start(3).await;
    let redis = Redis::new(&cluster.url()).unwrap();
    redis.ping().await.unwrap(); // and with it, who serves what is known
    assert_eq!(redis.generation(), None);
    let mut subscriber = listening(&redis, "channel").await;
    for (index, node) in cluster.nodes.iter().enumerate() {
        // A node forgets what it publishes while its link to another is down, and on a busy machine it takes a link
        // down that was silent for a second: so it publishes until the message is there.
        let arrives = async {
            while heard(&mut subscriber).await.expect("the subscription lasts") != index.to_string()
            {
            }
        };
        let publishes = async {
            loop {
                node.command::<()>(&["PUBLISH", "channel", &index.to_string()]).await;
                sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::select! {
            () = arrives => {}
            () = publishes => {}
        }
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
    let error = redis.invoke::<i64>(&call("{x}a", "{x}b")).await.unwrap_err();
    assert!(error.retry_may_help(), "{error}");
    assert!(subscriber(&redis, "channel").await.is_err_and(|error| error.retry_may_help()));
}
