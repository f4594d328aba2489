//! What a server refuses to do, and what the caller hears.

use std::sync::{Arc, Mutex};

use redis_link::{LinkError, Redis};

use super::set;
use crate::{increment_alone, increment_call};
use testkit::redis_nodes::{Cluster, Node};
use testkit::wait::eventually;

#[tokio::test]
async fn a_user_who_may_not_run_scripts_is_told_so() {
    let node = Node::start(&[]).await;
    let url = node.url_of_user(&["~*", "&*", "+@all", "-@scripting"]).await;
    let redis = Redis::new(&url).unwrap();
    set(&redis, "name", "value").await;
    let plain = redis.invoke::<i64>(&increment_call("n")).await.unwrap_err();
    let acknowledged = increment_alone(&redis).await.unwrap_err();
    for error in [plain, acknowledged] {
        let LinkError::Defect(cause) = &error else { panic!("{error}") };
        assert!(cause.to_string().contains("NOPERM"), "{error}");
        assert!(error.to_string().contains("'evalsha'"), "{error}");
    }
}

#[tokio::test]
async fn a_replica_refuses_writes_and_may_be_a_master_next_time() {
    let (_master, replica) = Node::pair().await;
    let redis = Redis::new(&replica.url()).unwrap();
    redis.ping().await.unwrap();
    let before = redis.generation();
    let plain = redis.invoke::<i64>(&increment_call("n")).await.unwrap_err();
    assert_ne!(redis.generation(), before, "the connection was given up");
    let acknowledged = increment_alone(&redis).await.unwrap_err();
    for error in [plain, acknowledged] {
        assert!(error.retry_may_help() && !error.outcome_unknown(), "{error}");
    }
    replica.command::<()>(&["REPLICAOF", "NO", "ONE"]).await;
    set(&redis, "name", "value").await;
}

#[tokio::test]
async fn a_user_who_may_not_load_scripts_sends_them_whole() {
    let node = Node::start(&[]).await;
    let url = node.url_of_user(&["~*", "&*", "+@all", "-script"]).await;
    let redis = Redis::new(&url).unwrap();
    redis.may_run_scripts().await.unwrap();
    let call = increment_call("n");
    for (round, forgets) in [(0, false), (1, true)] {
        if forgets {
            node.command::<()>(&["SCRIPT", "FLUSH"]).await;
        }
        let both = redis.call_all(&[call.clone(), call.clone()], |_| ()).await.unwrap();
        assert!(both.iter().all(Result::is_ok), "{both:?}");
        assert_eq!(redis.invoke::<i64>(&call).await.unwrap(), 4 * round + 3);
        assert_eq!(increment_alone(&redis).await.unwrap(), 4 * round + 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_waiting_mends_is_told_apart_from_what_may_be_otherwise_another_day() {
    for url in ["redis://:secret@a:port", "redis+cluster://a", "rediss://h?ca=/no/such/file"] {
        let error = Redis::new(url).unwrap_err();
        assert!(matches!(error, LinkError::Misconfigured(_)), "{url}: {error}");
        assert!(!error.to_string().contains("answered"), "{error}");
    }
    // The library says of a full server what it says of a wrong password.
    let node = Node::start(&["--requirepass", "secret"]).await;
    let url = node.url().replace("://", "://:secret@");
    let holding = Redis::new(&url).unwrap();
    holding.ping().await.unwrap();
    holding.query::<()>(redis::cmd("CONFIG").arg(&["SET", "maxclients", "1"])).await.unwrap();
    let error = Redis::new(&url).unwrap().ping().await.unwrap_err();
    assert!(error.retry_may_help(), "{error}");
}

/// A handle whose URL is read again, and where it stands.
fn changing(url: &str) -> (Redis, Arc<Mutex<String>>) {
    let text = Arc::new(Mutex::new(url.to_owned()));
    let read = Arc::clone(&text);
    let redis = Redis::with_changing_login(url, move || Ok(read.lock().unwrap().clone())).unwrap();
    (redis, text)
}

/// From now on the user has this password, and its connections are closed.
async fn password_is(node: &Node, password: &str) {
    let password = format!(">{password}");
    node.command::<()>(&["ACL", "SETUSER", "u", "resetpass", &password]).await;
    node.command::<i64>(&["CLIENT", "KILL", "USER", "u"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_changes_is_read_again_for_the_next_connection() {
    let node = Node::start(&[]).await;
    let url = node.url_of_user(&["~*", "&*", "+@all"]).await;
    let (redis, text) = changing(&url);
    redis.ping().await.unwrap();
    increment_alone(&redis).await.unwrap();

    password_is(&node, "new").await;
    eventually("its connection is closed", async || redis.generation().is_none()).await;
    let error = redis.ping().await.unwrap_err();
    assert!(matches!(error, LinkError::Misconfigured(_)), "{error}");
    let said = format!("{} says \"WRONGPASS\"", node.address());
    assert!(error.to_string().contains(&said), "{error}");

    *text.lock().unwrap() = url.replace(":p@", ":new@");
    redis.ping().await.unwrap();
    let is_incremented = async || increment_alone(&redis).await.is_ok();
    eventually("connections of the pool are made anew, too", is_incremented).await;

    // What leads elsewhere, or nowhere, is for the next start.
    for other in ["redis://u:other@127.0.0.1:1", "redis://"] {
        *text.lock().unwrap() = other.to_owned();
        node.command::<i64>(&["CLIENT", "KILL", "USER", "u"]).await;
        eventually("the password before it holds", async || redis.ping().await.is_ok()).await;
    }
}

/// It took everybody when the handle was made.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_to_want_a_password_gets_the_one_that_stands_there_then() {
    let node = Node::start(&[]).await;
    let (redis, text) = changing(&node.url());
    redis.ping().await.unwrap();
    // The connections that are there are taken for those of somebody who has logged in.
    node.command::<()>(&["CONFIG", "SET", "requirepass", "new"]).await;
    let url = node.url().replace("://", "://:new@");
    let kill = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).clone();
    Redis::new(&url).unwrap().query::<i64>(&kill).await.unwrap();
    eventually("it is refused", async || {
        matches!(redis.ping().await, Err(LinkError::Misconfigured(_)))
    })
    .await;
    *text.lock().unwrap() = url;
    eventually("it is let in", async || redis.ping().await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_of_a_cluster_get_the_new_password_and_one_that_is_away_is_named() {
    let mut cluster = Cluster::start(3).await;
    for node in &cluster.nodes {
        node.url_of_user(&["~*", "&*", "+@all"]).await;
    }
    let url = cluster.url().replace("://", "://u:p@");
    let (redis, text) = changing(&url);
    redis.ping_masters().await.unwrap();
    for node in &cluster.nodes {
        password_is(node, "new").await;
    }
    *text.lock().unwrap() = url.replace(":p@", ":new@");
    eventually("all let it in", async || redis.ping_masters().await.is_ok()).await;
    let away = cluster.nodes[2].address();
    cluster.nodes[2].kill();
    eventually("the one that is away is named", async || {
        redis.ping_masters().await.is_err_and(|error| error.to_string().contains(&away))
    })
    .await;
}
