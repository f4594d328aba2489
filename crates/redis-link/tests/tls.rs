//! Redis behind TLS that wants to see a certificate of its clients, signed by an authority of its own.

use std::time::Duration;

use redis_link::{LinkError, Redis, TlsFiles};
use redisson_lock::{LockClient, LockOptions};
use testkit::redis_nodes::{Certificates, Cluster, Node, Sentinels};
use testkit::wait::{eventually, must};

fn files(certificates: &Certificates) -> TlsFiles {
    let [cert, key] = certificates.client();
    TlsFiles { ca: Some(certificates.ca()), cert: Some(cert), key: Some(key) }
}

fn open(url: &str, certificates: &Certificates) -> Redis {
    Redis::new(&files(certificates).named_in(url).unwrap()).unwrap()
}

/// A lock is taken, waited for, and given back, each time by another client; and a request meets a connection that
/// the server has closed.
async fn works(redis: impl Fn() -> Redis, nodes: &[&Node]) {
    let (holder, waiter) = (redis(), redis());
    let locks = LockClient::new(holder.clone(), LockOptions::default());
    let waiters = LockClient::new(waiter, LockOptions::default());
    let held = locks.lock("l").fenced().acquire().await.unwrap();
    let waiting = tokio::spawn(waiters.lock("l").acquire_within(Duration::from_secs(60)));
    let listens = async || {
        let mut channels = 0;
        for node in nodes {
            channels += node.command::<Vec<String>>(&["PUBSUB", "CHANNELS"]).await.len();
        }
        channels > 0
    };
    eventually("it listens", listens).await;
    held.release().await.unwrap();
    let entered = must("it enters", waiting).await.unwrap().unwrap().unwrap();
    entered.release().await.unwrap();
    let acknowledged = locks.lock("l").acknowledged_by(0, Duration::from_millis(1));
    acknowledged.acquire().await.unwrap().release().await.unwrap();
    for _ in 0..3 {
        for node in nodes {
            node.command::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]).await;
        }
        holder.query::<()>(redis::cmd("SET").arg("k").arg("v")).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_is_reached_by_its_address_and_by_a_name_in_its_certificate() {
    let certificates = Certificates::new();
    let node = Node::start(&certificates.arguments()).await;
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("rediss://{host}:{}/1", node.tls_port());
        works(|| open(&url, &certificates), &[&node]).await;
    }
}

#[tokio::test]
async fn a_cluster_is_reached() {
    let certificates = Certificates::new();
    let more = [&certificates.arguments()[..], &["--tls-cluster", "yes"]].concat();
    let cluster = Cluster::start_with(3, &more).await;
    let url = format!("rediss+cluster://{}", cluster.nodes[0].tls_address());
    works(|| open(&url, &certificates), &cluster.nodes.iter().collect::<Vec<_>>()).await;
    let redis = open(&url, &certificates);
    for key in ["a", "b", "c", "d"] {
        redis.query::<()>(redis::cmd("SET").arg(key).arg(1)).await.unwrap();
    }
}

#[tokio::test]
async fn sentinels_and_the_master_that_they_name_are_reached() {
    let certificates = Certificates::new();
    let more = [&certificates.arguments()[..], &["--tls-replication", "yes"]].concat();
    let master = Node::start(&more).await;
    let sentinels = Sentinels::start_with(&master, master.tls_port(), (1, 1), &more).await;
    let url = format!("rediss+sentinel://{}/mymaster/2", sentinels.nodes[0].tls_address());
    works(|| open(&url, &certificates), &[&master]).await;
}

#[tokio::test]
async fn who_shows_no_certificate_or_a_strangers_is_turned_away_and_a_strangers_server_is_not_believed()
 {
    let (certificates, strangers) = (Certificates::new(), Certificates::new());
    let node = Node::start(&certificates.arguments()).await;
    let url = format!("rediss://{}", node.tls_address());
    let (ours, theirs) = (files(&certificates), files(&strangers));
    let none = TlsFiles { cert: None, key: None, ..ours.clone() };
    let another = TlsFiles { ca: ours.ca.clone(), ..theirs.clone() };
    let disbelieved = TlsFiles { ca: theirs.ca, ..ours };
    for files in [none, another, disbelieved] {
        let redis = Redis::new(&files.named_in(&url).unwrap()).unwrap();
        let error = redis.ping().await.unwrap_err();
        assert!(matches!(error, LinkError::Unavailable(_)), "{files:?}: {error}");
    }
    let plain = Redis::new(&format!("redis://{}", node.tls_address())).unwrap();
    assert!(!plain.ping().await.unwrap_err().outcome_unknown());
}
