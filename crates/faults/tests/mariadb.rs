//! A MariaDB node: started, paused, killed, started again.

use std::os::unix::fs::PermissionsExt;

use faults::FaultError;

use testkit::needs::needs_mariadb;
use testkit::processes::is_alive;
use testkit::wait::eventually;

#[tokio::test]
async fn it_answers_unless_it_is_paused_or_down_beside_another_one_and_nothing_stays_behind() {
    let Some(mut node) = needs_mariadb().await else { return };
    let Some(other) = needs_mariadb().await else { return };
    assert!(node.answers().await && other.answers().await);
    let socket = node.socket();
    assert_ne!(socket, other.socket());
    let mode = std::fs::metadata(socket.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "it has no users: nobody else may come near it");
    node.process.pause().unwrap();
    assert!(!node.answers().await);
    node.process.resume().unwrap();
    eventually("it answers again", async || node.answers().await).await;
    let first = node.process.pid().unwrap();
    node.restart().await.unwrap();
    assert!(!is_alive(first) && node.answers().await);
    let second = node.process.pid().unwrap();
    node.process.kill();
    assert!(!node.answers().await && node.process.pid().is_none());
    assert!(matches!(node.process.resume(), Err(FaultError::Down(_))));
    drop(node);
    assert!(!is_alive(second) && !socket.parent().unwrap().exists());
}
