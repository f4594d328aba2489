//! Through sentinels: the master, whichever it is.

use redis_link::{LinkError, Redis};

use super::{heard, listening, set};
use crate::dedicated::pool;
use crate::increment_alone;
use testkit::redis_nodes::{Node, Sentinels};
use testkit::wait::{eventually, must};

async fn watched_pair() -> (Node, Node, Sentinels) {
    let (master, replica) = Node::pair().await;
    let sentinels = Sentinels::start(&master, 3, 2).await;
    (master, replica, sentinels)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_handle_finds_the_new_master_after_the_old_one_was_killed() {
    let (mut master, replica, sentinels) = watched_pair().await;
    let redis = Redis::new(&sentinels.url()).unwrap();
    set(&redis, "name", "before").await;
    assert_eq!(master.command::<String>(&["GET", "name"]).await, "before");
    increment_alone(&redis).await.unwrap();
    let mut subscriber = listening(&redis, "channel").await;

    master.kill();
    assert_eq!(heard(&mut subscriber).await, None, "a lost connection ends the stream");
    let error = redis.ping().await.unwrap_err();
    assert!(error.retry_may_help(), "{error}");
    sentinels.promoted(&replica).await;

    set(&redis, "name", "after").await;
    assert_eq!(replica.command::<String>(&["GET", "name"]).await, "after");
    let is_incremented = async || increment_alone(&redis).await.is_ok();
    eventually("the new master is asked", is_incremented).await;
    assert_eq!(pool(&redis), Some((1, 1)), "another master has another pool");
    assert!(replica.command::<i64>(&["GET", "n"]).await >= 1);
    let mut subscriber = listening(&redis, "channel").await;
    replica.command::<()>(&["PUBLISH", "channel", "hello"]).await;
    assert_eq!(heard(&mut subscriber).await.as_deref(), Some("hello"));
}

/// Its connections stay open, as after a failover whose news came late.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_was_demoted_costs_one_refused_command() {
    let (master, replica, sentinels) = watched_pair().await;
    let redis = Redis::new(&sentinels.url()).unwrap();
    set(&redis, "name", "before").await;
    // By hand, so that the sentinels close no connection.
    replica.command::<()>(&["REPLICAOF", "NO", "ONE"]).await;
    master.replica_of(&replica).await;
    let before = redis.generation();
    let refused: Result<(), LinkError> = redis.query(redis::cmd("SET").arg("name").arg(1)).await;
    let error = refused.unwrap_err();
    assert!(error.retry_may_help() && !error.outcome_unknown(), "{error}");
    assert_ne!(redis.generation(), before, "the connection was given up");
    // As long as the sentinels have not noticed there is no master: this one is not taken
    // for it.
    let error = redis.ping().await.unwrap_err();
    assert!(error.retry_may_help() && error.to_string().contains("is not the master"), "{error}");
    sentinels.watch(&replica).await;
    set(&redis, "name", "after").await;
    assert_eq!(replica.command::<String>(&["GET", "name"]).await, "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn some_sentinels_may_be_dead_or_silent_and_a_name_that_none_knows_is_told() {
    let (master, _replica, mut sentinels) = watched_pair().await;
    let elsewhere = sentinels.url().replace("/mymaster", "/another");
    let error = Redis::new(&elsewhere).unwrap().ping().await.unwrap_err();
    assert!(error.to_string().contains("know no master \"another\""), "{error}");
    sentinels.nodes[0].kill();
    sentinels.nodes[1].pause();
    let redis = Redis::new(&sentinels.url()).unwrap();
    set(&redis, "name", "value").await;
    assert_eq!(master.command::<String>(&["GET", "name"]).await, "value");
    sentinels.nodes[1].kill();
    sentinels.nodes[2].kill();
    // Who is connected needs no sentinel.
    redis.ping().await.unwrap();
    let error = Redis::new(&sentinels.url()).unwrap().ping().await.unwrap_err();
    assert!(error.retry_may_help() && !error.outcome_unknown(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn master_and_sentinels_may_ask_for_a_password_and_a_number_chooses_the_database() {
    let (master, _replica, sentinels) = watched_pair().await;
    master.command::<()>(&["ACL", "SETUSER", "u", "on", ">p@ss", "~*", "&*", "+@all"]).await;
    for sentinel in &sentinels.nodes {
        sentinel.command::<()>(&["ACL", "SETUSER", "u", "on", ">p@ss", "~*", "&*", "+@all"]).await;
    }
    let url = sentinels.url().replace("://", "://u:p%40ss@") + "/5";
    let redis = Redis::new(&url).unwrap();
    set(&redis, "name", "value").await;
    let who: String = redis.query(redis::cmd("ACL").arg("WHOAMI")).await.unwrap();
    assert_eq!(who, "u");
    assert_eq!(master.field(&["INFO", "keyspace"], "db5").await, "keys=1,expires=0,avg_ttl=0");

    // From now on a sentinel serves nobody whom it does not know.
    for sentinel in &sentinels.nodes {
        sentinel.command::<()>(&["ACL", "SETUSER", "default", "off"]).await;
    }
    let redis = Redis::new(&url).unwrap();
    must("it connects", redis.ping()).await.unwrap();
}

/// A login that one of them does not know, and an address that leads nowhere from here.
#[tokio::test(flavor = "multi_thread")]
async fn who_refuses_and_what_is_announced_in_vain_is_named() {
    let (master, _replica, sentinels) = watched_pair().await;
    let url = sentinels.url().replace("://", "://u:p@");
    let of_master = Redis::new(&url).unwrap().ping().await.unwrap_err();
    let said = format!("{} says \"WRONGPASS\"", master.address());
    assert!(of_master.to_string().contains(&said), "{of_master}");

    master.url_of_user(&["~*", "&*", "+@all"]).await;
    Redis::new(&url).unwrap().ping().await.unwrap();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    for sentinel in &sentinels.nodes {
        sentinel.command::<()>(&["SENTINEL", "REMOVE", "mymaster"]).await;
        let words = ["SENTINEL", "MONITOR", "mymaster", "127.0.0.1", &port, "2"];
        sentinel.command::<()>(&words).await;
    }
    let announced = format!("from 127.0.0.1:{port}, which the sentinels announce as the master");
    // On a busy machine the sentinels may take as long to say it.
    eventually("the address in vain is named", async || {
        let error = Redis::new(&url).unwrap().ping().await.unwrap_err();
        error.to_string().ends_with(&announced)
    })
    .await;

    // They have users of their own, and not this one.
    for sentinel in &sentinels.nodes {
        let admin = ["ACL", "SETUSER", "admin", "on", ">a", "~*", "&*", "+@all"];
        sentinel.command::<()>(&admin).await;
        sentinel.command::<()>(&["ACL", "SETUSER", "default", "off"]).await;
    }
    let error = Redis::new(&url).unwrap().ping().await.unwrap_err();
    assert!(matches!(error, LinkError::Misconfigured(_)), "{error}");
    let is_named = |node: &Node| error.to_string().contains(&format!("{} says", node.address()));
    assert!(sentinels.nodes.iter().any(is_named), "{error}");
    let without = Redis::new(&sentinels.url()).unwrap().ping().await.unwrap_err();
    assert!(without.to_string().contains(" says \"NOAUTH\""), "{without}");
}
