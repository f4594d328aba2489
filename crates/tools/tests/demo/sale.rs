//! Demos of every shape keep every promise.

use super::{demo, number};
use testkit::golden::assert_fields;
use testkit::program::Program;
use testkit::servers;

/// Figures of a demo, each the default of the argument that is called so.
const DEFAULTS: [(&str, i64); 4] = [("stock", 100), ("users", 1000), ("attempts", 5), ("nodes", 2)];

/// Runs one with other figures, and holds every figure against the only one that keeps the promises.
async fn holds(others: &[(&str, i64)], urls: Option<(&str, &str)>) -> i64 {
    let arguments = others.iter().map(|(name, figure)| format!("--{name}={figure}"));
    let demo = demo(&arguments.collect::<Vec<_>>(), urls).await;
    demo.holds();
    let verdict = &demo.verdict;
    assert_fields("demo --json", verdict);
    let figures = DEFAULTS.map(|default| {
        let other = others.iter().find(|other| other.0 == default.0);
        *other.unwrap_or(&default)
    });
    demo.has(&figures);
    let [(_, stock), (_, users), (_, attempts), _] = figures;
    let sold = stock.min(users);
    demo.has(&[("orders", sold), ("told", sold), ("remaining", stock - sold)]);
    demo.has(&[("oversold", 0), ("duplicates", 0), ("undersold", 0), ("lost", 0)]);
    assert_eq!(verdict["strategy"], "group-commit");
    for field in ["p50", "p95", "p99", "max"] {
        assert!(verdict["latency_ms"][field].as_f64().unwrap() > 0.0, "{field}: {verdict}");
    }
    assert!(verdict["elapsed_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(verdict["orders_per_s"].as_f64().unwrap() > 0.0, sold > 0);
    let outcomes = verdict["outcomes"].as_object().unwrap();
    let all: i64 = outcomes.values().map(|count| count.as_i64().unwrap()).sum();
    assert_eq!(all, users * attempts, "{verdict}");
    verdict["voucher_id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_people_five_times_each_buy_a_hundred_vouchers_from_two_nodes() {
    holds(&[], None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn few_nodes_and_many_and_any_stock_are_sold_as_truly() {
    for (name, figure, users) in [
        ("nodes", 1, 400),
        ("nodes", 4, 400),
        ("stock", 0, 200),
        ("stock", 1, 200),
        ("stock", 2000, 1000),
    ] {
        holds(&[(name, figure), ("users", users)], None).await;
    }
}

/// The buyers do not divide evenly.
#[tokio::test(flavor = "multi_thread")]
async fn one_crowd_buys_ten_vouchers_and_each_is_judged() {
    let arguments = ["--vouchers", "10", "--stock", "40", "--users", "403", "--attempts", "2"];
    let demo = demo(&arguments, None).await;
    demo.holds();
    let begins = "HOLDS: 10 vouchers with a stock of 400 in all, 400 orders,";
    assert!(demo.ran.stdout.starts_with(begins), "{demo:#?}");
    demo.has(&[("stock", 400), ("users", 403), ("orders", 400), ("told", 400), ("remaining", 0)]);
    let verdict = &demo.verdict;
    assert!(verdict.get("voucher_id").is_none(), "{verdict}");
    let vouchers = verdict["vouchers"].as_array().unwrap();
    let of = |field: &str| vouchers.iter().map(|one| number(one, field)).collect::<Vec<_>>();
    let users = of("users");
    assert_eq!(users.iter().sum::<i64>(), 403);
    assert!(users.iter().all(|users| (40..=41).contains(users)), "{users:?}");
    assert_eq!((of("stock"), of("orders")), (vec![40; 10], vec![40; 10]));
    let ids: std::collections::HashSet<_> = vouchers.iter().map(|one| &one["voucher_id"]).collect();
    assert_eq!(ids.len(), 10);
    assert!(demo.ran.stderr.contains("and 2 more, each of which holds"), "{demo:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_servers_named_it_uses_them_and_leaves_its_sale_there() {
    let servers = servers::own().await;
    let (database, redis) = (servers.database_url().unwrap(), servers.redis_url().unwrap());
    let voucher = holds(&[("users", 200), ("stock", 50)], Some((database, redis))).await;

    let pool = sqlx::PgPool::connect(database).await.unwrap();
    let count = sqlx::query_scalar("select count(*) from orders where voucher_id = $1");
    let orders: i64 = count.bind(voucher).fetch_one(&pool).await.unwrap();
    assert_eq!(orders, 50);
    let named = Program::alone().with("DATABASE_URL", database).with("REDIS_URL", redis);
    let voucher_id = voucher.to_string();
    let audit = ["audit", "--voucher", &voucher_id, "--json", "-"];
    assert_eq!(named.run(&audit).await.status, 0);
    // The audit can fail: an order that nobody acknowledged is one too many.
    let insert =
        "insert into orders (id, user_id, voucher_id) select 1, max(id) + 1, $1 from users";
    sqlx::query(insert).bind(voucher).execute(&pool).await.unwrap();
    assert_eq!(named.run(&audit).await.status, 1);
    pool.close().await;
    servers::ended(servers).await;
}
