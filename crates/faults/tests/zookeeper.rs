//! ZooKeeper nodes, and what becomes of their clients' sessions.

use std::io::Write;
use std::time::Duration;

use faults::{Fault, FaultError, Proxy, ZooKeeperNode};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, EventType, SessionState};

use testkit::wait::{eventually, must};

const DIRECTORY: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const PLACE: CreateOptions<'static> = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());

/// Outlasts any stall of a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A server, unless there is none to be had: then the test is skipped, and says so.
#[allow(clippy::explicit_write)] // what the macro writes is shown only when a test fails
async fn start() -> Option<ZooKeeperNode> {
    match ZooKeeperNode::start().await {
        Err(error) if error.is_missing() => {
            writeln!(std::io::stderr(), "skipped a test: {error}").unwrap();
            None
        }
        node => Some(node.unwrap()),
    }
}

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
async fn who_is_next_is_told_when_the_place_before_is_given_up_or_its_session_closed() {
    let Some(node) = start().await else { return };
    let first = Client::connect(&node.connect_string()).await.unwrap();
    let second = connect(&node.connect_string(), LONG).await;
    let (a, b) = (queue_up(&first).await, queue_up(&first).await);
    let c = queue_up(&second).await;
    assert_eq!(queue(&second).await, [a.clone(), b.clone(), c.clone()]);

    let path = format!("/queue/{a}");
    let (stat, given_up) = second.check_and_watch_stat(&path).await.unwrap();
    assert!(stat.is_some());
    first.delete(&path, None).await.unwrap();
    let event = must("it is told", given_up.changed()).await;
    assert_eq!((event.event_type, event.path), (EventType::NodeDeleted, path));

    let (stat, closed) = second.check_and_watch_stat(&format!("/queue/{b}")).await.unwrap();
    assert!(stat.is_some());
    // The last handle of a session that is not detached closes it.
    drop(first);
    must("it is told", closed.changed()).await;
    assert_eq!(queue(&second).await, [c]);
}

/// Its process was killed, say: nobody says good-bye.
#[tokio::test(flavor = "multi_thread")]
async fn the_place_of_a_holder_that_vanished_goes_when_its_session_ends_and_not_before() {
    let Some(node) = start().await else { return };
    let holder = connect(&node.connect_string(), Duration::from_secs(3)).await;
    let waiter = connect(&node.connect_string(), LONG).await;
    let place = queue_up(&holder).await;
    let (stat, gone) = waiter.check_and_watch_stat(&format!("/queue/{place}")).await.unwrap();
    assert!(stat.is_some());
    drop(holder); // detached
    // Nothing says that the connection has ended; the session has not, for as long as this.
    assert_eq!(queue(&waiter).await, [place]);
    assert_eq!(must("the session ends", gone.changed()).await.event_type, EventType::NodeDeleted);
    assert_eq!(queue(&waiter).await, [""; 0]);
}

/// It sleeps, or the network is cut: it lives on, and others do not wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_cut_off_loses_its_place_and_is_told_that_its_session_has_ended() {
    let Some(node) = start().await else { return };
    let link = Proxy::before(&node.connect_string()).await.unwrap();
    let holder = connect(&link.address(), Duration::from_secs(1)).await;
    assert_eq!(holder.session_timeout(), Duration::from_secs(1));
    let waiter = connect(&node.connect_string(), LONG).await;
    let place = queue_up(&holder).await;
    let (_, gone) = waiter.check_and_watch_stat(&format!("/queue/{place}")).await.unwrap();
    let mut state = holder.state_watcher();

    link.break_by(Fault::Down);
    let noticed = must("it notices", state.changed()).await;
    assert!(matches!(noticed, SessionState::Disconnected | SessionState::Expired), "{noticed}");
    must("its place is gone", gone.changed()).await;
    // Its lock is lost, and it may not know; once it is there again it is told.
    link.break_by(Fault::None);
    eventually("it is told", async || state.state() == SessionState::Expired).await;
    let error = holder.create("/queue/place-", b"", &PLACE).await.unwrap_err();
    assert_eq!(error, Error::SessionExpired);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_places_outlive_a_restart_of_the_server_that_is_short_enough() {
    let Some(mut node) = start().await else { return };
    let holder = connect(&node.connect_string(), LONG).await;
    let place = queue_up(&holder).await;
    let (session, mut state) = (holder.session_id(), holder.state_watcher());
    node.restart().await.unwrap();
    eventually("it is connected again", async || state.state() == SessionState::SyncConnected)
        .await;
    assert_eq!((holder.session_id(), queue(&holder).await), (session, vec![place]));

    node.pause().unwrap();
    assert!(!node.answers().await);
    node.resume().unwrap();
    eventually("it answers again", async || node.answers().await).await;
    node.kill();
    assert!(!node.answers().await);
    assert!(matches!(node.resume(), Err(FaultError::Down(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_slept_longer_than_a_session_ends_it_though_its_client_is_awake() {
    let Some(node) = start().await else { return };
    let session = Duration::from_secs(1);
    let holder = connect(&node.connect_string(), session).await;
    let place = queue_up(&holder).await;
    node.pause().unwrap();
    tokio::time::sleep(session * 2).await;
    node.resume().unwrap();
    let waiter = connect(&node.connect_string(), LONG).await;
    eventually("its place is gone", async || !queue(&waiter).await.contains(&place)).await;
    eventually("it is told", async || holder.state() == SessionState::Expired).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_a_shorter_session_than_the_shortest() {
    let Some(node) = start().await else { return };
    let client = connect(&node.connect_string(), Duration::from_millis(100)).await;
    assert_eq!(client.session_timeout(), ZooKeeperNode::SESSION_MIN);
}
