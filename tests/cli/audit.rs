//! `seckill audit` on books that are in order, and on books broken one by one.

use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use testkit::golden::assert_fields;
use testkit::program::{Program, Ran};
use testkit::shop::world::World;

/// Changes the books behind the program's back.
async fn tamper(world: &World, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(world.database.pool()).await.unwrap();
}

/// A world with users 1 to 5 and one voucher of three, one sold to user 1.
async fn books() -> World {
    let world = World::new().await;
    world.users(5).await;
    world.voucher(3).await;
    tamper(&world, "update seckill_vouchers set stock = 2").await;
    tamper(&world, "insert into orders (id, user_id, voucher_id) values (1, 1, 1)").await;
    world
}

async fn audit(world: &World) -> (Ran, Value) {
    let ran = Program::on(world).run(&["audit", "--json", "-"]).await;
    let report = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    (ran, report)
}

/// Asserts what the audit says of the only voucher, in all places where it says it.
async fn finds(world: &World, numbers: [i64; 4], promises: &[&str]) {
    let (ran, report) = audit(world).await;
    let holds = promises.is_empty();
    assert_eq!((ran.status, &report["holds"]), (i32::from(!holds), &json!(holds)), "{ran:?}");
    let [voucher] = report["vouchers"].as_array().unwrap().as_slice() else { panic!("{report}") };
    let mut fields: Vec<&str> = voucher.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    let expected = [
        "cancelled",
        "distinct_users",
        "expired",
        "holds",
        "initial_stock",
        "orders",
        "paid",
        "payments",
        "refunded",
        "refunding",
        "refunds",
        "stock",
        "unpaid",
        "used",
        "violations",
        "voucher_id",
    ];
    assert_eq!(fields, expected);
    assert_eq!((&voucher["voucher_id"], &voucher["holds"]), (&json!("1"), &json!(holds)));
    let of = |name: &str| voucher[name].as_i64().unwrap();
    assert_eq!([of("initial_stock"), of("stock"), of("orders"), of("distinct_users")], numbers);
    let violations = voucher["violations"].as_array().unwrap();
    let named: Vec<&str> =
        violations.iter().map(|it| it.as_str().unwrap().split(':').next().unwrap()).collect();
    assert_eq!(named, promises, "{report}");
    assert_eq!(ran.stderr.lines().count(), promises.len(), "{ran:?}");
    for violation in violations {
        let line = format!("voucher 1: {}\n", violation.as_str().unwrap());
        assert!(ran.stderr.contains(&line), "{ran:?}");
    }
    let table = Program::on(world).run(&["audit"]).await;
    assert_eq!(table.status, ran.status);
    assert!(table.stdout.contains(if holds { "holds" } else { "BROKEN" }), "{table:?}");
}

#[tokio::test]
async fn books_in_order_hold() {
    let world = books().await;
    assert_fields("audit --json", &audit(&world).await.1);
    finds(&world, [3, 2, 1, 1], &[]).await;
}

#[tokio::test]
async fn no_vouchers_at_all_hold() {
    let (ran, report) = audit(&World::new().await).await;
    assert_eq!((ran.status, report), (0, json!({ "holds": true, "vouchers": [] })));
}

#[tokio::test]
async fn two_orders_of_one_user_are_found() {
    let world = books().await;
    tamper(&world, "drop index orders_one_live_per_user").await;
    tamper(&world, "insert into orders (id, user_id, voucher_id) values (2, 1, 1)").await;
    tamper(&world, "update seckill_vouchers set stock = 1").await;
    finds(&world, [3, 1, 2, 1], &["one_per_user"]).await;
}

#[tokio::test]
async fn stock_that_vanished_or_came_from_nowhere_is_found() {
    let world = books().await;
    tamper(&world, "update seckill_vouchers set stock = 1").await;
    finds(&world, [3, 1, 1, 1], &["no_undersell"]).await;
    tamper(&world, "update seckill_vouchers set stock = 3").await;
    finds(&world, [3, 3, 1, 1], &["no_undersell"]).await;
}

#[tokio::test]
async fn an_order_that_was_lost_is_found() {
    let world = books().await;
    tamper(&world, "delete from orders").await;
    finds(&world, [3, 2, 0, 0], &["no_undersell"]).await;
}

#[tokio::test]
async fn more_orders_than_vouchers_are_found() {
    let world = books().await;
    let orders =
        "insert into orders (id, user_id, voucher_id) select n, n, 1 from generate_series(2, 4) n";
    tamper(&world, orders).await;
    tamper(&world, "update seckill_vouchers set stock = 0").await;
    finds(&world, [3, 0, 4, 4], &["no_oversell", "no_undersell"]).await;
    // Books that add up do not hide it.
    tamper(&world, "alter table seckill_vouchers drop constraint stock_never_negative").await;
    tamper(&world, "update seckill_vouchers set stock = -1").await;
    finds(&world, [3, -1, 4, 4], &["no_oversell", "no_oversell"]).await;
}

#[tokio::test]
async fn an_order_of_nobody_is_found() {
    let world = books().await;
    tamper(&world, "insert into orders (id, user_id, voucher_id) values (2, 999, 1)").await;
    tamper(&world, "update seckill_vouchers set stock = 1").await;
    finds(&world, [3, 1, 2, 2], &["orphans"]).await;
}

#[tokio::test]
async fn orders_of_a_voucher_that_does_not_exist_are_found() {
    let world = books().await;
    tamper(&world, "insert into orders (id, user_id, voucher_id) values (2, 1, 77)").await;
    let (ran, report) = audit(&world).await;
    assert_eq!(ran.status, 1);
    assert_eq!(report["vouchers"][0]["holds"], true);
    assert_eq!(report["vouchers"][1]["voucher_id"], "77");
    assert_eq!(report["vouchers"][1]["holds"], false);
    // It can be looked at alone.
    let alone = Program::on(&world).run(&["audit", "--voucher", "77"]).await;
    assert!(alone.status == 1 && alone.stderr.contains("voucher 77: no_oversell"), "{alone:?}");
}

#[tokio::test]
async fn one_voucher_is_audited_without_the_others() {
    let world = books().await;
    world.voucher(3).await;
    tamper(&world, "update seckill_vouchers set stock = 1 where voucher_id = 2").await;
    let program = Program::on(&world);
    let file = program.file("audit.json");
    let of = |voucher| ["audit", "--voucher", voucher, "--json", file.to_str().unwrap()];
    assert_eq!(program.run(&of("1")).await.status, 0);
    let ran = program.run(&of("2")).await;
    assert_eq!((ran.status, ran.stdout.as_str()), (1, ""));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["vouchers"].as_array().unwrap().len(), 1);
    program.run(&["audit", "--voucher", "3"]).await.refused(1, "there is no voucher 3");
    program
        .run(&["audit", "--voucher", "9223372036854775807"])
        .await
        .refused(1, "there is no voucher");
}
