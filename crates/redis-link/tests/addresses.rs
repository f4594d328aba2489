//! Addresses of Redis as they come: of the other family, of nobody, and of nodes that do not say where they are.

use redis_link::Redis;
use testkit::needs::needs_ipv6;
use testkit::redis_nodes::{Cluster, Node, migrate};

#[tokio::test]
async fn an_ipv6_address_is_taken() {
    if !needs_ipv6() {
        return;
    }
    let node = Node::start(&["--bind", "::1"]).await;
    let redis = Redis::new(&format!("redis://[::1]:{}", node.port())).unwrap();
    redis.ping().await.unwrap();
    let error = Redis::new("redis://[::1]:1").unwrap().ping().await.unwrap_err();
    assert!(error.to_string().ends_with("connection refused by [::1]:1"), "{error}");
}

/// The server listens at one address only, and the name may have two.
#[tokio::test]
async fn a_name_is_taken_by_whichever_of_its_addresses_lives() {
    let node = Node::start(&[]).await;
    Redis::new(&format!("redis://localhost:{}", node.port())).unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn a_refused_connection_says_by_whom() {
    for url in
        ["redis://127.0.0.1:1", "redis+cluster://127.0.0.1:1", "redis+sentinel://127.0.0.1:1/m"]
    {
        let error = Redis::new(url).unwrap().ping().await.unwrap_err();
        let said = "Redis is unavailable: connection refused by 127.0.0.1:1";
        assert!(error.to_string().starts_with(said), "{url}: {error}");
        assert!(error.retry_may_help() && !error.outcome_unknown());
    }
    let error = Redis::new("redis+unix:///no/such/socket").unwrap().ping().await.unwrap_err();
    assert!(error.to_string().contains("no connection to /no/such/socket"), "{error}");
    let error = Redis::new("redis://no-such-host.invalid").unwrap().ping().await.unwrap_err();
    assert!(error.to_string().contains("no connection to no-such-host.invalid:6379"), "{error}");
}

/// It takes connections, and says nothing.
#[tokio::test]
async fn a_silent_server_is_told_by_its_address() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let redis = Redis::new(&format!("redis://{address}")).unwrap();
    let error = redis.ping().await.unwrap_err();
    assert!(
        error.to_string().ends_with(&format!("no answer within 400ms from {address}")),
        "{error}"
    );
    assert!(!error.outcome_unknown());
}

/// `MOVED slot :port` and `MOVED slot ?:port`: it is where the node is that was asked.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_a_cluster_that_do_not_say_where_they_are_are_where_the_speaker_is() {
    for kind in ["unknown-endpoint", "hostname"] {
        let cluster = Cluster::start_with(3, &["--cluster-preferred-endpoint-type", kind]).await;
        let redis = Redis::new(&cluster.url()).unwrap();
        let increment = async || redis.query::<i64>(redis::cmd("INCR").arg("a")).await.unwrap();
        assert_eq!(increment().await, 1);
        let owner = cluster.index_of("a").await;
        migrate(&cluster, "a", &cluster.nodes[(owner + 1) % 3], async || {}).await;
        let moved = cluster.nodes[owner].try_command::<i64>(&["GET", "a"]).await.unwrap_err();
        let nobody = [" :", " ?:"].iter().any(|nobody| moved.to_string().contains(nobody));
        assert!(nobody, "{kind}: {moved}");
        assert_eq!(increment().await, 2);
    }
}
