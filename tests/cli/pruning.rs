//! `seckill prune`: what ended long ago is removed, and nothing that money or a promise depends on.

use chrono::TimeDelta;
use seckill::model::Clock;
use seckill::store::retention::{self, RemovedRow};
use seckill::store::unmatched_payments;
use serde_json::Value;
use sqlx::Connection;

use testkit::program::Program;
use testkit::shop::till::{Till, notice, succeeded};
use testkit::shop::world::PRICE;
use testkit::wait::eventually;

const PRUNE: [&str; 3] = ["prune", "--older-than", "365d"];

async fn prune(till: &Till, more: &[&str]) -> String {
    Program::on(&till.world).says(&[&PRUNE[..], more].concat()).await
}

/// A sale and its orders, from that of user 1 on: used, paid, cancelled by its buyer, refunded, and cancelled by time.
async fn old_sale() -> (Till, Vec<String>) {
    let till = Till::open(6).await;
    let mut orders = Vec::new();
    for user in 1..=5 {
        orders.push(till.buy(user).await);
    }
    for user in [1, 2, 4] {
        till.pay(user, &orders[user as usize - 1], &format!("t{user}")).await;
    }
    till.admin_step(&orders[0], "redemption").await.is(200);
    till.own_step(3, &orders[2], "cancellation").await.is(200);
    till.admin_step(&orders[3], "refund").await.is(202);
    till.admin_step(&orders[3], "settlement").await.is(200);
    till.after(TimeDelta::hours(1)).await;
    assert_eq!(till.expire().await, 1);
    (till, orders)
}

#[tokio::test]
async fn what_ended_long_ago_is_removed_with_its_sale_and_each_audit_holds() {
    let (till, orders) = old_sale().await;
    let pool = till.world.database.pool();
    let with_line = till.world.voucher_with_line(0).await;
    let entries = format!("/api/vouchers/{}/entries", with_line.id);
    till.call("POST", &entries, &till.world.token(1)).await.is(201);
    // The buyer may not buy again as long as this sale goes on, whatever became of the order.
    let begin = till.world.clock.now() - TimeDelta::hours(1);
    let running = till.world.voucher_between(2, begin, begin + TimeDelta::days(2_000)).await;
    let order = till.api.buy(1, running.id).await.is(201).text_of("order_id").to_owned();
    till.admin_step(&order, "redemption").await.is(200);
    // A year after all ends, not a day earlier.
    till.after(TimeDelta::days(365)).await;
    assert_eq!(prune(&till, &[]).await, "removed: nothing\n");
    till.after(TimeDelta::days(1)).await;
    for _ in 0..2 {
        assert_eq!(prune(&till, &["--dry-run"]).await, "would be removed: 4 orders\n");
        assert_eq!(till.holds().await.initial_stock, 6);
    }

    // A batch that the file does not take is there again; after each batch every audit holds.
    let before = till.world.clock.now() - TimeDelta::days(365);
    for is_kept in [false, true] {
        let mut orders = 0;
        let keep = |rows: &[RemovedRow]| {
            orders += rows.iter().filter(|(table, _)| table == "orders").count();
            if is_kept { Ok(()) } else { Err(std::io::Error::other("the disk is full")) }
        };
        let removed = retention::remove(pool, till.voucher.id, before, 1, keep).await.unwrap();
        assert_eq!((removed.is_ok(), orders), (is_kept, 1));
        till.holds().await;
        let left = if is_kept { 3 } else { 4 };
        assert_eq!(retention::count(pool, till.voucher.id, before).await.unwrap(), left);
    }

    let program = Program::on(&till.world);
    let file = program.file("rows.jsonl");
    let removed = prune(&till, &["--export", file.to_str().unwrap()]).await;
    assert!(removed.contains("1 entries,") && removed.contains(" 3 orders,"), "{removed}");
    assert!(removed.ends_with("1 seckill_vouchers, 1 vouchers\n"), "{removed}");
    let rows: Vec<Value> = std::fs::read_to_string(&file)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let is_order = |row: &&Value| row["table"] == "orders" && row["row"]["id"].is_string();
    assert_eq!(rows.iter().filter(is_order).count(), 3, "{rows:?}");
    let audit = till.holds().await;
    assert_eq!((audit.orders, audit.stock, audit.initial_stock), (1, 4, 5));
    assert_eq!(till.status(2, &orders[1]).await, "paid");
    assert_eq!(prune(&till, &[]).await, "removed: nothing\n");
    let path = format!("/api/vouchers/{}", with_line.id);
    eventually("the sale is gone", async || till.get(&path).await.status == 404).await;

    // Nobody buys a second one after the first was forgotten.
    let id = till.voucher.id.to_string();
    let edit = ["voucher", "edit", &id, "--end", "2999-01-01T00:00:00Z"];
    program.run(&edit).await.refused(1, "sale_ended");
    // The last order ends, and a year later nothing is left of the sale.
    till.admin_step(&orders[1], "redemption").await.is(200);
    assert_eq!(prune(&till, &[]).await, "removed: nothing\n");
    till.after(TimeDelta::days(366)).await;
    prune(&till, &[]).await;
    let audits = till.world.audits_hold().await;
    assert_eq!(audits.iter().map(|audit| audit.voucher_id).collect::<Vec<_>>(), [running.id]);
    assert_eq!(audits[0].orders, 1);
}

/// What happened to the sale, of which 4 orders would go otherwise, and how many go.
#[tokio::test]
async fn no_order_is_removed_that_money_depends_on() {
    for (happened, orders) in [
        ("update returns set returned_at = sale_time()", 3),
        ("update orders set updated_at = sale_time() where status = 3", 3),
        ("insert into messages (voucher_id, order_id, kind, number, channel, next_attempt_at, created_at)
          select voucher_id, id, 'cancel_payment', 1, 1, now(), now() from orders where status = 4 and cancelled_by = 3", 3),
        ("insert into messages (voucher_id, order_id, kind, number, channel, next_attempt_at, created_at)
          select voucher_id, id, 'cancel_payment', 1, 1, null, now() from orders where status = 4 and cancelled_by = 3", 4),
        ("insert into returns (voucher_id, order_id, transaction_id, number, amount, done_by, returned_at, is_early)
          select voucher_id, id, 'unknown', 1, 1, 2, created_at, true from orders where status = 4 and cancelled_by = 3", 3),
        ("update seckill_vouchers set cancelled_at = end_time", 0),
        ("update seckill_vouchers set end_time = sale_time()", 0),
        // An audit finds that, and the evidence stays.
        ("insert into returns select voucher_id, order_id, transaction_id, 2, amount, 3, returned_at from returns", 0),
        ("update orders set user_id = 77 where status = 3", 0),
    ] {
        let (till, _) = old_sale().await;
        till.after(TimeDelta::days(400)).await;
        till.sql(happened).await;
        let said = prune(&till, &["--dry-run"]).await;
        let expected = if orders == 0 { "nothing".to_owned() } else { format!(" {orders} orders") };
        let removed = prune(&till, &[]).await;
        assert!(
            said.contains(&expected) && removed.contains(&expected),
            "{happened}: {said}{removed}"
        );
    }
}

#[tokio::test]
async fn money_that_comes_late_keeps_its_order_until_it_is_back() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.own_payment(1, &order).await;
    till.own_step(1, &order, "cancellation").await.is(200);
    till.gateway_work().await.step().await.unwrap();
    till.after(TimeDelta::days(400)).await;
    till.notify(&succeeded(&payment, "t1", PRICE)).await.is(204);
    assert_eq!(prune(&till, &[]).await, "removed: nothing\n");
    till.gateway_work().await.step().await.unwrap();
    till.after(TimeDelta::days(366)).await;
    let removed = prune(&till, &[]).await;
    assert!(
        removed.contains(" 2 messages,") && removed.contains(" 1 orders, 1 payments, 1 refunds,"),
        "{removed}"
    );
    // What is said of it from then on is kept as money that belongs to no payment.
    till.notify(&succeeded(&payment, "t1", PRICE)).await.is(204);
    assert_eq!(till.list("/api/payments/unmatched").await.len(), 1);
    assert_eq!(till.world.audits_hold().await.len(), 0);
}

/// Its money may come late, or be charged back.
#[tokio::test]
async fn an_order_that_has_a_payment_is_kept_for_half_a_year() {
    let (till, _) = old_sale().await;
    let prune = async || Program::on(&till.world).says(&["prune", "--older-than", "1d"]).await;
    for (days, orders) in [(179, " 2 orders"), (2, " 2 orders, 2 payments"), (1, "nothing")] {
        till.after(TimeDelta::days(days)).await;
        let removed = prune().await;
        assert!(
            removed.contains(orders) && (days < 179 || !removed.contains("payments")),
            "{removed}"
        );
        till.holds().await;
    }
}

#[tokio::test]
async fn a_charge_back_of_an_order_that_was_removed_waits_for_somebody_until_its_money_is_known() {
    let till = Till::open(1).await;
    let pool = till.world.database.pool();
    let told = async |status: &str| {
        let told = if status == "succeeded" {
            succeeded("1.2.3", "t1", PRICE)
        } else {
            notice(status, "1.2.3", "t1", PRICE)
        };
        till.notify(&told).await.is(204);
        let listed = till.list("/api/payments/unmatched").await;
        assert!(listed.len() == 1 && listed[0]["returned_at"].is_string(), "{listed:?}");
        unmatched_payments::count_open(pool).await.unwrap()
    };
    for (status, open) in [("charged_back", 1), ("charged_back", 1), ("succeeded", 0)] {
        assert_eq!(told(status).await, open, "{status}");
    }
}

#[tokio::test]
async fn a_sale_that_another_session_holds_is_left_and_all_others_are_pruned() {
    let (till, _) = old_sale().await;
    till.world.voucher(1).await;
    till.after(TimeDelta::days(400)).await;
    let held = till.hold_the_sale().await;
    assert_eq!(prune(&till, &["--dry-run"]).await, "would be removed: 4 orders\n");
    let ran = Program::on(&till.world).run(&PRUNE).await;
    assert_eq!(ran.stdout, "removed: 1 seckill_vouchers, 1 vouchers\n", "{ran:?}");
    assert!(ran.status == 1 && ran.stderr.contains("try again later"), "{ran:?}");
    assert_eq!(till.holds().await.initial_stock, 6);
    held.close().await.unwrap();
    assert!(prune(&till, &[]).await.contains(" 4 orders,"));
    till.holds().await;
}
