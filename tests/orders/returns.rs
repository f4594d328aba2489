//! What went back, and comes again: a refund that failed after all, a charge-back that was won, and what a gateway says that is
//! refused.

use chrono::TimeDelta;
use seckill::store::refunds;
use seckill::store::unmatched_payments;
use serde_json::{Value, json};

use testkit::processes::Node;
use testkit::program::Program;
use testkit::shop::api_client::Client;
use testkit::shop::till::{Till, notice, succeeded};
use testkit::shop::world::PRICE;
use testkit::wait::eventually;

/// What the gateway says of a return that has this name.
fn named(status: &str, payment: &str, transaction: &str, amount: i64, name: &str) -> Value {
    let mut told = notice(status, payment, transaction, amount);
    told["return_id"] = json!(name);
    told
}

async fn steps(till: &Till, order: &str) -> Vec<String> {
    let steps = till.list(&format!("/api/orders/{order}/steps")).await;
    steps.iter().map(|it| it["step"].as_str().unwrap().to_owned()).collect()
}

/// The names by which the gateway was asked for refunds.
fn asked(till: &Till) -> Vec<String> {
    till.gateway().refunded.lock().unwrap().iter().map(|it| it.refund_id.clone()).collect()
}

#[tokio::test]
async fn a_refund_that_fails_after_all_is_asked_for_by_another_name_and_nothing_is_sold_twice() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.pay(1, &order, "t1").await;
    let failed =
        async |name: &str| till.notify(&named("refund_failed", &payment, "t1", PRICE, name)).await;
    till.admin_step(&order, "refund").await.is(202);
    let work = till.gateway_work().await;
    assert_eq!(work.step().await.unwrap(), (1, 1));
    failed("nobody's").await.problem(503, "unavailable");
    let less = named("refund_failed", &payment, "t1", PRICE - 1, &payment);
    till.notify(&less).await.problem(422, "invalid_request");
    let second = format!("{payment}-2");
    // Told twice, also once the second refund is done.
    for is_done in [false, false, true] {
        if is_done {
            till.after(TimeDelta::seconds(2)).await;
            assert_eq!(work.step().await.unwrap(), (1, 1));
        }
        failed(&payment).await.is(204);
        let status = if is_done { "refunded" } else { "refunding" };
        assert_eq!(till.status(1, &order).await, status);
        till.holds().await;
    }
    assert_eq!(asked(&till), [payment.clone(), second.clone()]);
    // The voucher went back with the first refund.
    let mut other = String::new();
    eventually("the voucher is on sale", async || {
        let bought = till.try_buy(2).await;
        bought.status == 201 && {
            other = bought.text_of("order_id").to_owned();
            true
        }
    })
    .await;
    till.pay(2, &other, "t2").await;
    failed(&second).await.is(204);
    let waiting = &till.list("/api/refunds").await[0];
    let told = format!("the refund {second} failed");
    assert_eq!((&waiting["amount"], &waiting["last_error"]), (&json!(PRICE), &json!(told)));
    assert!(waiting["next_attempt_at"].is_string(), "{waiting}");
    assert_eq!((till.holds().await.stock, till.holds().await.life.refunding), (0, 1));
    // A filter by the state has both kinds of it.
    till.admin_step(&other, "refund").await.is(202);
    let refunding = format!("/api/vouchers/{}/orders?status=refunding", till.voucher.id);
    assert_eq!(till.list(&refunding).await.len(), 2);
    // One of them is settled, though nobody could settle it before.
    let said = Program::on(&till.world).says(&["orders", "settle", &order, "--yes"]).await;
    assert_eq!(said, format!("order {order} is refunded: settled outside the gateway\n"));
    let expected = [
        "paid",
        "refund_begun",
        "refunded",
        "refund_failed",
        "refunded",
        "refund_failed",
        "settled_outside",
    ];
    assert_eq!(steps(&till, &order).await, expected);
    assert_eq!(work.step().await.unwrap(), (1, 1));
    assert_eq!(till.status(2, &other).await, "refunded");
    assert_eq!((asked(&till).len(), till.holds().await.stock), (3, 1));
}

/// The gateway says that it failed before it says that it took it.
#[tokio::test]
async fn a_refund_that_fails_while_it_is_under_way_waits_for_another_name() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.pay(1, &order, "t1").await;
    till.admin_step(&order, "refund").await.is(202);
    for _ in 0..2 {
        till.notify(&named("refund_failed", &payment, "t1", PRICE, &payment)).await.is(204);
    }
    let pool = till.world.database.pool();
    let finished = refunds::finish(pool, payment.parse().unwrap(), &payment, PRICE).await;
    assert_eq!(finished.unwrap().as_str(), "repeated");
    assert_eq!(till.status(1, &order).await, "refunding");
    till.after(TimeDelta::seconds(2)).await;
    assert_eq!(till.gateway_work().await.step().await.unwrap(), (1, 1));
    assert_eq!(asked(&till), [format!("{payment}-2")]);
    assert_eq!(till.status(1, &order).await, "refunded");
    till.holds().await;
}

#[tokio::test]
async fn money_that_never_paid_an_order_is_asked_for_again_without_a_step() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.own_payment(1, &order).await;
    till.own_step(1, &order, "cancellation").await.is(200);
    let work = till.gateway_work().await;
    work.step().await.unwrap();
    till.notify(&succeeded(&payment, "t1", PRICE)).await.is(204);
    assert_eq!(work.step().await.unwrap(), (1, 1));
    till.notify(&named("refund_failed", &payment, "t1", PRICE, &payment)).await.is(204);
    assert_eq!(steps(&till, &order).await, ["cancelled"]);
    assert_eq!(till.list("/api/refunds").await[0]["reason"], "order_cancelled");
    till.holds().await;
    till.after(TimeDelta::seconds(2)).await;
    assert_eq!(work.step().await.unwrap(), (1, 1));
    assert_eq!(asked(&till), [payment.clone(), format!("{payment}-2")]);
    till.holds().await;
}

/// What is charged back of an order, in which state it is then, and what the gateway says when we have won. The money is
/// the order's again, whichever way it is told.
#[tokio::test]
async fn a_charge_back_that_is_won_is_shown_and_nothing_is_sent_to_the_buyer() {
    let won = |payment: &str| notice("charge_back_won", payment, "t1", PRICE);
    let new_money = |payment: &str| succeeded(payment, "t2", PRICE);
    let part_won = |payment: &str| named("charge_back_won", payment, "t1", 3_000, "d1");
    type Told<'a> = &'a dyn Fn(&str) -> Value;
    let tellings: [(bool, i64, Told<'_>); 6] = [
        (true, PRICE, &won),
        (true, PRICE, &new_money),
        (false, PRICE, &won),
        (false, PRICE, &new_money),
        (true, 3_000, &part_won),
        (false, 3_000, &part_won),
    ];
    for (is_used, amount, told) in tellings {
        let till = Till::open(2).await;
        let order = till.buy(1).await;
        let payment = till.pay(1, &order, "t1").await;
        if is_used {
            till.admin_step(&order, "redemption").await.is(200);
        }
        let shown = async || {
            let order = till.get_as(1, &format!("/api/orders/{order}")).await.is(200).body.clone();
            let is_charged_back = order["charged_back_at"].is_string();
            (order["status"].clone(), is_charged_back, order["returned_amount"].clone())
        };
        let is_whole = amount == PRICE;
        let status = match (is_used, is_whole) {
            (true, _) => "used",
            (false, true) => "refunded",
            (false, false) => "paid",
        };
        for _ in 0..2 {
            till.notify(&named("charged_back", &payment, "t1", amount, "d1")).await.is(204);
            assert_eq!(shown().await, (json!(status), is_used && is_whole, json!(amount)));
        }
        till.holds().await;
        for _ in 0..2 {
            till.notify(&told(&payment)).await.is(204);
            assert_eq!(shown().await, (json!(status), false, json!(0)));
            assert_eq!(till.gateway_work().await.step().await.unwrap(), (0, 0));
            let audit = till.holds().await;
            assert_eq!(audit.life.money_kept, PRICE, "{audit:?}");
            assert_eq!(audit.life.money_in, PRICE + audit.life.money_returned, "{audit:?}");
        }
        let steps = steps(&till, &order).await;
        let is_logged = steps.iter().any(|step| step == "charge_back_won");
        assert_eq!(is_logged, is_whole, "{steps:?}");
        assert!(till.list("/api/refunds").await.is_empty());
    }
}

/// Money of an order that is not being refunded: in the list, in its body, by the doctor, and in the audit.
#[tokio::test]
async fn money_that_went_back_in_part_is_shown_until_all_of_it_went_back() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.pay(1, &order, "t1").await;
    till.admin_step(&order, "redemption").await.is(200);
    let pool = till.world.database.pool();
    for (name, amount, undone) in [("r1", 3_000, false), ("r2", 1_000, true), ("r3", 4_000, false)]
    {
        till.notify(&named("refunded", &payment, "t1", amount, name)).await.is(204);
        if undone {
            till.notify(&named("refund_failed", &payment, "t1", amount, name)).await.is(204);
        }
    }
    let listed = till.list("/api/refunds").await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    let of = |member: &str| listed[0][member].clone();
    assert_eq!(
        [
            of("payment_id"),
            of("amount"),
            of("returned_amount"),
            of("reason"),
            of("next_attempt_at")
        ],
        [json!(payment), json!(PRICE), json!(7_000), json!("refunded_by_gateway"), Value::Null]
    );
    let returns = of("returns");
    let returns = returns.as_array().unwrap().iter();
    let returns: Vec<_> = returns
        .map(|it| (it["amount"].as_i64().unwrap(), it["by"].clone(), it["undone_at"].is_string()))
        .collect();
    let by = json!("gateway");
    let expected = [(3_000, by.clone(), false), (1_000, by.clone(), true), (4_000, by, false)];
    assert_eq!(returns, expected);
    assert_eq!(refunds::count_partly_returned(pool).await.unwrap(), 1);
    let said = Program::on(&till.world).run(&["doctor"]).await;
    assert!(said.stdout.contains("a part of 1 went back"), "{said:?}");
    let audit = till.holds().await;
    let money = (audit.life.money_in, audit.life.money_returned, audit.life.money_kept);
    assert_eq!(money, (PRICE, 7_000, PRICE - 7_000));
    let body = till.get_as(1, &format!("/api/orders/{order}")).await;
    assert_eq!(body.body["returned_amount"], 7_000);
    till.notify(&notice("refunded", &payment, "t1", PRICE)).await.is(204);
    assert!(till.list("/api/refunds").await.is_empty());
    assert_eq!(refunds::count_partly_returned(pool).await.unwrap(), 0);
    assert_eq!(till.holds().await.life.money_kept, 0);
}

/// The gateway does not read the answer, perhaps: an operator finds the reason in the log.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_of_the_gateway_is_in_the_log_with_its_reason() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.pay(1, &order, "t1").await;
    let program = Program::on(&till.world)
        .with("SECKILL_PAYMENTS", "http")
        .with("SECKILL_PAYMENTS_URL", "http://127.0.0.1:9/pay")
        .with("SECKILL_PAYMENTS_SECRET", &till.world.secret);
    let node = Node::serve(&program, &[]).await;
    let client = Client::at(node.address);
    let told = async |body: &Value| {
        let body = serde_json::to_vec(body).unwrap();
        let signature = till.world.payment_key().sign(1, &body);
        client.send(client.noticing(&body, &signature)).await
    };
    let failed = json!({ "payment_id": payment, "status": "failed" });
    told(&failed).await.is(204);
    told(&notice("refunded", &payment, "t1", PRICE)).await.is(204);
    for (refused, why) in [
        (failed, "if the refund failed, send `refund_failed`"),
        (notice("refund_failed", &payment, "t1", PRICE), "is named in return_id"),
        (notice("charged_back", &payment, "t1", PRICE + 1), "more than what is left"),
        (json!({ "payment_id": payment, "status": "gone" }), "unknown variant `gone`"),
        (json!({ "payment_id": payment, "status": "refunded" }), "money has a transaction_id"),
    ] {
        let answer = told(&refused).await;
        let answer = answer.problem(422, "invalid_request");
        assert!(answer.text_of("detail").contains(why), "{answer:?}");
        eventually("the log says why", async || {
            let log = node.log();
            log.lines().any(|line| {
                line.contains("is refused") && line.contains(why) && line.contains(&payment)
            })
        })
        .await;
    }
    assert_eq!(till.status(1, &order).await, "refunded");
    till.holds().await;
}

#[tokio::test]
async fn money_of_nobodys_that_did_not_go_back_after_all_waits_for_somebody_again() {
    let till = Till::open(1).await;
    let pool = till.world.database.pool();
    for (status, open) in [("succeeded", 1), ("refunded", 0), ("refund_failed", 1), ("refunded", 0)]
    {
        till.notify(&named(status, "nobody's", "t1", PRICE, "r1")).await.is(204);
        assert_eq!(unmatched_payments::count_open(pool).await.unwrap(), open, "{status}");
    }
}
