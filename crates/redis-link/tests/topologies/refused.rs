//! What a server refuses to do, and what the caller hears.

use redis_link::{LinkError, Redis};

use super::set;
use crate::{increment_alone, increment_call};
use testkit::redis_nodes::Node;

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
