//! Redis behind TLS that wants to see a certificate of its clients, signed by an authority of its own.

use redis_link::{LinkError, Redis, TlsFiles};
use testkit::redis_nodes::{Certificates, Cluster, Node, Sentinels};

use crate::topologies::{heard, listening};
use crate::{increment_alone, increment_call};

fn files(certificates: &Certificates) -> TlsFiles {
    let [cert, key] = certificates.client();
    TlsFiles { ca: Some(certificates.ca()), cert: Some(cert), key: Some(key) }
}

fn open(url: &str, certificates: &Certificates) -> Redis {
    Redis::new(&files(certificates).named_in(url).unwrap()).unwrap()
}

/// A message is heard, a script called in both ways, and a request meets a connection that the server has closed.
async fn works(redis: impl Fn() -> Redis, nodes: &[&Node]) {
    let (caller, hearer) = (redis(), redis());
    hearer.ping().await.unwrap();
    let mut hearing = listening(&hearer, "channel").await;
    nodes[0].command::<()>(&["PUBLISH", "channel", "hello"]).await;
    assert_eq!(heard(&mut hearing).await.as_deref(), Some("hello"));
    caller.invoke::<i64>(&increment_call("n")).await.unwrap();
    increment_alone(&caller).await.unwrap();
    for _ in 0..3 {
        for node in nodes {
            node.command::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]).await;
        }
        caller.query::<()>(redis::cmd("SET").arg("k").arg("v")).await.unwrap();
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
