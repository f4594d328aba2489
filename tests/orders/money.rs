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
async fn what_the_gateway_gives_back_by_itself_is_not_given_back_again() {
    // Where the order is when the notice comes; then its state, what is left, and the last row of the log.
    for kind in [REFUNDED, CHARGED_BACK] {
        for (before, after, stock, last) in [
            (None, "refunded", 1, "refunded by gateway"),
            (Some("refund"), "refunded", 1, "refunded by gateway"),
            (Some("redemption"), "used", 0, "charged_back by gateway"),
        ] {
            let (till, order, payment) = paid().await;
            if let Some(step) = before {
                admin_step(&till, &order, step).await;
            }
            for _ in 0..2 {
                till.notify(&returned(kind, &payment, PRICE)).await.is(204);
            }
            let found = till.api.get_as(1, &format!("/api/orders/{order}")).await;
            assert_eq!(found.text_of("status"), after, "{kind} {before:?}");
            assert_eq!(found.body["charged_back_at"].is_string(), after == "used");
            let audit = till.holds().await;
            assert_eq!((audit.stock, audit.life.refunds), (stock, 1), "{kind} {before:?}");
            assert_eq!(steps_of(&till, &order).await.last().unwrap(), last);
            // Nobody is called, and nobody gives anything back any more.
            assert_eq!(till.gateway_work().await.step().await.unwrap(), (0, 0));
            assert!(till.gateway.refunded.lock().unwrap().is_empty());
            for step in ["refund", "redemption", "settlement"] {
                admin_step(&till, &order, step).await.problem(409, "order_state");
            }
            // What comes back is sold again, to anybody.
            assert_eq!(till.api.buy(2, till.voucher.id).await.status == 201, stock == 1);
            till.holds().await;
        }
    }
}

#[tokio::test]
async fn a_part_of_the_money_is_refused_and_a_notice_before_its_payment_waits_for_it() {
    let (till, order, payment) = paid().await;
    for amount in [1, PRICE - 1, PRICE + 1] {
        till.notify(&returned(REFUNDED, &payment, amount)).await.problem(422, "invalid_request");
    }
    assert_eq!(till.status(1, &order).await, "paid");
    for wrong in [
        json!({ "payment_id": payment, "status": REFUNDED }),
        json!({ "payment_id": payment, "status": REFUNDED, "amount": PRICE }),
        returned(CHARGED_BACK, &payment, 0),
        returned(CHARGED_BACK, &payment, -PRICE),
    ] {
        till.notify(&wrong).await.problem(422, "invalid_request");
    }
    // The notice is first: when the money is said to have come, it is given back already.
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.own_step(1, &order, "payments").await.text_of("payment_id").to_owned();
    till.notify(&returned(REFUNDED, &payment, PRICE - 1)).await.problem(422, "invalid_request");
    for _ in 0..2 {
        till.notify(&returned(REFUNDED, &payment, PRICE)).await.is(204);
    }
    assert_eq!(till.status(1, &order).await, "unpaid");
    till.notify(&succeeded(&payment, "t1", PRICE)).await.is(204);
    assert_eq!(till.status(1, &order).await, "refunded");
    assert_eq!(steps_of(&till, &order).await, ["paid by gateway", "refunded by gateway"]);
    till.notify(&succeeded(&payment, "t1", PRICE)).await.is(204);
    assert_eq!(till.gateway_work().await.step().await.unwrap(), (0, 0));
    assert_eq!(till.holds().await.stock, 1);
}

/// The gateway took more than was asked for, and gave all of it back before it says either.
#[tokio::test]
async fn a_wrong_amount_that_went_back_before_it_is_known_goes_back_once() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.own_step(1, &order, "payments").await.text_of("payment_id").to_owned();
    till.notify(&returned(REFUNDED, &payment, PRICE + 1)).await.is(204);
    till.notify(&succeeded(&payment, "t1", PRICE + 1)).await.is(204);
    assert_eq!(till.gateway_work().await.step().await.unwrap(), (0, 0));
    assert_eq!(till.status(1, &order).await, "unpaid");
    let audit = till.holds().await;
    assert_eq!((audit.life.payments, audit.life.refunds), (1, 1));
}

/// Money of a payment that could not be applied is on its way back when the gateway says that it is back.
#[tokio::test]
async fn a_refund_that_waits_is_not_sent_where_the_gateway_was_first() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.own_step(1, &order, "payments").await.text_of("payment_id").to_owned();
    till.notify(&succeeded(&payment, "t1", PRICE + 1)).await.is(204);
    till.notify(&returned(REFUNDED, &payment, PRICE)).await.problem(422, "invalid_request");
    till.notify(&returned(REFUNDED, &payment, PRICE + 1)).await.is(204);
    assert_eq!(till.gateway_work().await.step().await.unwrap(), (0, 0));
    assert_eq!(till.status(1, &order).await, "unpaid");
    let audit = till.holds().await;
    assert_eq!((audit.life.payments, audit.life.refunds), (1, 1));
}

/// The gateway names the payment of another order: the transaction says which money it is.
#[tokio::test]
async fn a_notice_is_about_the_money_that_it_names_also_where_it_names_another_payment() {
    let till = Till::open(2).await;
    let orders = [till.buy(1).await, till.buy(2).await];
    let mut payments = Vec::new();
    for (number, order) in [(1, &orders[0]), (2, &orders[1])] {
        let payment = till.own_step(number, order, "payments").await;
        payments.push(payment.text_of("payment_id").to_owned());
    }
    till.notify(&succeeded(&payments[0], "t1", PRICE)).await.is(204);
    till.notify(&returned(CHARGED_BACK, &payments[1], PRICE)).await.is(204);
    assert_eq!(till.status(1, &orders[0]).await, "refunded");
    assert_eq!(till.status(2, &orders[1]).await, "unpaid");
    till.holds().await;
    // Where the money is another voucher's, the notice waits for it in vain: an audit over all says so.
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
async fn an_early_return_of_another_amount_than_the_money_gives_nothing_back() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.own_step(1, &order, "payments").await.text_of("payment_id").to_owned();
    till.notify(&returned(REFUNDED, &payment, PRICE)).await.is(204);
    // It took twice as much: the whole goes back, and what it says of the half does not count.
    till.notify(&succeeded(&payment, "t1", 2 * PRICE)).await.is(204);
    let waiting = till.as_admin("GET", "/api/refunds").await;
    assert_eq!(waiting.body[0]["amount"], 2 * PRICE);
    assert_eq!(till.gateway_work().await.step().await.unwrap(), (1, 1));
    till.holds().await;
}

/// A buyer has begun a second payment when the money of the first comes after all.
#[tokio::test]
async fn the_other_payments_of_a_paid_order_are_cancelled_at_the_gateway() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let first = till.own_step(1, &order, "payments").await.text_of("payment_id").to_owned();
    till.notify(&json!({ "payment_id": first, "status": "failed" })).await.is(204);
    let second = till.own_step(1, &order, "payments").await.text_of("payment_id").to_owned();
    assert_ne!(first, second);
    till.notify(&succeeded(&first, "t1", PRICE)).await.is(204);
    assert_eq!(till.status(1, &order).await, "paid");
    assert_eq!(till.gateway_work().await.step().await.unwrap(), (1, 1));
    assert_eq!(*till.gateway.cancelled.lock().unwrap(), [second]);
    till.holds().await;
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

/// Money of one's own order is known, whichever number its payment has: a second transaction is a payment of its own, and
/// so is the right amount after a wrong one. A notice that comes again shows nothing that would have to be given back.
#[tokio::test]
async fn money_of_the_order_itself_that_is_told_again_is_not_somebody_elses() {
    for (first, amount, state) in [("t1", PRICE, "paid"), ("t1", PRICE - 1, "paid")] {
        let till = Till::open(1).await;
        let order = till.buy(1).await;
        let payment = till.own_step(1, &order, "payments").await.text_of("payment_id").to_owned();
        for (transaction, amount) in [(first, amount), ("t2", PRICE)] {
            till.notify(&succeeded(&payment, transaction, amount)).await.is(204);
        }
        for (transaction, amount) in [(first, amount), ("t2", PRICE)] {
            till.notify(&succeeded(&payment, transaction, amount)).await.is(204);
            let unmatched = till.as_admin("GET", "/api/payments/unmatched").await;
            assert_eq!(unmatched.is(200).body, json!([]), "{transaction} {amount}");
        }
        assert_eq!(till.status(1, &order).await, state);
        // One of the two goes back, once.
        assert_eq!(till.gateway_work().await.step().await.unwrap(), (1, 1));
        let audit = till.holds().await;
        assert_eq!((audit.life.payments, audit.life.refunds), (2, 1));
    }
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

/// A payment commits while eight administrators redeem: one of them gets the voucher.
#[tokio::test(flavor = "multi_thread")]
async fn of_eight_redemptions_beside_a_payment_at_most_one_hands_the_voucher_out() {
    let till = Till::open(30).await;
    till.api.world.users(30).await;
    for number in 1..=30 {
        let order = till.buy(number).await;
        let payment =
            till.own_step(number, &order, "payments").await.text_of("payment_id").to_owned();
        let redeem = join_all((0..8).map(|_| admin_step(&till, &order, "redemption")));
        let notice = succeeded(&payment, &format!("t{number}"), PRICE);
        let (paid, redeemed) = tokio::join!(till.notify(&notice), redeem);
        assert!([204, 503].contains(&paid.status), "{paid:?}");
        let handed_out = redeemed.iter().filter(|answer| answer.status == 200).count();
        let steps = steps_of(&till, &order).await;
        let logged = steps.iter().filter(|step| step.starts_with("redeemed")).count();
        assert!(handed_out == logged && handed_out <= 1, "{handed_out} of {steps:?}");
    }
    till.holds().await;
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

/// The gateway says that money is back before it says that it took the money, and names another order for it.
#[tokio::test]
async fn money_that_went_back_before_it_came_pays_for_nothing_whatever_order_was_named() {
    let till = Till::open(2).await;
    let mut payments = Vec::new();
    for number in [1, 2] {
        let order = till.buy(number).await;
        let begun = till.own_step(number, &order, "payments").await;
        payments.push((order, begun.is(201).text_of("payment_id").to_owned()));
    }
    let [(first, its_payment), (second, other_payment)] = &payments[..] else { unreachable!() };
    till.notify(&returned(REFUNDED, its_payment, PRICE)).await.is(204);
    till.notify(&succeeded(other_payment, "t1", PRICE)).await.is(204);
    assert_eq!(till.status(2, second).await, "refunded");
    assert_eq!(till.status(1, first).await, "unpaid");
    till.holds().await;
}
