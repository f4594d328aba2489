//! Money that goes back by itself, a second time or not at all, payments that nobody wants any more, and a sale that
//! is cancelled as a whole.

#[allow(unused_imports)]
use crate::worlds::*;
use std::sync::atomic::Ordering;

use chrono::TimeDelta;
use futures_util::future::join_all;
use seckill::model::{Clock, VoucherId};
use seckill::orders::winding_up::{WindingUp, WoundUp};
use seckill::store::cancelled_sales;
use serde_json::{Value, json};
use sqlx::Connection;

use crate::orders::life::{Till, succeeded};
use testkit::program::Program;
use testkit::shop::api_client::Answer;
use testkit::shop::world::PRICE;

const REFUNDED: &str = "refunded";
const CHARGED_BACK: &str = "charged_back";

fn returned(kind: &str, payment: &str, amount: i64) -> Value {
    json!({ "payment_id": payment, "status": kind, "transaction_id": "t1", "amount": amount })
}

/// An order of user 1 and its payment, which is made in the transaction `t1`.
async fn paid() -> (Till, String, String) {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.own_step(1, &order, "payments").await.text_of("payment_id").to_owned();
    till.notify(&succeeded(&payment, "t1", PRICE)).await.is(204);
    (till, order, payment)
}

async fn admin_step(till: &Till, order: &str, step: &str) -> Answer {
    till.step(&till.admin(), order, step).await
}

async fn steps_of(till: &Till, order: &str) -> Vec<String> {
    let steps = till.as_admin("GET", &format!("/api/orders/{order}/steps")).await;
    let steps = steps.is(200).body.as_array().unwrap().clone();
    steps
        .iter()
        .map(|step| {
            format!("{} by {}", step["step"].as_str().unwrap(), step["actor"].as_str().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn a_notice_of_money_of_another_voucher_waits_in_vain_and_the_audit_says_so() {
    let till = Till::open(1).await;
    let other = till.api.world.priced_voucher(1).await;
    let first = till.buy(1).await;
    till.pay(1, &first, "t1").await;
    let second = till.api.buy(2, other.id).await.text_of("order_id").to_owned();
    let payment = till.own_step(2, &second, "payments").await.text_of("payment_id").to_owned();
    till.notify(&returned(CHARGED_BACK, &payment, PRICE)).await.is(204);
    let pool = till.api.world.database.pool();
    let audits = seckill::purchase::audit::run(pool, None).await.unwrap();
    let violations: Vec<_> = audits.iter().flat_map(|audit| &audit.violations).collect();
    assert!(
        violations[0].what.contains("as the gateway says") && violations[0].what.contains(&first)
    );
    assert_eq!(violations.len(), 1, "{violations:?}");
}

#[tokio::test]
async fn money_that_goes_back_a_second_time_is_shown_and_the_audit_names_it() {
    let (till, order, payment) = paid().await;
    admin_step(&till, &order, "refund").await.is(202);
    assert_eq!(till.gateway_work().await.step().await.unwrap(), (1, 1));
    // A gateway may tell of the refund that it was asked for: it is the same one.
    till.notify(&returned(REFUNDED, &payment, PRICE)).await.is(204);
    till.holds().await;
    for _ in 0..2 {
        till.notify(&returned(CHARGED_BACK, &payment, PRICE)).await.is(204);
    }
    let shown = till.as_admin("GET", "/api/refunds").await;
    assert_eq!(shown.is(200).body.as_array().unwrap().len(), 1);
    assert!(shown.body[0]["given_back_twice_at"].is_string(), "{shown:?}");
    let audit = till.api.world.audit().await;
    let named: Vec<String> = audit.violations.iter().map(ToString::to_string).collect();
    assert_eq!(named, [format!("no_lost_payment: 1 payments went back twice: {order}")]);
}

#[tokio::test]
async fn a_refund_that_the_gateway_never_takes_is_settled_outside_it() {
    let (till, order, _) = paid().await;
    let settle = ["orders", "settle", order.as_str()];
    admin_step(&till, &order, "settlement").await.problem(409, "order_state");
    Program::on(&till.api.world).run(&settle).await.refused(1, "is paid, and not refunding");
    till.own_step(1, &order, "settlement").await.problem(403, "forbidden");
    admin_step(&till, &order, "refund").await.is(202);
    till.gateway.set_away(true);
    till.gateway_work().await.step().await.unwrap();
    // For an hour it is no news; a second later `doctor` warns of it.
    let doctor = async || Program::on(&till.api.world).run(&["doctor"]).await.stdout;
    till.api.world.set_time(till.api.world.clock.now() + TimeDelta::hours(1)).await;
    assert!(doctor().await.contains("1 wait, none for an hour"));
    till.api.world.set_time(till.api.world.clock.now() + TimeDelta::seconds(1)).await;
    assert!(doctor().await.contains("1 wait, the oldest for 60 minutes"));
    let waiting = till.as_admin("GET", "/api/refunds").await;
    assert_eq!(waiting.body[0]["last_error"], "the payment gateway: it is away");
    let settled = admin_step(&till, &order, "settlement").await;
    assert_eq!(settled.is(200).text_of("status"), "refunded");
    admin_step(&till, &order, "settlement").await.problem(409, "order_state");
    assert_eq!(
        steps_of(&till, &order).await,
        ["paid by gateway", "refund_begun by administrator", "settled_outside by administrator"]
    );
    // The gateway is not asked any more, and the voucher is on sale again.
    till.gateway.set_away(false);
    till.api.world.set_time(till.api.world.clock.now() + TimeDelta::minutes(10)).await;
    assert_eq!(till.gateway_work().await.step().await.unwrap(), (0, 0));
    till.api.buy(2, till.voucher.id).await.is(201);
    till.holds().await;
    // The same from the shell; and the gateway gave the money back after all.
    let (till, order, payment) = paid().await;
    admin_step(&till, &order, "refund").await.is(202);
    let settle = ["orders", "settle", order.as_str()];
    let said = Program::on(&till.api.world).says(&settle).await;
    assert_eq!(said, format!("order {order} is refunded: settled outside the gateway\n"));
    till.holds().await;
    till.notify(&returned(REFUNDED, &payment, PRICE)).await.is(204);
    let audit = till.api.world.audit().await;
    assert!(audit.violations[0].what.contains("went back twice"), "{audit:?}");
}

#[tokio::test]
async fn the_gateway_is_told_of_each_pending_payment_whose_order_is_cancelled() {
    let till = Till::open(4).await;
    let orders = join_all((1..=4).map(|number| till.buy(number))).await;
    let mut payments = Vec::new();
    for number in 1..=3 {
        let payment = till.own_step(number, &orders[number as usize - 1], "payments").await;
        payments.push(payment.text_of("payment_id").to_owned());
    }
    // By its buyer, by an administrator, by time; the fourth has no payment.
    till.own_step(1, &orders[0], "cancellation").await.is(200);
    admin_step(&till, &orders[1], "cancellation").await.is(200);
    till.api.world.set_time(till.api.world.clock.now() + TimeDelta::hours(1)).await;
    assert_eq!(till.expire().await, 2);
    till.gateway.set_away(true);
    let work = till.gateway_work().await;
    assert_eq!(work.step().await.unwrap(), (3, 0));
    assert_eq!(work.step().await.unwrap(), (0, 0));
    till.gateway.set_away(false);
    till.api.world.set_time(till.api.world.clock.now() + TimeDelta::seconds(2)).await;
    assert_eq!(work.step().await.unwrap(), (3, 3));
    assert_eq!(work.step().await.unwrap(), (0, 0));
    let mut told = till.gateway.cancelled.lock().unwrap().clone();
    told.sort();
    payments.sort();
    assert_eq!(told, payments);
    // A gateway that does not take it at all is left alone after the thirteenth time.
    let order = till.buy(1).await;
    till.own_step(1, &order, "payments").await.is(201);
    till.own_step(1, &order, "cancellation").await.is(200);
    till.gateway.set_away(true);
    let mut tries = 0;
    for _ in 0..40 {
        tries += work.step().await.unwrap().0;
        till.api.world.set_time(till.api.world.clock.now() + TimeDelta::minutes(7)).await;
    }
    assert_eq!(tries, 13);
    till.holds().await;
}

#[tokio::test]
async fn one_transaction_pays_for_one_order_also_where_two_vouchers_are_named() {
    let till = Till::open(2).await;
    let other = till.api.world.priced_voucher(1).await;
    let first = till.buy(1).await;
    let second = till.api.buy(2, other.id).await.text_of("order_id").to_owned();
    let mut payments = Vec::new();
    for (number, order) in [(1, &first), (2, &second)] {
        let payment = till.own_step(number, order, "payments").await;
        payments.push(payment.text_of("payment_id").to_owned());
    }
    for payment in &payments {
        till.notify(&succeeded(payment, "t1", PRICE)).await.is(204);
    }
    assert_eq!(till.status(1, &first).await, "paid");
    assert_eq!(till.status(2, &second).await, "unpaid");
    // An administrator sees what the gateway says of the second one, and of another order of the same voucher.
    let third = till.buy(3).await;
    let third = till.own_step(3, &third, "payments").await.text_of("payment_id").to_owned();
    till.notify(&succeeded(&third, "t1", PRICE)).await.is(204);
    till.notify(&succeeded(&payments[0], "t1", PRICE)).await.is(204);
    let shown = till.as_admin("GET", "/api/payments/unmatched").await;
    let unmatched = shown.is(200).body.as_array().unwrap().iter();
    let mut unmatched: Vec<_> = unmatched.map(|row| row["payment_id"].as_str().unwrap()).collect();
    unmatched.sort_unstable();
    let mut expected = [payments[1].as_str(), &third];
    expected.sort_unstable();
    assert_eq!(unmatched, expected);
    let pool = till.api.world.database.pool();
    let audits = seckill::purchase::audit::run(pool, None).await.unwrap();
    assert!(audits.iter().all(|audit| audit.holds), "{audits:?}");
    // Many times at the same moment.
    let both = (0..20).map(|number| {
        let notice = succeeded(&payments[number % 2], "t2", PRICE);
        let till = &till;
        async move { till.notify(&notice).await.status }
    });
    let said = join_all(both).await;
    assert!(said.iter().all(|status| [204, 503].contains(status)), "{said:?}");
    let audits = seckill::purchase::audit::run(pool, None).await.unwrap();
    assert!(audits.iter().all(|audit| audit.holds), "{audits:?}");
}

#[tokio::test]
async fn money_for_two_unknown_payments_is_kept_twice_and_an_order_that_is_gone_gets_its_money_back()
 {
    let (till, order, payment) = paid().await;
    for (unknown, amount) in [("1.2.3", 5), ("1.2.4", 5), ("1.2.4", 6), ("1.2.4", 6)] {
        till.notify(&succeeded(unknown, "t9", amount)).await.is(204);
    }
    till.notify(
        &json!({ "payment_id": "1.2.4", "status": REFUNDED, "transaction_id": "t9", "amount": 6 }),
    )
    .await
    .is(204);
    let shown = till.as_admin("GET", "/api/payments/unmatched").await;
    let rows = shown.is(200).body.as_array().unwrap();
    let back: Vec<_> = rows.iter().filter(|row| row["returned_at"].is_string()).collect();
    assert_eq!((rows.len(), back.len()), (3, 1), "{shown:?}");
    assert_eq!(back[0]["amount"], 6);
    // The order is gone, as nothing of ours does it: money for its payment goes back.
    let pool = till.api.world.database.pool();
    let gone = "delete from orders; delete from order_steps; update seckill_vouchers set stock = 1";
    sqlx::raw_sql(gone).execute(pool).await.unwrap();
    till.notify(&succeeded(&payment, "t2", PRICE)).await.is(204);
    let waiting = till.as_admin("GET", "/api/refunds").await;
    assert_eq!(waiting.body[0]["reason"], "order_missing", "{order}");
}

#[tokio::test]
async fn an_id_that_orders_of_two_vouchers_have_asks_for_the_voucher() {
    let till = Till::open(1).await;
    let other = till.api.world.voucher(1).await;
    let pool = till.api.world.database.pool();
    for voucher in [till.voucher.id, other.id] {
        sqlx::query("select * from sell($1, array[77], array[1], array[sale_time()])")
            .bind(voucher.get())
            .execute(pool)
            .await
            .unwrap();
    }
    let ids = json!([till.voucher.id, other.id]);
    let refused = admin_step(&till, "77", "refund").await;
    assert_eq!(refused.problem(409, "order_ambiguous").body["voucher_ids"], ids);
    till.own_step(1, "77", "payments").await.problem(409, "order_ambiguous");
    till.own_step(1, "77", "cancellation").await.problem(409, "order_ambiguous");
    till.api.get_as(1, "/api/orders/77").await.problem(409, "order_ambiguous");
    Program::on(&till.api.world).run(&["orders", "settle", "77"]).await.refused(1, "--voucher");
    admin_step(&till, "77", "refund?voucher_id=x").await.problem(422, "invalid_request");
    admin_step(&till, "77", "refund?voucher_id=4711").await.problem(404, "order_not_found");
    admin_step(&till, "77", &format!("refund?voucher_id={}", other.id)).await.is(202);
    till.own_step(1, "77", &format!("payments?voucher_id={}", till.voucher.id)).await.is(201);
}

/// The gateway fails: each payment is announced once, however often its buyer presses, and then again after a pause.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_fails_gets_one_message_of_a_payment_at_a_time() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    till.gateway.set_away(true);
    for round in 1..=3 {
        let answers = join_all((0..8).map(|_| till.own_step(1, &order, "payments"))).await;
        for answer in &answers {
            answer.problem(503, "unavailable");
            assert!(answer.header("retry-after").is_some(), "{answer:?}");
        }
        assert_eq!(till.gateway.asked.load(Ordering::Relaxed), round, "one message a pause");
        // The pause doubles from a second on, give or take a quarter.
        till.api.world.set_time(till.api.world.clock.now() + TimeDelta::seconds(6)).await;
    }
    till.gateway.set_away(false);
    till.own_step(1, &order, "payments").await.is(201);
    till.own_step(1, &order, "payments").await.is(201);
    assert_eq!(till.gateway.asked.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_sale_that_is_cancelled_ends_its_orders_and_begins_no_more() {
    let till = Till::open(10).await;
    let orders = join_all((1..=4).map(|number| till.buy(number))).await;
    let late = till.own_step(1, &orders[0], "payments").await.text_of("payment_id").to_owned();
    for (number, order) in [(2, &orders[1]), (3, &orders[2])] {
        till.pay(number, order, &format!("t{number}")).await;
    }
    admin_step(&till, &orders[2], "redemption").await.is(200);
    let voucher = till.voucher.id.to_string();
    let cancel = ["voucher", "cancel", voucher.as_str()];
    let program = Program::on(&till.api.world);
    program.run(&cancel).await.refused(2, "2 unpaid orders of voucher");
    assert_eq!(till.status(4, &orders[3]).await, "unpaid");
    program
        .run(&["voucher", "cancel", "4711", "--yes"])
        .await
        .refused(1, "there is no voucher 4711");
    let cancel = ["voucher", "cancel", voucher.as_str(), "--yes"];
    let said = program.says(&cancel).await;
    assert!(said.contains("cancelled 2 unpaid orders and began 1 refunds"), "{said}");
    assert!(
        said.contains("0 orders are refunded, 1 wait for the payment gateway, 1 were used"),
        "{said}"
    );
    // Again: nothing is left.
    assert!(program.says(&cancel).await.contains("cancelled 0 unpaid orders and began 0 refunds"));
    let states = ["cancelled", "refunding", "used", "cancelled"];
    for (number, status) in (1..).zip(states) {
        assert_eq!(till.status(number, &orders[number as usize - 1]).await, status);
    }
    // For good: nobody buys, nothing starts it again, and late money goes back.
    testkit::wait::eventually("the server knows", async || {
        till.api.buy(5, till.voucher.id).await.body["code"] == "sale_ended"
    })
    .await;
    let path = format!("/api/vouchers/{voucher}");
    let edit = till
        .api
        .request("PATCH", &path)
        .bearer_auth(till.admin())
        .json(&json!({ "paused": false }));
    till.api.send(edit).await.problem(409, "sale_cancelled");
    program.run(&["voucher", "resume", &voucher]).await.refused(1, "was cancelled for good");
    till.notify(&succeeded(&late, "late", PRICE)).await.is(204);
    assert_eq!(till.status(1, &orders[0]).await, "cancelled");
    assert_eq!(till.gateway_work().await.step().await.unwrap(), (2, 2));
    assert_eq!(till.status(2, &orders[1]).await, "refunded");
    let audit = till.holds().await;
    assert_eq!((audit.orders, audit.stock, audit.life.used), (1, 9, 1));
}

/// The command dies after it has begun; an order that time cancelled is not revived; a sale that never began is over.
#[tokio::test]
async fn servers_go_on_where_the_cancelling_of_a_sale_stopped() {
    let till = Till::open(250).await;
    let pool = till.api.world.database.pool();
    let place =
        "select * from sell($1, (select array_agg(1000 + i) from generate_series(1, 150) i),
                                    (select array_agg(1000 + i) from generate_series(1, 150) i),
                                    (select array_agg(sale_time()) from generate_series(1, 150)))";
    till.api.world.users(1_200).await;
    sqlx::query(place).bind(till.voucher.id.get()).execute(pool).await.unwrap();
    let order = till.buy(1).await;
    let payment = till.own_step(1, &order, "payments").await.text_of("payment_id").to_owned();
    till.api.world.set_time(till.api.world.clock.now() + TimeDelta::minutes(15)).await;
    let overdue =
        format!("update orders set pay_by = pay_by + interval '1 hour' where id <> {order}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(overdue)).execute(pool).await.unwrap();
    assert_eq!(till.expire().await, 1);
    assert!(cancelled_sales::cancel(pool, till.voucher.id).await.unwrap());
    assert!(!cancelled_sales::cancel(pool, VoucherId::new(4711).unwrap()).await.unwrap());
    till.notify(&succeeded(&payment, "late", PRICE)).await.is(204);
    assert_eq!(till.status(1, &order).await, "cancelled");
    let winding_up = WindingUp::new(till.api.world.database.clone());
    let ended = async || winding_up.step(till.voucher.id).await.unwrap();
    assert_eq!(ended().await, WoundUp { cancelled: 100, refunded: 0, is_complete: false });
    assert_eq!(cancelled_sales::find(pool, &[]).await.unwrap(), Some(till.voucher.id));
    assert_eq!(ended().await, WoundUp { cancelled: 50, refunded: 0, is_complete: false });
    assert!(ended().await.is_complete);
    assert_eq!(cancelled_sales::find(pool, &[]).await.unwrap(), None);
    till.holds().await;

    let begin = till.api.world.clock.now() + TimeDelta::hours(1);
    let upcoming = till.api.world.voucher_between(5, begin, begin + TimeDelta::hours(1)).await;
    assert!(cancelled_sales::cancel(pool, upcoming.id).await.unwrap());
    testkit::wait::eventually("the sale is over", async || {
        let found = till.api.get(&format!("/api/vouchers/{}", upcoming.id)).await;
        found.is(200).text_of("status") == "ended"
    })
    .await;
}

/// Another session holds one of the orders: the others are ended, and that one in the next step.
#[tokio::test]
async fn an_order_that_is_held_keeps_no_other_order_of_a_cancelled_sale_from_its_end() {
    let till = Till::open(3).await;
    let orders = join_all((1..=3).map(|number| till.buy(number))).await;
    let pool = till.api.world.database.pool();
    assert!(cancelled_sales::cancel(pool, till.voucher.id).await.unwrap());
    let hold = format!("select from orders where id = {} for update", orders[0]);
    let holder = till.api.world.begin(&hold).await;
    let winding_up = WindingUp::new(till.api.world.database.clone());
    assert_eq!(winding_up.step(till.voucher.id).await.unwrap().cancelled, 2);
    assert!(winding_up.step(till.voucher.id).await.is_err());
    holder.close().await.unwrap();
    assert_eq!(winding_up.step(till.voucher.id).await.unwrap().cancelled, 1);
    assert!(winding_up.step(till.voucher.id).await.unwrap().is_complete);
    till.holds().await;
}
