//! Which server processes sell, and how busy one of them is.

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use seckill::purchase::{PurchasesOptions, Strategy};
use serde_json::Value;
use sqlx::{Connection, Executor, PgConnection};

use testkit::processes::Node;
use testkit::program::Program;
use testkit::shop::api_client::Api;
use testkit::shop::private_server::DEMO_ADMIN_PHONE;
use testkit::shop::world::{ADMIN_PHONE, World, user};
use testkit::wait::eventually;

/// A server of this world, in a process of its own.
pub async fn node(world: &World, arguments: &[&str]) -> Node {
    let program = Program::on(world).with("SECKILL_SMS", "log");
    Node::serve(&program.with("SECKILL_ADMIN_PHONES", ADMIN_PHONE), arguments).await
}

/// Address and whether it is the one that answers, of each node.
fn listed(body: &Value) -> Vec<(String, bool)> {
    let of = |node: &Value| {
        // All fourteen were opened at its start; one that is found dead is closed until it is needed.
        assert!(node["connections"].as_i64().unwrap() > 7, "{node}");
        assert_eq!(node["instance"].as_str().unwrap().len(), 7, "{node}");
        (node["address"].as_str().unwrap().to_owned(), node["answers"].as_bool().unwrap())
    };
    let mut nodes: Vec<_> = body["nodes"].as_array().unwrap().iter().map(of).collect();
    nodes.sort();
    nodes
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_that_use_the_database_are_known_until_they_end_and_say_what_they_are() {
    let world = World::new().await;
    world.at_present().await;
    let options = ["--strategy", "locked", "--burst", "123"];
    let (first, mut second) = tokio::join!(node(&world, &options), node(&world, &[]));
    // Neither a connection that only looks like a node's nor another program's is one.
    let mut stranger = PgConnection::connect(&world.database_url).await.unwrap();
    stranger.execute("set application_name = 'seckill <b>x</b> 1'").await.unwrap();
    let token = world.admin_token(100).await;
    let api = Api::at(world, first.address);
    let nodes = || api.call("GET", "/api/nodes", &token);
    let mut both = vec![(first.address.to_string(), true), (second.address.to_string(), false)];
    both.sort();
    eventually("both nodes are known", async || listed(&nodes().await.is(200).body) == both).await;

    second.send(Signal::SIGKILL);
    second.ended().await;
    let one = [(first.address.to_string(), true)];
    eventually("the one that was killed is gone", async || {
        listed(&nodes().await.is(200).body) == one
    })
    .await;
    stranger.close().await.unwrap();

    api.get("/api/nodes").await.problem(401, "unauthenticated");
    api.get_as(1, "/api/nodes").await.problem(403, "forbidden");
    let metrics = api.get("/metrics").await.text;
    for line in [
        "purchases_limit 123",
        "purchases_in_flight 0",
        "purchases_in_flight_peak 0",
        "order_queue_depth 0",
        "order_queue_depth_peak 0",
        "order_batches_in_flight 0",
    ] {
        assert!(metrics.contains(&format!("\nseckill_{line}\n")), "{line}: {metrics}");
    }
    let version = env!("CARGO_PKG_VERSION");
    let info =
        format!("seckill_server_info{{version=\"{version}\",strategy=\"locked\",instance=\"");
    assert!(
        metrics.lines().any(|line| line.starts_with(&info) && line.ends_with("\"} 1")),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_load_counts_purchases_orders_that_wait_and_transactions() {
    let world = World::with(|settings| settings.strategy = Strategy::Locked).await;
    world.users(9).await;
    let voucher = world.voucher(20).await;
    let options = PurchasesOptions { burst: 50, ..world.options() };
    let purchases = world.purchases(options).await;
    let is = async |in_flight, queue_depth, batches_in_flight| {
        eventually("the load is so", async || {
            let load = purchases.load();
            let now = (load.in_flight, load.queue_depth, load.batches_in_flight);
            now == (in_flight, queue_depth, batches_in_flight)
        })
        .await;
    };
    let idle = purchases.load();
    assert_eq!((idle.in_flight, idle.limit, idle.queue_depth), (0, 50, 0));
    assert_eq!((idle.in_flight_peak, idle.queue_depth_peak), (0, 0));
    world.wait_long_for_rows().await;
    let row = world.hold_the_row().await;
    let buying = join_all((1..=9).map(|number| purchases.buy(user(number), voucher.id)));
    let under_way = async {
        // Two transactions wait for the row, one order each, and seven orders for them.
        is(9, 7, 2).await;
        row.close().await.unwrap();
    };
    tokio::join!(buying, under_way);
    is(0, 0, 0).await;
    let peak = purchases.load().queue_depth_peak;
    assert!((7..=9).contains(&peak), "{peak}");
}

/// A rush that is over before anybody looks is seen by all who look afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn the_load_tells_of_a_rush_that_is_over() {
    let world = World::with(|settings| settings.strategy = Strategy::GroupCommit).await;
    world.users(40).await;
    let voucher = world.voucher(20).await;
    let purchases = world.purchases(world.options()).await;
    world.wait_long_for_rows().await;
    let row = world.hold_the_row().await;
    let buying = join_all((1..=40).map(|number| purchases.buy(user(number), voucher.id)));
    // All are under way when each of them has its lock: nobody looks at the figures meanwhile.
    let all_have_theirs = async || world.locks_held(1..=40).await == 40;
    let under_way = async {
        eventually("all purchases are under way", all_have_theirs).await;
        row.close().await.unwrap();
    };
    let (bought, ()) = tokio::join!(buying, under_way);
    assert!(bought.iter().all(Result::is_ok), "{bought:?}");
    let load = purchases.load();
    assert_eq!((load.in_flight, load.queue_depth, load.in_flight_peak), (0, 0, 40), "{load:?}");
    assert!((1..=40).contains(&load.queue_depth_peak), "{load:?}");
}

/// What belongs to `seckill play` alone: shows, an administrator whom nobody configured, the ladder.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_sells_has_no_demonstration_in_it() {
    let world = World::new().await;
    world.at_present().await;
    let server = node(&world, &[]).await;
    let token = world.admin_token(100).await;
    let stranger = sqlx::query(
        "insert into users (id, phone, nickname, created_at)
         values (101, '+99900000000000', 'demo', now())",
    );
    stranger.execute(world.database.pool()).await.unwrap();
    let demo = world.token(101);
    let api = Api::at(world, server.address);
    for (method, path) in [("POST", "/api/stage/shows"), ("GET", "/watch"), ("GET", "/lab")] {
        api.call(method, path, &token).await.problem(404, "not_found");
    }
    api.call("GET", "/api/nodes", &demo).await.problem(403, "forbidden");
    for page in ["/", "/board"] {
        let page = api.get(page).await;
        let text = &page.is(200).text;
        let parts = ["\"/lab\"", "\"/watch\"", "id=\"demo\"", DEMO_ADMIN_PHONE];
        assert!(!parts.iter().any(|part| text.contains(part)), "{text}");
    }
}
