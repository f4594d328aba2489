//! Which of three servers behind a balancer get requests, when a store is away for all of them, and when one server
//! alone is cut off.

use std::process::Stdio;
use std::time::{Duration, Instant};

use faults::{Fault, Proxy};
use nix::sys::signal::Signal;
use private_stores::Server;
use seckill::purchase::Strategy;
use serde_json::Value;

use super::crowd::What;
use super::rolling::Balancer;
use super::stage::Stage;
use testkit::needs::needs_ipv6;
use testkit::processes::Node;
use testkit::wait::eventually;

/// By their names in what a node says of itself.
const STORES: [(Server, &str); 2] = [(Server::Postgres, "database"), (Server::Redis, "redis")];

/// What a node says of itself.
async fn says(stage: &Stage, node: &Node) -> (u16, Value) {
    let url = format!("http://{}/readyz", node.address);
    let answer = stage.client.get(url).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// Waits until `node` has noticed that `store` is away.
async fn notices(stage: &Stage, node: &Node, store: &str) {
    eventually("a node notices", async || says(stage, node).await.1[store] == "unavailable").await;
}

async fn has_database(stage: &Stage, node: &Node) {
    eventually("it is there again", async || says(stage, node).await.1["database"] == "ok").await;
}

async fn three_nodes(stage: &Stage, balancer: &Balancer) -> Vec<Node> {
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let node = stage.node().await;
        balancer.add(node.address).await;
        nodes.push(node);
    }
    nodes
}

/// What a buyer is told through the balancer.
async fn buy(stage: &Stage, balancer: &Balancer, path: &str, buyer: i64) -> What {
    balancer.buy(path, &stage.token(buyer)).await.1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_of_redis_empties_no_service() {
    let stage = Stage::new(Strategy::GroupCommit).await;
    let (balancer, _probing) = Balancer::start(stage.client.clone());
    let nodes = three_nodes(&stage, &balancer).await;
    let sold_out = stage.another_of(1).await;
    // Each node learns that it is sold out.
    let mut asked = 0;
    eventually("it is sold out everywhere", async || {
        asked += 1;
        buy(&stage, &balancer, &sold_out.path(), asked).await;
        asked > 20
    })
    .await;

    stage.signal(Server::Redis, Signal::SIGSTOP);
    for node in &nodes {
        notices(&stage, node, "redis").await;
        let (status, said) = says(&stage, node).await;
        assert_eq!(
            (status, &said["cut_off"], &said["database"]),
            (200, &false.into(), &"ok".into())
        );
    }
    assert_eq!(balancer.ready().len(), 3);
    for turn in 0..6 {
        // Memory refuses rightly, reads answer, and who buys is told when to come again.
        let refused = buy(&stage, &balancer, &sold_out.path(), 100 + turn).await;
        assert_eq!(refused, What::Else("sold_out".to_owned()));
        assert_eq!(buy(&stage, &balancer, &stage.path(), 200 + turn).await, What::Unavailable);
        let node = &nodes[turn as usize % 3];
        for path in ["/api/vouchers", "/api/orders"] {
            assert_eq!(stage.get(node.address, path).await.0, 200, "{path}");
        }
    }
    stage.signal(Server::Redis, Signal::SIGCONT);
    let again = async || buy(&stage, &balancer, &stage.path(), 300).await.is_served();
    eventually("buyers are served again", again).await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_for_all_empties_no_service() {
    let stage = Stage::new(Strategy::GroupCommit).await;
    let (balancer, _probing) = Balancer::start(stage.client.clone());
    let nodes = three_nodes(&stage, &balancer).await;
    stage.signal(Server::Postgres, Signal::SIGSTOP);
    for node in &nodes {
        notices(&stage, node, "database").await;
    }
    // For longer than a node takes to believe others that reach the database.
    let since = Instant::now();
    eventually("the nodes have made up their minds", async || {
        for node in &nodes {
            let (status, said) = says(&stage, node).await;
            assert_eq!((status, &said["cut_off"]), (200, &false.into()), "{:?}", since.elapsed());
        }
        since.elapsed() > Duration::from_secs(8)
    })
    .await;
    assert_eq!(buy(&stage, &balancer, &stage.path(), 1).await, What::Unavailable);
    stage.signal(Server::Postgres, Signal::SIGCONT);
    let again = async || buy(&stage, &balancer, &stage.path(), 2).await.is_served();
    eventually("buyers are served again", again).await;
    stage.end().await;
}

/// A store that answers and takes no writes is away: a Redis without memory, a database that was made read-only.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_takes_no_writes_is_not_there() {
    let stage = Stage::new(Strategy::GroupCommit).await;
    let node = stage.node().await;
    let mut redis =
        ::redis::Client::open(stage.redis_url.as_str()).unwrap().get_connection().unwrap();
    let mut memory = |limit: &str| {
        let mut set = ::redis::cmd("CONFIG");
        set.arg("SET").arg("maxmemory").arg(limit).exec(&mut redis).unwrap();
    };
    memory("1");
    notices(&stage, &node, "redis").await;
    assert_eq!(stage.buy(node.address, 1).await, What::Unavailable);
    assert_eq!(says(&stage, &node).await.1["redis"], "unavailable");
    memory("0");
    // What was refused has left nothing behind.
    let served = stage.served(&node, 1).await;
    assert!(matches!(served, What::Ordered(_)), "{served:?}");
    let set = async |how: &str| {
        sqlx::query(sqlx::AssertSqlSafe(how)).execute(&stage.pool).await.unwrap();
        sqlx::query("select pg_reload_conf()").execute(&stage.pool).await.unwrap();
    };
    set("alter system set default_transaction_read_only = on").await;
    notices(&stage, &node, "database").await;
    assert_eq!(stage.buy(node.address, 2).await, What::Unavailable);
    set("alter system reset default_transaction_read_only").await;
    let served = stage.served(&node, 2).await;
    assert!(matches!(served, What::Ordered(_)), "{served:?}");
    has_database(&stage, &node).await;
    assert_eq!(says(&stage, &node).await.1["redis"], "ok");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_pause_of_both_stores_empties_no_service() {
    let stage = Stage::new(Strategy::GroupCommit).await;
    let node = stage.node().await;
    for (server, store) in STORES {
        stage.signal(server, Signal::SIGSTOP);
        notices(&stage, &node, store).await;
    }
    assert_eq!(says(&stage, &node).await.0, 200);
    STORES.iter().for_each(|(server, _)| stage.signal(*server, Signal::SIGCONT));
    stage.served(&node, 1).await;
    stage.end().await;
}

/// One of three nodes reaches its stores through proxies: first PostgreSQL is away for it, then Redis, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_alone_does_not_reach_its_stores_gets_no_requests() {
    let stage = Stage::new(Strategy::GroupCommit).await;
    let (balancer, _probing) = Balancer::start(stage.client.clone());
    let others = [stage.node().await, stage.node().await];
    let postgres = Proxy::before_postgres(&stage.database_url).await.unwrap();
    let redis = Proxy::start(&stage.redis_url).await.unwrap();
    let listen = ([127, 0, 0, 1], 0).into();
    let lonely = Node::start(&mut stage.serve_at(listen, postgres.url(), redis.url())).await;
    for node in others.iter().chain([&lonely]) {
        balancer.add(node.address).await;
    }
    for (of_redis, first) in [(Fault::None, 1), (Fault::Down, 10)] {
        postgres.break_by(Fault::Down);
        redis.break_by(of_redis);
        let sent_away = async || says(&stage, &lonely).await.0 == 503;
        eventually("the others get its requests", sent_away).await;
        assert_eq!(says(&stage, &lonely).await.1["cut_off"], true);
        eventually("the balancer knows", async || balancer.ready().len() == 2).await;
        for buyer in first..first + 9 {
            let bought = buy(&stage, &balancer, &stage.path(), buyer).await;
            assert!(matches!(bought, What::Ordered(_)), "{bought:?}");
        }
        postgres.break_by(Fault::None);
        redis.break_by(Fault::None);
        eventually("it is back", async || balancer.ready().len() == 3).await;
    }
    stage.end().await;
}

/// A session keeps what it began with: one that began while the database took no writes takes none for as long as it
/// lives.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_began_while_the_database_took_no_writes_are_replaced() {
    let stage = Stage::new(Strategy::GroupCommit).await;
    let set = async |how: &str| {
        let how = format!("alter database seckill {how}");
        sqlx::query(sqlx::AssertSqlSafe(how)).execute(&stage.pool).await.unwrap();
    };
    set("set default_transaction_read_only = on").await;
    let mut command = stage.serve(&stage.database_url);
    let node = Node::start(command.env("RUST_LOG", "info").stderr(Stdio::piped())).await;
    notices(&stage, &node, "database").await;
    // All of its connections were made meanwhile. Reads that succeed end no outage.
    assert_eq!(stage.buy(node.address, 1).await, What::Unavailable);
    for _ in 0..20 {
        assert_eq!(stage.get(node.address, "/api/orders").await.0, 200);
    }
    assert_eq!(says(&stage, &node).await.1["database"], "unavailable");
    set("reset default_transaction_read_only").await;
    has_database(&stage, &node).await;
    // From then on no session refuses a write, whichever pool it is of.
    for buyer in 2..40 {
        let bought = stage.buy(node.address, buyer).await;
        assert!(matches!(bought, What::Ordered(_)), "{bought:?}");
    }
    let at = |path: &str| format!("http://{}{path}", node.address);
    for _ in 0..20 {
        let ended = stage.client.delete(at("/api/sessions")).bearer_auth(stage.token(1));
        let status = ended.send().await.unwrap().status().as_u16();
        assert!([204, 401].contains(&status), "{status}");
    }
    let log = node.stop().await;
    for words in ["PostgreSQL does not answer", "PostgreSQL answers again"] {
        assert_eq!(log.matches(words).count(), 1, "{log}");
    }
    stage.end().await;
}

/// The port of an IPv6 address that leads to `address`.
async fn by_ipv6(address: String) -> u16 {
    let listener = tokio::net::TcpListener::bind("[::1]:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut server = tokio::net::TcpStream::connect(&address).await.unwrap();
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    port
}

/// The address is in a variable, or in a file, which is compared with what it said before.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_database_has_an_ipv6_address_notices_that_it_went_and_came_back() {
    if !needs_ipv6() {
        return;
    }
    let stage = Stage::new(Strategy::GroupCommit).await;
    let proxy = Proxy::before_postgres(&stage.database_url).await.unwrap();
    let port = by_ipv6(proxy.address()).await;
    let url = format!("postgres://postgres@[::1]:{port}/seckill?sslmode=disable");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &url).unwrap();
    for (number, name) in [(1, "DATABASE_URL"), (2, "DATABASE_URL_FILE")] {
        let mut command = stage.serve(&url);
        if name == "DATABASE_URL_FILE" {
            command.env_remove("DATABASE_URL").env(name, file.path());
        }
        let node = Node::start(&mut command).await;
        stage.signal(Server::Postgres, Signal::SIGSTOP);
        notices(&stage, &node, "database").await;
        stage.signal(Server::Postgres, Signal::SIGCONT);
        has_database(&stage, &node).await;
        stage.served(&node, number).await;
        // And a second time: whoever asked still asks.
        stage.signal(Server::Postgres, Signal::SIGSTOP);
        notices(&stage, &node, "database").await;
        stage.signal(Server::Postgres, Signal::SIGCONT);
    }
    stage.end().await;
}
