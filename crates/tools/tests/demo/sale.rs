//! Demos of every shape keep every promise.

use super::{CODES, demo, number, told};
use testkit::golden::assert_fields;
use testkit::processes::{living_in, place, seckill};
use testkit::servers;

/// A demo as its arguments say.
#[derive(Clone, Copy)]
struct Shape {
    stock: i64,
    users: i64,
    attempts: i64,
    nodes: i64,
}

const DEFAULT: Shape = Shape { stock: 100, users: 1000, attempts: 5, nodes: 2 };

/// Runs it, and holds every figure against the only one that keeps the promises.
async fn holds(arguments: &[&str], shape: Shape, urls: Option<(&str, &str)>) -> i64 {
    let place = place();
    let (output, verdict) = demo(place.path(), arguments, urls).await;
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("HOLDS"), "{output:?}");

    assert_fields("demo --json", &verdict);
    let Shape { stock, users, attempts, nodes } = shape;
    let sold = stock.min(users);
    for (field, figure) in [
        ("stock", stock),
        ("users", users),
        ("attempts", attempts),
        ("nodes", nodes),
        ("orders", sold),
        ("remaining", stock - sold),
        ("oversold", 0),
        ("duplicates", 0),
        ("undersold", 0),
        ("lost", 0),
    ] {
        assert_eq!(number(&verdict, field), figure, "{field}: {verdict}");
    }
    assert_eq!(verdict["strategy"], "group-commit");
    assert_eq!(verdict["holds"], true);
    for field in ["p50", "p95", "p99", "max"] {
        assert!(verdict["latency_ms"][field].as_f64().unwrap() > 0.0, "{field}: {verdict}");
    }
    assert!(verdict["elapsed_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(verdict["orders_per_s"].as_f64().unwrap() > 0.0, sold > 0);
    let outcomes = verdict["outcomes"].as_object().unwrap();
    assert!(outcomes.keys().all(|code| CODES.contains(&code.as_str())), "{verdict}");
    assert_eq!(
        outcomes.values().map(|count| count.as_i64().unwrap()).sum::<i64>(),
        users * attempts
    );
    assert_eq!(told(&verdict, "ordered"), sold, "{verdict}");

    // It is over when it says so: nothing runs, no directory is there.
    assert_eq!(living_in(place.path()), [0; 0]);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    verdict["voucher_id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_people_five_times_each_buy_a_hundred_vouchers_from_two_nodes() {
    holds(&[], DEFAULT, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn few_nodes_and_many_and_any_stock_are_sold_as_truly() {
    for (arguments, shape) in [
        (["--nodes", "1", "--users", "400"], Shape { nodes: 1, users: 400, ..DEFAULT }),
        (["--nodes", "4", "--users", "400"], Shape { nodes: 4, users: 400, ..DEFAULT }),
        (["--stock", "0", "--users", "200"], Shape { stock: 0, users: 200, ..DEFAULT }),
        (["--stock", "1", "--users", "200"], Shape { stock: 1, users: 200, ..DEFAULT }),
        (["--stock", "2000", "--users", "1000"], Shape { stock: 2000, ..DEFAULT }),
    ] {
        holds(&arguments, shape, None).await;
    }
}

/// The buyers do not divide evenly.
#[tokio::test(flavor = "multi_thread")]
async fn one_crowd_buys_ten_vouchers_and_each_is_judged() {
    let place = place();
    let arguments = ["--vouchers", "10", "--stock", "40", "--users", "403", "--attempts", "2"];
    let (output, verdict) = demo(place.path(), &arguments, None).await;
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.starts_with("HOLDS: 10 vouchers with a stock of 400 in all, 400 orders,"),
        "{said}"
    );
    for (field, figure) in [("stock", 400), ("users", 403), ("orders", 400), ("remaining", 0)] {
        assert_eq!(number(&verdict, field), figure, "{field}: {verdict}");
    }
    assert_eq!(told(&verdict, "ordered"), 400, "{verdict}");
    assert!(verdict.get("voucher_id").is_none(), "{verdict}");
    let vouchers = verdict["vouchers"].as_array().unwrap();
    let of = |field: &str| vouchers.iter().map(|one| number(one, field)).collect::<Vec<_>>();
    let users = of("users");
    assert_eq!(users.iter().sum::<i64>(), 403);
    assert!(users.iter().all(|users| (40..=41).contains(users)), "{users:?}");
    assert_eq!((of("stock"), of("orders")), (vec![40; 10], vec![40; 10]));
    let ids: std::collections::HashSet<_> = vouchers.iter().map(|one| &one["voucher_id"]).collect();
    assert_eq!(ids.len(), 10);
    let table = String::from_utf8_lossy(&output.stderr);
    assert!(table.contains("and 2 more, each of which holds"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_servers_named_it_uses_them_and_leaves_its_sale_there() {
    let servers = servers::own().await;
    let (database, redis) = (servers.database_url().unwrap(), servers.redis_url().unwrap());
    let shape = Shape { users: 200, stock: 50, ..DEFAULT };
    let voucher = holds(&["--users", "200", "--stock", "50"], shape, Some((database, redis))).await;

    let pool = sqlx::PgPool::connect(database).await.unwrap();
    let orders: i64 = sqlx::query_scalar("select count(*) from orders where voucher_id = $1")
        .bind(voucher)
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(orders, 50);
    let audit = || {
        let mut command = seckill(&["audit", "--voucher", &voucher.to_string(), "--json", "-"]);
        command.env("DATABASE_URL", database).env("REDIS_URL", redis);
        command
    };
    let audited = audit().output().await.unwrap();
    assert!(audited.status.success(), "{audited:?}");
    // The audit can fail: an order that nobody acknowledged is one too many.
    sqlx::query(
        "insert into orders (id, user_id, voucher_id) select 1, max(id) + 1, $1 from users",
    )
    .bind(voucher)
    .execute(&pool)
    .await
    .unwrap();
    let audited = audit().output().await.unwrap();
    assert_eq!(audited.status.code(), Some(1), "{audited:?}");
    pool.close().await;
    servers::ended(servers).await;
}
