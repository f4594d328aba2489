//! What a server refuses to do, and what the caller hears.

use std::sync::LazyLock;

use redis_link::LinkError;
use redis_link::LuaScript;
use redis_link::{Redis, ScriptCall};
use redisson_lock::LockError;

use super::{locks, set};
use testkit::redis_nodes::Node;
use testkit::wait::must;

static INCREMENT: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new("return redis.call('incr', KEYS[1])"));

#[tokio::test]
async fn a_user_who_may_not_run_scripts_is_told_so() {
    let node = Node::start(&[]).await;
    let words = ["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-@scripting"];
    node.command::<()>(&words).await;
    let redis = Redis::new(&node.url().replace("://", "://u:p@")).unwrap();
    set(&redis, "name", "value").await;
    let call = ScriptCall::new(&INCREMENT).key("name");
    let plain = redis.invoke::<i64>(&call).await.unwrap_err();
    let second = std::time::Duration::from_secs(1);
    let acknowledged = redis.call_acknowledged::<i64>(&call, 0, second, || ()).await.unwrap_err();
    for error in [plain, acknowledged] {
        let LinkError::Defect(cause) = &error else { panic!("{error}") };
        assert!(cause.to_string().contains("NOPERM"), "{error}");
        assert!(error.to_string().contains("'evalsha'"), "{error}");
    }
    let error = locks(&redis).lock("lock").try_acquire().await.unwrap_err();
    assert!(matches!(error, LockError::NotPermitted(_)), "{error}");
    assert!(std::error::Error::source(&error).is_some(), "{error:?}");
}

#[tokio::test]
async fn a_replica_refuses_writes_and_may_be_a_master_next_time() {
    let (master, replica) = (Node::start(&[]).await, Node::start(&[]).await);
    replica.replica_of(&master).await;
    let redis = Redis::new(&replica.url()).unwrap();
    redis.ping().await.unwrap();
    let before = redis.generation();
    let error = locks(&redis).lock("lock").try_acquire().await.unwrap_err();
    assert!(error.retry_may_help() && !error.outcome_unknown(), "{error}");
    assert_ne!(redis.generation(), before, "the connection was given up");
    let call = ScriptCall::new(&INCREMENT).key("n");
    let second = std::time::Duration::from_secs(1);
    let answer = redis.call_acknowledged::<i64>(&call, 0, second, || ()).await;
    assert!(answer.is_err_and(|error| error.retry_may_help() && !error.outcome_unknown()));
    replica.command::<()>(&["REPLICAOF", "NO", "ONE"]).await;
    set(&redis, "name", "value").await;
}

#[tokio::test]
async fn a_user_who_may_not_load_scripts_sends_them_whole() {
    let node = Node::start(&[]).await;
    let words = ["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-script"];
    node.command::<()>(&words).await;
    let redis = Redis::new(&node.url().replace("://", "://u:p@")).unwrap();
    redis.may_run_scripts().await.unwrap();
    let call = ScriptCall::new(&INCREMENT).key("n");
    let second = std::time::Duration::from_secs(1);
    for (round, forgets) in [(0, false), (1, true)] {
        if forgets {
            node.command::<()>(&["SCRIPT", "FLUSH"]).await;
        }
        let both = redis.call_all(&[call.clone(), call.clone()], |_| ()).await.unwrap();
        assert!(both.iter().all(Result::is_ok), "{both:?}");
        assert_eq!(redis.invoke::<i64>(&call).await.unwrap(), 4 * round + 3);
        let (answer, _) = redis.call_acknowledged::<i64>(&call, 0, second, || ()).await.unwrap();
        assert_eq!(answer, 4 * round + 4);
    }
    locks(&redis).lock("l").fair().fenced().acquire().await.unwrap().release().await.unwrap();
}

/// With a patience of an hour for outages.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_waiting_mends_is_told_at_once() {
    let node = Node::start(&[]).await;
    node.command::<()>(&["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all"]).await;
    node.command::<()>(&["CONFIG", "SET", "requirepass", "secret"]).await;
    let url = |login: &str| node.url().replace("://", &format!("://{login}"));
    let wrong = [url("u:wrong@"), url("nobody:p@"), url(""), url(":secret@") + "/99"];
    for url in wrong {
        let redis = Redis::new(&url).unwrap();
        let options = redisson_lock::LockOptions::default()
            .outage_patience(std::time::Duration::from_secs(3600));
        let client = redisson_lock::LockClient::new(redis, options);
        for lock in [
            client.lock("l"),
            client.lock("l").acknowledged_by(0, std::time::Duration::from_millis(1)),
        ] {
            let error = must("it is told", lock.acquire()).await.unwrap_err();
            assert!(error.is_misconfigured() && !error.outcome_unknown(), "{url}: {error}");
        }
    }
    for url in ["redis://:secret@a:port", "redis+cluster://a", "rediss://h?ca=/no/such/file"] {
        let error = Redis::new(url).unwrap_err();
        assert!(matches!(error, LinkError::Misconfigured(_)), "{url}: {error}");
        assert!(!error.to_string().contains("answered"), "{error}");
    }
    // The same words of the library, and another day it may be otherwise.
    let holding = Redis::new(&url(":secret@")).unwrap();
    holding.ping().await.unwrap();
    holding.query::<()>(redis::cmd("CONFIG").arg(&["SET", "maxclients", "1"])).await.unwrap();
    let error = Redis::new(&url("u:p@")).unwrap().ping().await.unwrap_err();
    assert!(error.retry_may_help(), "{error}");
}
