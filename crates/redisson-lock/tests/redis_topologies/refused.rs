//! What a server refuses to do, and what the caller hears.

use std::sync::LazyLock;

use redis::Script;
use redisson_lock::LockError;
use redisson_lock::connection::RedisError;
use redisson_lock::connection::{Redis, ScriptCall};

use super::{locks, set};
use testkit::redis_nodes::Node;

static INCREMENT: LazyLock<Script> =
    LazyLock::new(|| Script::new("return redis.call('incr', KEYS[1])"));

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
        let RedisError::Defect(cause) = &error else { panic!("{error}") };
        assert!(cause.to_string().contains("NOPERM"), "{error}");
        assert!(error.to_string().contains("'evalsha'"), "{error}");
    }
    let error = locks(&redis).lock("lock").try_acquire().await.unwrap_err();
    assert!(matches!(error, LockError::NotPermitted(_)), "{error}");
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
