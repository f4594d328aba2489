//! ZooKeeper nodes, and what becomes of their clients' sessions.

use std::time::Duration;

use faults::{FaultError, ZooKeeperNode};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, SessionState};

use testkit::needs::needs_zookeeper;
use testkit::wait::eventually;

const DIRECTORY: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const PLACE: CreateOptions<'static> = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());

/// Outlasts any stall of a busy machine.
const LONG: Duration = Duration::from_secs(60);

async fn connect(address: &str, session: Duration) -> Client {
    loop {
        let connector = Client::connector().with_session_timeout(session).with_detached();
        match connector.connect(address).await {
            // It tries for no longer than it wants its session to last.
            Err(Error::Timeout) => {}
            connected => return connected.unwrap(),
        }
    }
}

/// Takes a place in the queue; its name, without the path.
async fn queue_up(client: &Client) -> String {
    client.mkdir("/queue", &DIRECTORY).await.unwrap();
    let (_, number) = client.create("/queue/place-", b"", &PLACE).await.unwrap();
    format!("place-{number}")
}

async fn queue(client: &Client) -> Vec<String> {
    let mut places = client.list_children("/queue").await.unwrap();
    places.sort();
    places
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_places_outlive_a_restart_of_the_server_that_is_short_enough() {
    let Some(mut node) = needs_zookeeper().await else { return };
    let holder = connect(&node.connect_string(), LONG).await;
    let place = queue_up(&holder).await;
    let (session, mut state) = (holder.session_id(), holder.state_watcher());
    // Nobody gets a shorter one than the shortest.
    let client = connect(&node.connect_string(), Duration::from_millis(100)).await;
    assert_eq!(client.session_timeout(), ZooKeeperNode::SESSION_MIN);
    drop(client);
    node.restart().await.unwrap();
    eventually("it is connected again", async || state.state() == SessionState::SyncConnected)
        .await;
    assert_eq!((holder.session_id(), queue(&holder).await), (session, vec![place]));

    node.process.pause().unwrap();
    assert!(!node.answers().await);
    node.process.resume().unwrap();
    eventually("it answers again", async || node.answers().await).await;
    node.process.kill();
    assert!(!node.answers().await);
    assert!(matches!(node.process.resume(), Err(FaultError::Down(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_slept_longer_than_a_session_ends_it_though_its_client_is_awake() {
    let Some(node) = needs_zookeeper().await else { return };
    let session = Duration::from_secs(1);
    let holder = connect(&node.connect_string(), session).await;
    let place = queue_up(&holder).await;
    node.process.pause().unwrap();
    tokio::time::sleep(session * 2).await;
    node.process.resume().unwrap();
    let waiter = connect(&node.connect_string(), LONG).await;
    eventually("its place is gone", async || !queue(&waiter).await.contains(&place)).await;
    eventually("it is told", async || holder.state() == SessionState::Expired).await;
}
