//! Redis nodes.

use std::path::Path;

use faults::{FaultError, RedisNode};

use testkit::wait::eventually;

async fn set(node: &RedisNode) {
    node.command::<()>(&["SET", "name", "value"]).await.unwrap();
}

async fn get(node: &RedisNode) -> Option<String> {
    node.command(&["GET", "name"]).await.unwrap()
}

#[tokio::test]
async fn a_node_forgets_or_keeps_what_it_had_as_it_was_started() {
    let mut forgetful = RedisNode::start(&[]).await.unwrap();
    let mut durable = RedisNode::start(&RedisNode::DURABLE).await.unwrap();
    for node in [&mut forgetful, &mut durable] {
        set(node).await;
        let address = node.address();
        node.restart().await.unwrap();
        assert_eq!(node.address(), address);
    }
    assert_eq!(get(&forgetful).await, None);
    assert_eq!(get(&durable).await.as_deref(), Some("value"));
    durable.restart_empty().await.unwrap();
    assert_eq!(get(&durable).await, None);
    durable.process.kill();
    let error = durable.command::<()>(&["PING"]).await.unwrap_err();
    assert!(matches!(error, FaultError::Redis(_)) && !error.is_missing(), "{error}");
    assert!(matches!(durable.process.pause(), Err(FaultError::Down(_))));
    assert_eq!(durable.process.pid(), None);
}

#[tokio::test]
async fn a_replica_gets_what_its_master_got_and_while_paused_says_nothing() {
    let mut master = RedisNode::start(&[]).await.unwrap();
    let replica = RedisNode::start(&[]).await.unwrap();
    replica.replica_of(&master).await.unwrap();
    set(&master).await;
    eventually("the replica has it", async || get(&replica).await.is_some()).await;
    replica.process.pause().unwrap();
    assert!(!replica.answers().await);
    replica.process.resume().unwrap();
    eventually("it answers again", async || replica.answers().await).await;

    master.process.kill();
    replica.until_cut_off().await.unwrap();
    assert!(replica.command::<()>(&["SET", "name", "other"]).await.is_err());
    replica.promote().await.unwrap();
    replica.command::<()>(&["SET", "name", "other"]).await.unwrap();
}

#[tokio::test]
async fn a_node_that_is_dropped_is_gone() {
    let node = RedisNode::start(&[]).await.unwrap();
    let (address, socket) = (node.address(), node.socket_url());
    let directory = Path::new(socket.strip_prefix("redis+unix://").unwrap()).parent().unwrap();
    assert!(directory.exists());
    drop(node);
    assert!(std::net::TcpStream::connect(address).is_err());
    assert!(!directory.exists());
}

#[tokio::test]
async fn a_server_that_does_not_start_says_why() {
    let error = RedisNode::start(&["--no-such-setting", "1"]).await.unwrap_err();
    let said =
        matches!(&error, FaultError::NotStarted { log, .. } if log.contains("no-such-setting"));
    assert!(said && !error.may_retry(), "{error}");
}
