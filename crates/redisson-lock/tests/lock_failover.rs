//! What no lock can promise, shown on real servers: a failover that forgets, a node that
//! comes back empty, a clock that leaps, a holder that sleeps. And what helps.

use std::time::Duration;

use faults::{Fault, Proxy};
use futures_util::FutureExt;
use redisson_lock::{Lease, LockClient, LockError};

use crate::lock_redlock::{
    NAME, Party, client, exists, hold_by_a_stranger, listeners, renewed_on, start,
};
use crate::world::{renewing, taken, waiting};
use testkit::redis_nodes::{DURABLE, Node, Sentinels};
use testkit::wait::{eventually, must};

/// No renewal of it falls into a test.
const HOUR: Lease = Lease::Renewed(Duration::from_secs(3600));

/// A master and its replica, with a link that can be cut.
struct Pair {
    master: Node,
    replica: Node,
    link: Proxy,
}

impl Pair {
    async fn start() -> Self {
        let (master, replica, link) = Node::pair_over_proxy().await;
        Self { master, replica, link }
    }

    /// From here on the replica gets nothing.
    async fn cut(&self) {
        self.link.break_by(Fault::Down);
        self.replica.until_cut_off().await.unwrap();
    }

    /// The master dies, the replica takes its place.
    async fn fail_over(&mut self) {
        self.master.kill();
        self.replica.promote().await.unwrap();
    }

    async fn until_replicated(&self, key: &str) {
        let there = async || self.replica.command::<i64>(&["EXISTS", key]).await == 1;
        eventually("the replica has it", there).await;
    }
}

/// T6. Not by pausing the replica: what was sent to it lies in its socket, and is done when
/// it resumes.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_forgets_a_grant_that_was_not_replicated_and_two_hold_and_none_that_was_acknowledged()
 {
    for acknowledged in [false, true] {
        let mut pair = Pair::start().await;
        let mut lock = client(&pair.master).lock(NAME).lease(HOUR);
        if acknowledged {
            lock = lock.acknowledged_by(1, Duration::from_secs(10));
        } else {
            pair.cut().await;
        }
        let a = taken(&lock).await;
        pair.fail_over().await;
        let b = client(&pair.replica).lock(NAME).lease(HOUR).try_acquire().await.unwrap();
        assert_eq!(b.is_none(), acknowledged);
        assert!(!a.is_lost() && b.is_none_or(|b| !b.is_lost()));
    }
}

/// T6b.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_no_replica_acknowledged_is_refused_and_given_back() {
    let pair = Pair::start().await;
    pair.cut().await;
    let locks = client(&pair.master);
    let lock = locks.lock(NAME).acknowledged_by(1, Duration::from_millis(200));
    let error = lock.try_acquire().await.unwrap_err();
    let none = matches!(error, LockError::NotReplicated { wanted: 1, acknowledged: 0, .. });
    assert!(none, "{error}");
    locks.shutdown().await;
    assert!(!exists(&pair.master).await);
}

async fn token_of(locks: &LockClient) -> u64 {
    let guard = locks.lock(NAME).fenced().acquire().await.unwrap();
    let token = guard.fence().unwrap();
    guard.release().await.unwrap();
    token
}

/// T6c.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_forgets_a_fencing_token_does_not_repeat_it_as_a_plain_counter_does() {
    let mut pair = Pair::start().await;
    let locks = client(&pair.master);
    let replicated = token_of(&locks).await;
    let plain: i64 = pair.master.command(&["INCR", "plain"]).await;
    pair.until_replicated("plain").await;
    pair.cut().await;
    let forgotten = token_of(&locks).await;
    let plain_forgotten: i64 = pair.master.command(&["INCR", "plain"]).await;
    pair.fail_over().await;
    let after = token_of(&client(&pair.replica)).await;
    let plain_after: i64 = pair.replica.command(&["INCR", "plain"]).await;
    assert_eq!((plain, plain_forgotten), (1, 2));
    assert_eq!(plain_after, plain_forgotten, "two holders have one number");
    assert!(replicated < forgotten && forgotten < after, "{replicated} {forgotten} {after}");
}

/// T7. A holds nodes 0 and 1 of three; 1 is killed and comes back. What does B get?
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_back_empty_gives_a_majority_to_two_and_one_that_has_on_disk_what_it_granted_does_not()
 {
    for (arguments, both_hold) in [(&[][..], true), (&DURABLE, false)] {
        let mut nodes = start(3, arguments).await;
        // Busy with somebody else's lock while A enters, and free soon after.
        hold_by_a_stranger(&nodes[2]).await;
        let (first, second) = (Party::new(&nodes, HOUR), Party::new(&nodes, HOUR));
        let a = first.locks.lock(NAME).try_acquire().await.unwrap().unwrap();
        assert_eq!(a.granted(), 2);
        nodes[2].command::<()>(&["DEL", NAME]).await;
        nodes[1].restart().await;
        let b = second.locks.lock(NAME).try_acquire().await.unwrap();
        assert!(!a.is_lost(), "A knows of nothing");
        assert_eq!(b.is_some_and(|b| !b.is_lost()), both_hold);
    }
}

/// Stands in for a clock that leaps past the lease. A renewal may come between the two.
async fn leap(node: &Node) {
    eventually("the lease is over on the node", async || {
        node.command::<()>(&["PEXPIRE", NAME, "1"]).await;
        !exists(node).await
    })
    .await;
}

/// T8. A is told when it next renews, a third of its lease later at the latest; until then
/// both hold. One that never renews is told at the end of its lease and no sooner.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_leaps_gives_a_majority_to_two_until_the_next_renewal() {
    let nodes = start(3, &[]).await;
    hold_by_a_stranger(&nodes[2]).await;
    let (first, second) = (Party::new(&nodes, HOUR), Party::new(&nodes, HOUR));
    let a = first.locks.lock(NAME).try_acquire().await.unwrap().unwrap();
    nodes[2].command::<()>(&["DEL", NAME]).await;
    leap(&nodes[1]).await;
    let b = second.locks.lock(NAME).try_acquire().await.unwrap().expect("two nodes are free");
    assert_eq!(b.granted(), 2);
    assert!(!a.is_lost() && !b.is_lost(), "both hold, and A's next renewal is far away");
    let error = a.release().await.unwrap_err();
    assert!(matches!(error, LockError::NotHeld(_)), "A learns it when it leaves: {error}");
    b.release().await.unwrap();

    // With a lease that is renewed soon: one of three nodes leaps, and a majority is left;
    let soon = Lease::Renewed(Duration::from_millis(1200));
    let a = first.locks.lock(NAME).lease(soon).acquire().await.unwrap();
    assert_eq!(a.granted(), 3);
    leap(&nodes[0]).await;
    renewed_on(&nodes[1], 4).await;
    assert!(!exists(&nodes[0]).await, "its renewal did not make it anew");
    assert!(a.lost().now_or_never().is_none() && !a.is_lost());
    // another one does, and A is told by its renewal, whether there is a B or not.
    leap(&nodes[1]).await;
    must("A is told", a.lost()).await;
    let b = second.locks.lock(NAME).try_acquire().await.unwrap();
    assert!(b.is_some_and(|b| b.granted() >= 2));
}

/// Each try that a server turned away is cleaned up after, for it may have been done; the
/// grant that comes in the end is not such a one.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_turned_away_by_a_replica_keeps_what_it_gets_from_the_master() {
    let node = Node::start(&[]).await;
    let locks = client(&node);
    locks.lock(NAME).acquire().await.unwrap().release().await.unwrap();
    // Of nobody: it refuses writes.
    node.command::<()>(&["REPLICAOF", "127.0.0.1", "1"]).await;
    node.command::<()>(&["CONFIG", "RESETSTAT"]).await;
    let waiter = waiting(&locks.lock(NAME).lease(HOUR));
    eventually("it was turned away", async || {
        !node.field(&["INFO", "errorstats"], "errorstat_READONLY").await.is_empty()
    })
    .await;
    node.promote().await.unwrap();
    let guard = must("it enters", waiter).await.unwrap().unwrap();
    locks.shutdown().await; // all that was to be cleaned up is
    assert!(exists(&node).await);
    guard.release().await.unwrap();
    assert!(!exists(&node).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_and_a_waiter_survive_the_failover_by_sentinels() {
    let (mut master, replica) = Node::pair().await;
    let sentinels = Sentinels::start(&master, 3, 2).await;
    let client = || renewing(&sentinels.url());
    let replicated = client().lock(NAME).acknowledged_by(1, Duration::from_secs(10));
    let guard = replicated.acquire().await.unwrap();
    let waiter = waiting(&client().lock(NAME));
    eventually("the waiter listens", async || listeners(&master).await == 1).await;
    master.kill();
    sentinels.promoted(&replica).await;
    assert!(!waiter.is_finished(), "the new master knows who holds it");
    // Who asks the new master anew is refused, too.
    let fresh = client();
    eventually("the new master answers", async || match fresh.lock(NAME).try_acquire().await {
        Ok(entered) => {
            assert!(entered.is_none(), "the new master has forgotten who holds it");
            true
        }
        Err(error) => {
            assert!(error.retry_may_help(), "{error}");
            false
        }
    })
    .await;
    // In the background, and again until the new master has it.
    drop(guard);
    must("the waiter enters", waiter).await.unwrap().unwrap().release().await.unwrap();
    assert!(!exists(&replica).await);
}
