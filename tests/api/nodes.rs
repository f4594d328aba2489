//! What a server process says of itself: which one it is, and how busy.

use futures_util::future::join_all;
use seckill::purchase::{PurchasesOptions, Strategy};
use sqlx::Connection;

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

const NAMES: &str = "select distinct application_name from pg_stat_activity
    where datname = current_database() and application_name like 'seckill %'";

#[tokio::test(flavor = "multi_thread")]
async fn the_connections_of_a_node_and_its_metrics_say_which_process_it_is() {
    let world = World::new().await;
    world.at_present().await;
    let options = ["--strategy", "locked", "--burst", "123"];
    let (first, second) = tokio::join!(node(&world, &options), node(&world, &[]));
    let api = Api::at(world, first.address);
    let metrics = api.get("/metrics").await.text;
    for line in [
        "purchases_limit 123",
        "purchases_in_flight 0",
        "order_queue_depth 0",
        "order_batches_in_flight 0",
    ] {
        assert!(metrics.contains(&format!("\nseckill_{line}\n")), "{line}: {metrics}");
    }
    let version = env!("CARGO_PKG_VERSION");
    let info =
        format!("seckill_server_info{{version=\"{version}\",strategy=\"locked\",instance=\"");
    let instance = metrics.lines().find_map(|line| line.strip_prefix(&info)?.strip_suffix("\"} 1"));
    let own = format!("seckill {} {}", first.address, instance.expect(&metrics));
    let other = format!("seckill {} ", second.address);
    let names = sqlx::query_scalar(NAMES).fetch_all(api.world.database.pool()).await;
    let names: Vec<String> = names.unwrap();
    assert!(names.len() == 2 && names.contains(&own), "{own}: {names:?}");
    assert!(names.iter().any(|name| name.starts_with(&other)), "{other}: {names:?}");
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
    api.call("GET", "/api/refunds", &demo).await.problem(403, "forbidden");
    for page in ["/", "/board"] {
        let page = api.get(page).await;
        let text = &page.is(200).text;
        let parts = ["\"/lab\"", "\"/watch\"", "id=\"demo\"", DEMO_ADMIN_PHONE];
        assert!(!parts.iter().any(|part| text.contains(part)), "{text}");
    }
}
