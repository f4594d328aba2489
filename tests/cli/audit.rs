//! `seckill audit` on books that are in order, and on books broken one by one.

use serde_json::{Value, json};

use testkit::golden::assert_fields;
use testkit::program::{Program, Ran};
use testkit::shop::world::{World, run_sql};

/// A world with users 1 to 5 and one voucher of three, one sold to user 1.
async fn books() -> World {
    let world = World::new().await;
    world.users(5).await;
    world.voucher(3).await;
    let one_is_sold = "update seckill_vouchers set stock = 2;
                       insert into orders (id, user_id, voucher_id) values (1, 1, 1)";
    run_sql(&world.database_url, one_is_sold).await;
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

/// A line each: what is done to the books; the stock at first and now, the orders and their users as the audit counts them;
/// and the promises that are broken.
const BROKEN: &str = "
drop index orders_one_live_per_user; ORDER values (2, 1, 1); SALE stock = 1 -> 3 1 2 1 one_per_user
SALE stock = 1 -> 3 1 1 1 no_undersell
SALE stock = 3 -> 3 3 1 1 no_undersell
delete from orders -> 3 2 0 0 no_undersell
ORDER select n, n, 1 from generate_series(2, 4) n; SALE stock = 0 -> 3 0 4 4 no_oversell no_undersell
ORDER select n, n, 1 from generate_series(2, 4) n; UNBOUND; SALE stock = -1 -> 3 -1 4 4 no_oversell no_oversell
ORDER values (2, 999, 1); SALE stock = 1 -> 3 1 2 2 orphans";

/// Two orders of one user, stock that vanished or came from nowhere, an order that was lost, more orders than vouchers
/// (also where the books add up), an order of nobody.
#[tokio::test]
async fn each_broken_promise_is_found_in_the_books() {
    for line in BROKEN.trim().lines() {
        let (changes, found) = line.split_once(" -> ").unwrap();
        let world = books().await;
        let changes = changes
            .replace("ORDER", "insert into orders (id, user_id, voucher_id)")
            .replace("SALE", "update seckill_vouchers set")
            .replace(
                "UNBOUND",
                "alter table seckill_vouchers drop constraint stock_never_negative",
            );
        run_sql(&world.database_url, &changes).await;
        let mut words = found.split(' ');
        let numbers = [(); 4].map(|()| words.next().unwrap().parse().unwrap());
        finds(&world, numbers, &words.collect::<Vec<_>>()).await;
    }
}

#[tokio::test]
async fn orders_of_a_voucher_that_does_not_exist_are_found() {
    let world = books().await;
    run_sql(&world.database_url, "insert into orders (id, user_id, voucher_id) values (2, 1, 77)")
        .await;
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
    run_sql(&world.database_url, "update seckill_vouchers set stock = 1 where voucher_id = 2")
        .await;
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
