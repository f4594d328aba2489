//! A lock on the majority of real servers that are killed, paused and emptied.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use redis_link::Redis;
use redisson_lock::{Lease, LockClient, LockError, LockOptions, RedLock, RedLockOptions};

use crate::lock_cancelled::poll_and_drop;
use crate::world::{LONG, channel, renewed};
use testkit::redis_nodes::Node;
use testkit::wait::{eventually, must};

/// Long enough that a busy machine renews it in time.
const SHORT: Duration = Duration::from_millis(1200);
pub const NAME: &str = "lock";

pub async fn start(count: usize, arguments: &[&str]) -> Vec<Node> {
    join_all((0..count).map(|_| Node::start(arguments))).await
}

pub fn client(node: &Node) -> LockClient {
    LockClient::new(Redis::new(&node.url()).unwrap(), LockOptions::default())
}

/// One program's clients of all nodes, and the locks on their majority.
pub struct Party {
    pub clients: Vec<LockClient>,
    pub locks: RedLock,
}

impl Party {
    pub fn new(nodes: &[Node], lease: Lease) -> Self {
        // A second, so that a busy machine does not make a node look dead.
        Self::with(nodes, RedLockOptions::default().lease(lease).node_timeout(SECOND))
    }

    fn with(nodes: &[Node], options: RedLockOptions) -> Self {
        let clients: Vec<_> = nodes.iter().map(client).collect();
        Self { locks: RedLock::new(clients.clone(), options).unwrap(), clients }
    }

    /// Everything given back; those that are down are not waited for long.
    pub async fn shutdown(&self) {
        join_all(self.clients.iter().map(LockClient::shutdown)).await;
    }
}

const SECOND: Duration = Duration::from_secs(1);

pub async fn exists(node: &Node) -> bool {
    node.command::<i64>(&["EXISTS", NAME]).await == 1
}

pub async fn are_held(nodes: &[Node]) -> Vec<bool> {
    join_all(nodes.iter().map(exists)).await
}

/// Somebody else, of whom nobody here knows when it leaves.
pub async fn hold_by_a_stranger(node: &Node) {
    node.command::<()>(&["HSET", NAME, "a-foreign-program:1", "1"]).await;
    node.command::<()>(&["PEXPIRE", NAME, "600000"]).await;
}

/// Waits until the node was seen to lengthen the lease so often.
pub async fn renewed_on(node: &Node, times: usize) {
    renewed(times, async || node.command(&["PTTL", NAME]).await).await;
}

/// How many wait for it there.
pub async fn listeners(node: &Node) -> i64 {
    node.command::<(String, i64)>(&["PUBSUB", "NUMSUB", &channel(NAME)]).await.1
}

fn failed_nodes(error: &LockError) -> Vec<usize> {
    let LockError::NoQuorum { failures, .. } = error else { panic!("{error}") };
    failures.iter().map(|(node, _)| *node).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_taken_renewed_and_given_back_while_a_minority_is_dead() {
    for (count, dead) in [(1, 0), (3, 1), (4, 1), (5, 2)] {
        let mut nodes = start(count, &[]).await;
        let party = Party::new(&nodes, Lease::Renewed(SHORT));
        let lock = party.locks.lock(NAME);
        let held = lock.try_acquire().await.unwrap().unwrap();
        assert_eq!(held.granted(), count);
        nodes[..dead].iter_mut().for_each(Node::kill);
        // Dead while it is held, and before it is taken.
        let living = &nodes[dead..];
        for held in [Some(held), None] {
            let guard = match held {
                Some(held) => held,
                None => lock.try_acquire().await.unwrap().unwrap(),
            };
            assert_eq!(are_held(living).await, vec![true; count - dead]);
            join_all(living.iter().map(|node| renewed_on(node, 2))).await;
            assert!(!guard.is_lost() && guard.lost().now_or_never().is_none());
            guard.release().await.unwrap();
            assert_eq!(are_held(living).await, vec![false; count - dead], "{count} nodes");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_the_dead_nodes_are_named_and_the_living_are_free() {
    for (count, dead) in [(1, &[0][..]), (3, &[0, 2]), (4, &[1, 3]), (5, &[0, 1, 4])] {
        let mut nodes = start(count, &[]).await;
        let options = RedLockOptions::default().outage_patience(SECOND / 4);
        let party = Party::with(&nodes, options);
        for node in dead {
            nodes[*node].kill();
        }
        let lock = party.locks.lock(NAME);
        let limit = Duration::from_millis(50);
        let errors = [
            lock.try_acquire().await.unwrap_err(),
            lock.acquire_within(limit).await.unwrap_err(),
            must("the wait fails", lock.acquire()).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(failed_nodes(&error), dead, "{error}");
            assert!(error.retry_may_help(), "{error}");
            for node in dead {
                assert!(error.to_string().contains(&format!("node {node}: Redis is")), "{error}");
            }
        }
        for (number, node) in nodes.iter().enumerate() {
            assert!(dead.contains(&number) || !exists(node).await, "{number} of {count}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_node_is_not_waited_for_and_keeps_nothing_when_it_wakes() {
    for paused in [1, 2] {
        let nodes = start(3, &[]).await;
        let party = Party::with(&nodes, RedLockOptions::default());
        let lock = party.locks.lock(NAME);
        // Connected, so that the acquire is sent and lies in the sleeping node's socket.
        lock.acquire().await.unwrap().release().await.unwrap();
        for node in &nodes[..paused] {
            node.command::<()>(&["CONFIG", "RESETSTAT"]).await;
            node.pause();
        }
        let tried = must("it is not waited for", lock.try_acquire()).await;
        if paused == 1 {
            let guard = tried.unwrap().unwrap();
            assert_eq!(guard.granted(), 2);
            guard.release().await.unwrap();
        } else {
            let error = tried.unwrap_err();
            assert_eq!(failed_nodes(&error), [0, 1], "{error}");
            assert!(error.outcome_unknown() && error.retry_may_help(), "{error}");
        }
        nodes[..paused].iter().for_each(Node::resume);
        party.shutdown().await;
        assert_eq!(are_held(&nodes).await, [false; 3]);
        for node in &nodes[..paused] {
            let granted = node.field(&["INFO", "commandstats"], "cmdstat_pexpire").await;
            assert!(!granted.is_empty(), "it was granted, and taken back");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_hold_is_told_from_what_failed() {
    let mut nodes = start(3, &[]).await;
    let party = Party::new(&nodes, Lease::Renewed(LONG));
    let lock = party.locks.lock(NAME);
    // A minority of strangers is no obstacle.
    hold_by_a_stranger(&nodes[1]).await;
    let guard = lock.try_acquire().await.unwrap().unwrap();
    assert_eq!(guard.granted(), 2);
    guard.release().await.unwrap();
    assert_eq!(are_held(&nodes).await, [false, true, false]);
    // A majority of them is a refusal, and no error,
    hold_by_a_stranger(&nodes[2]).await;
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(lock.acquire_within(SECOND / 10).await.unwrap().is_none());
    assert_eq!(are_held(&nodes).await, [false, true, true]);
    // also when the third could not have helped.
    nodes[0].kill();
    assert!(lock.try_acquire().await.unwrap().is_none());
    // One that could have is named.
    nodes[2].command::<()>(&["DEL", NAME]).await;
    let error = lock.try_acquire().await.unwrap_err();
    assert_eq!(failed_nodes(&error), [0], "{error}");
    assert!(!exists(&nodes[2]).await);
    // A wait is not ended by it: the stranger may leave, and does.
    let waiter = tokio::spawn(async move { lock.acquire().await });
    eventually("it waits for the stranger", async || listeners(&nodes[1]).await > 0).await;
    assert!(client(&nodes[1]).lock(NAME).force_release().await.unwrap());
    must("the waiter enters", waiter).await.unwrap().unwrap().release().await.unwrap();
    // Nobody can wait for what never becomes a lock.
    for node in &nodes[1..] {
        node.command::<()>(&["SET", NAME, "precious"]).await;
    }
    let error = must("the wait fails", party.locks.lock(NAME).acquire()).await.unwrap_err();
    assert!(!error.retry_may_help() && error.to_string().contains("not a lock"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_holder_is_told_when_the_majority_is_lost_and_no_node_gets_it_anew() {
    let mut nodes = start(3, &[]).await;
    let party = Party::new(&nodes, Lease::Renewed(SHORT));
    let guard = party.locks.lock(NAME).acquire().await.unwrap();
    assert_eq!(guard.granted(), 3);
    // A node that comes back empty stays so, however often the others are renewed.
    nodes[0].restart_empty().await;
    for node in &nodes[1..] {
        renewed_on(node, 4).await;
    }
    assert_eq!(are_held(&nodes).await, [false, true, true]);
    assert!(guard.lost().now_or_never().is_none() && !guard.is_lost());
    nodes[1].command::<()>(&["DEL", NAME]).await;
    must("the loss is told", guard.lost()).await;
    assert!(guard.is_lost());
    let error = guard.release().await.unwrap_err();
    assert!(matches!(&error, LockError::NotHeld(name) if name == NAME), "{error}");
    assert_eq!(are_held(&nodes).await, [false; 3]);

    // By their silence, too.
    let guard = party.locks.lock(NAME).acquire().await.unwrap();
    nodes[1..].iter().for_each(Node::pause);
    must("the loss is told", guard.lost()).await;
    drop(guard);
    nodes[1..].iter().for_each(Node::resume);
    party.shutdown().await;
    assert_eq!(are_held(&nodes).await, [false; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_validity_is_the_lease_less_the_drift_at_most() {
    let nodes = start(3, &[]).await;
    let party = Party::new(&nodes, Lease::Renewed(LONG));
    let most = SHORT - SHORT / 100 - Duration::from_millis(2);
    let guard = party.locks.lock(NAME).lease(Lease::Renewed(SHORT)).acquire().await.unwrap();
    renewed(3, async || {
        let validity = guard.validity();
        assert!(validity <= most, "{validity:?}");
        i64::try_from(validity.as_millis()).unwrap()
    })
    .await;
    guard.release().await.unwrap();
    // A fixed one is not renewed, and told of at its end.
    let guard = party.locks.lock(NAME).lease(Lease::Fixed(SECOND / 2)).acquire().await.unwrap();
    must("the end is told", guard.lost()).await;
    assert!(guard.validity().is_zero());
    drop(guard);
    // A drift as long as the lease leaves nothing of it.
    let options = RedLockOptions::default().drift(Some(LONG));
    let drifting = Party::with(&nodes, options.lease(Lease::Fixed(LONG)));
    party.shutdown().await;
    let error = drifting.locks.lock(NAME).try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("the lease was over when the lock was granted"), "{error}");
    assert_eq!(are_held(&nodes).await, [false; 3]);
}

#[tokio::test]
async fn what_is_dropped_at_any_await_point_leaves_nothing_on_any_node() {
    let nodes = start(3, &[]).await;
    for polls in 0..40 {
        let party = Party::new(&nodes, Lease::Renewed(LONG));
        let lock = party.locks.lock(NAME);
        poll_and_drop(polls, lock.try_acquire()).await;
        poll_and_drop(polls, lock.acquire()).await;
        let guard = must("what was dropped is given back", lock.acquire()).await.unwrap();
        poll_and_drop(polls, lock.acquire()).await;
        poll_and_drop(polls, guard.release()).await;
        party.shutdown().await;
        assert_eq!(are_held(&nodes).await, [false; 3], "after {polls} polls");
    }
}

#[tokio::test]
async fn lists_and_names_that_make_no_sense_are_refused() {
    let options = RedLockOptions::default();
    assert!(matches!(RedLock::new(Vec::new(), options), Err(LockError::NothingToLock)));
    let nodes = start(2, &[]).await;
    let party = Party::new(&nodes, Lease::Renewed(LONG));
    let twice = vec![party.clients[0].clone(), party.clients[1].clone(), party.clients[0].clone()];
    assert!(matches!(RedLock::new(twice, options), Err(LockError::Twice(None))));
    let refused = party.locks.lock("").acquire().await;
    assert!(matches!(refused, Err(LockError::InvalidName(0))));
    let refused = party.locks.lock(NAME).lease(Lease::Fixed(Duration::ZERO)).acquire().await;
    assert!(matches!(refused, Err(LockError::InvalidLease)));
    party.shutdown().await;
    let error = party.locks.lock(NAME).acquire().await.unwrap_err();
    assert_eq!(failed_nodes(&error), [0, 1], "{error}");
    assert!(!error.retry_may_help(), "{error}");
}
