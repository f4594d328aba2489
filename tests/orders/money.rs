//! Money that goes back a second time or not at all, payments that nobody wants any more, and a sale that is cancelled
//! as a whole: what is shown, and what the servers and the commands do of it.

use chrono::TimeDelta;
use futures_util::future::join_all;
use seckill::model::{Clock, VoucherId};
use seckill::orders::winding_up::{WindingUp, WoundUp};
use seckill::purchase::audit;
use seckill::store::messages::{self, Channel};
use seckill::store::{cancelled_sales, unmatched_payments};
use serde_json::{Value, json};
use sqlx::Connection;

use testkit::program::Program;
use testkit::shop::till::{ADMINISTRATOR, Till, notice, succeeded};
use testkit::shop::world::PRICE;
use testkit::wait::eventually;

#[tokio::test]
async fn money_that_goes_back_a_second_time_is_shown_and_the_audit_names_it() {
    // All of it, or a part.
    for charged_back in [PRICE, PRICE / 2] {
        let till = Till::open(1).await;
        let order = till.buy(1).await;
        let payment = till.pay(1, &order, "t1").await;
        for (status, amount) in [("refunded", PRICE), ("charged_back", charged_back)] {
            till.holds().await;
            till.notify(&notice(status, &payment, "t1", amount)).await.is(204);
        }
        let shown = till.list("/api/refunds").await;
        assert!(shown.len() == 1 && shown[0]["given_back_twice_at"].is_string(), "{shown:?}");
        till.is_broken(&format!("no_lost_payment: 1 payments went back twice: {order}")).await;
    }
}

/// A part that has a name counts once, also if it is told twice.
#[tokio::test]
async fn what_went_back_in_parts_is_never_asked_for_again() {
    let till = Till::open(2).await;
    let orders = [till.buy(1).await, till.buy(2).await];
    let payments = [till.pay(1, &orders[0], "t1").await, till.pay(2, &orders[1], "t2").await];
    let part = |payment: usize, transaction: &str, amount: i64, name: Option<&str>| {
        let mut part = notice("charged_back", &payments[payment], transaction, amount);
        part["return_id"] = json!(name);
        part
    };
    let told = async |part: &Value| till.notify(part).await;
    for named in [part(0, "t1", 3_000, Some("r1")), part(0, "t1", 3_000, Some("r1"))] {
        told(&named).await.is(204);
    }
    told(&part(0, "t1", 5_001, None)).await.problem(422, "invalid_request");
    told(&part(0, "t1", 1, Some(""))).await.problem(422, "invalid_request");
    // The gateway has not told of this money yet.
    told(&part(0, "t9", 1, Some("r2"))).await.is(204);
    assert_eq!(till.status(1, &orders[0]).await, "paid");
    till.holds().await;
    till.admin_step(&orders[0], "refund").await.is(202);
    let listed = &till.list("/api/refunds").await[0];
    assert_eq!([&listed["amount"], &listed["returned_amount"]], [PRICE - 3_000, 3_000]);
    let returns = &listed["returns"];
    let expected = json!({ "amount": 3_000, "at": returns[0]["at"], "by": "charge_back", "return_id": "r1", "undone_at": null });
    assert_eq!(returns, &json!([expected]));
    // Another part, while the refund waits.
    told(&part(0, "t1", 1_000, None)).await.is(204);
    assert_eq!(till.gateway_work().await.step().await.unwrap(), (1, 1));
    let asked =
        till.gateway().refunded.lock().unwrap().iter().map(|it| it.amount).collect::<Vec<_>>();
    assert_eq!(asked, [PRICE - 4_000]);
    assert_eq!(till.status(1, &orders[0]).await, "refunded");
    // Two halves are the whole.
    till.admin_step(&orders[1], "redemption").await.is(200);
    for is_charged_back in [false, true] {
        told(&part(1, "t2", PRICE / 2, None)).await.is(204);
        let order = till.get_as(2, &format!("/api/orders/{}", orders[1])).await;
        assert_eq!(order.body["charged_back_at"].is_string(), is_charged_back, "{order:?}");
    }
    assert_eq!(till.gateway_work().await.step().await.unwrap(), (0, 0));
    till.holds().await;
}

#[tokio::test]
async fn refunds_are_listed_page_by_page_also_if_one_is_done_meanwhile() {
    let till = Till::open(3).await;
    let mut payments = Vec::new();
    for user in 1..=3 {
        let order = till.buy(user).await;
        payments.push(till.pay(user, &order, &format!("t{user}")).await);
        if user > 1 {
            till.admin_step(&order, "refund").await.is(202);
        }
    }
    let [twice, first, second] = &payments[..] else { unreachable!("three payments") };
    for status in ["refunded", "charged_back"] {
        till.notify(&notice(status, twice, "t1", PRICE)).await.is(204);
    }
    let expected = [vec![twice.clone()], vec![first.clone()], vec![second.clone()], Vec::new()];
    assert_eq!(till.pages(ADMINISTRATOR, "/api/refunds?limit=1", "payment_id").await, expected);
    till.notify(&notice("refunded", first, "t2", PRICE)).await.is(204);
    let after = format!("/api/refunds?after={first}");
    let rest = [vec![second.clone()]];
    assert_eq!(till.pages(ADMINISTRATOR, &after, "payment_id").await, rest);
    for wrong in ["limit=101", "after=7", "before=7"] {
        let answer = till.as_admin("GET", &format!("/api/refunds?{wrong}")).await;
        answer.problem(422, "invalid_request");
    }
}

#[tokio::test]
async fn money_of_nobodys_is_listed_page_by_page_and_resolved_once() {
    let till = Till::open(1).await;
    for transaction in ["t1", "t2", "t3"] {
        till.notify(&succeeded("nobody's", transaction, 5)).await.is(204);
    }
    let path = "/api/payments/unmatched";
    let pages = till.pages(ADMINISTRATOR, &format!("{path}?limit=2"), "transaction_id").await;
    assert_eq!(pages, [vec!["t3", "t2"], vec!["t1"]]);
    let shown = till.list(path).await;
    let resolve = format!("{path}/{}/resolution", shown[0]["id"].as_str().unwrap());
    till.call_as(1, "POST", &resolve).await.problem(403, "forbidden");
    let resolved = till.as_admin("POST", &resolve).await.is(200).body.clone();
    assert!(resolved["resolved_at"].is_string(), "{resolved}");
    assert_eq!(resolved["resolved_by"], ADMINISTRATOR.to_string());
    assert_eq!(till.as_admin("POST", &resolve).await.is(200).body, resolved);
    assert_eq!(till.list(path).await[0], resolved);
    let pool = till.world.database.pool();
    assert_eq!(unmatched_payments::count_open(pool).await.unwrap(), 2);
    let unknown = format!("{path}/777/resolution");
    till.as_admin("POST", &unknown).await.problem(404, "not_found");
}

#[tokio::test]
async fn a_refund_that_was_claimed_before_the_clock_went_back_does_not_rest_as_long() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    till.pay(1, &order, "t1").await;
    let (work, now) = (till.gateway_work().await, till.world.clock.now());
    till.gateway().set_away(true);
    till.after(TimeDelta::days(1)).await;
    till.admin_step(&order, "refund").await.is(202);
    assert_eq!(work.step().await.unwrap(), (1, 0));
    assert_eq!(work.step().await.unwrap(), (0, 0));
    till.gateway().set_away(false);
    // A claim is due when it ends; one that ends so late that nobody can have made it is due, too.
    let pool = till.world.database.pool();
    for (ends_in_s, is_due) in [(0, true), (1, false), (600, false), (601, true)] {
        let ends =
            format!("update messages set next_attempt_at = sale_time() + interval '{ends_in_s} s'");
        till.sql(&ends).await;
        let now = till.world.clock.now();
        let due = messages::list_due(pool, Channel::Gateway, now, 9).await.unwrap();
        assert_eq!(!due.is_empty(), is_due, "{ends_in_s}");
    }
    till.world.set_time(now).await;
    assert_eq!(work.step().await.unwrap(), (1, 1));
    assert_eq!(till.status(1, &order).await, "refunded");
}

#[tokio::test]
async fn a_refund_that_the_gateway_never_takes_is_settled_outside_it() {
    let till = Till::open(2).await;
    let orders = [till.buy(1).await, till.buy(2).await];
    let program = Program::on(&till.world);
    let settle = ["orders", "settle", orders[1].as_str(), "--yes"];
    till.pay(2, &orders[1], "t2").await;
    program.run(&settle).await.refused(1, "it is paid");
    till.pay(1, &orders[0], "t1").await;
    till.admin_step(&orders[0], "refund").await.is(202);
    till.own_step(1, &orders[0], "settlement").await.problem(403, "forbidden");
    till.gateway().set_away(true);
    till.gateway_work().await.step().await.unwrap();
    till.after(TimeDelta::hours(1)).await;
    let settled = till.admin_step(&orders[0], "settlement").await;
    assert_eq!(settled.is(200).text_of("status"), "refunded");
    let steps = till.list(&format!("/api/orders/{}/steps", orders[0])).await;
    let steps: Value = steps.iter().map(|it| json!([it["step"], it["actor"]])).collect();
    let by = "administrator";
    let expected = json!([["paid", "gateway"], ["refund_begun", by], ["settled_outside", by]]);
    assert_eq!(steps, expected);
    till.admin_step(&orders[1], "refund").await.is(202);
    program.run(&settle[..3]).await.refused(2, "would be refunded for good");
    assert_eq!(till.status(2, &orders[1]).await, "refunding");
    let said = program.says(&settle).await;
    assert_eq!(said, format!("order {} is refunded: settled outside the gateway\n", orders[1]));
    till.holds().await;
}

#[tokio::test]
async fn the_gateway_is_told_of_a_cancellation_until_it_takes_it_or_for_the_thirteenth_time() {
    let till = Till::open(1).await;
    let work = till.gateway_work().await;
    let cancelled = async |user| {
        let order = till.buy(user).await;
        let payment = till.own_payment(user, &order).await;
        till.own_step(user, &order, "cancellation").await.is(200);
        payment
    };
    let payment = cancelled(1).await;
    till.gateway().set_away(true);
    assert_eq!(work.step().await.unwrap(), (1, 0));
    assert_eq!(work.step().await.unwrap(), (0, 0));
    till.gateway().set_away(false);
    till.after(TimeDelta::seconds(2)).await;
    assert_eq!(work.step().await.unwrap(), (1, 1));
    assert_eq!(work.step().await.unwrap(), (0, 0));
    assert_eq!(*till.gateway().cancelled.lock().unwrap(), [payment]);
    cancelled(2).await;
    till.gateway().set_away(true);
    let mut tries = 0;
    for _ in 0..40 {
        tries += work.step().await.unwrap().0;
        till.after(TimeDelta::minutes(7)).await;
    }
    assert_eq!(tries, 13);
    till.holds().await;
}

#[tokio::test]
async fn one_transaction_pays_for_one_order_also_where_two_vouchers_are_named() {
    let till = Till::open(1).await;
    let other = till.world.priced_voucher(1).await;
    let first = till.buy(1).await;
    let second = till.api.buy(2, other.id).await.text_of("order_id").to_owned();
    let payments = [till.pay(1, &first, "t1").await, till.pay(2, &second, "t1").await];
    assert_eq!(till.status(2, &second).await, "unpaid");
    // An administrator sees what the gateway says of the second one.
    let unmatched = till.list("/api/payments/unmatched").await;
    assert!(unmatched.len() == 1 && unmatched[0]["payment_id"] == payments[1], "{unmatched:?}");
    till.holds().await;
    // Many times at the same moment.
    let notices = (0..20).map(|number| succeeded(&payments[number % 2], "t2", PRICE));
    let said = join_all(notices.map(async |it| till.notify(&it).await.status)).await;
    assert!(said.iter().all(|status| [204, 503].contains(status)), "{said:?}");
    till.holds().await;
    // A notice that names the other voucher's order gives nothing back, and the audit says so.
    till.notify(&notice("charged_back", &payments[1], "t1", PRICE)).await.is(204);
    let audits = audit::run(till.world.database.pool(), None).await.unwrap();
    let violations: Vec<_> = audits.iter().flat_map(|audit| &audit.violations).collect();
    assert_eq!(violations.len(), 1, "{violations:?}");
    let what = &violations[0].what;
    assert!(what.contains("as the gateway says") && what.contains(&first), "{what}");
}

#[tokio::test]
async fn an_id_that_orders_of_two_vouchers_have_asks_for_the_voucher() {
    let till = Till::open(1).await;
    let other = till.world.voucher(1).await;
    for voucher in [till.voucher.id, other.id] {
        till.sql(&format!("select sell({voucher}, array[77], array[1], array[sale_time()])")).await;
    }
    let ids = json!([till.voucher.id, other.id]);
    let refused = till.admin_step("77", "refund").await;
    assert_eq!(refused.problem(409, "order_ambiguous").body["voucher_ids"], ids);
    till.own_step(1, "77", "payments").await.problem(409, "order_ambiguous");
    till.own_step(1, "77", "cancellation").await.problem(409, "order_ambiguous");
    till.get_as(1, "/api/orders/77").await.problem(409, "order_ambiguous");
    Program::on(&till.world).run(&["orders", "settle", "77"]).await.refused(1, "--voucher");
    till.admin_step("77", "refund?voucher_id=x").await.problem(422, "invalid_request");
    till.admin_step("77", "refund?voucher_id=4711").await.problem(404, "order_not_found");
    till.admin_step("77", &format!("refund?voucher_id={}", other.id)).await.is(202);
    till.own_step(1, "77", &format!("payments?voucher_id={}", till.voucher.id)).await.is(201);
}

/// The gateway fails: each payment is announced once, however often its buyer presses, and then again after a pause.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_fails_gets_one_message_of_a_payment_at_a_time() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    till.gateway().set_away(true);
    for round in 1..=3 {
        let answers = join_all((0..8).map(|_| till.own_step(1, &order, "payments"))).await;
        for answer in &answers {
            answer.problem(503, "unavailable");
            assert!(answer.header("retry-after").is_some(), "{answer:?}");
        }
        assert_eq!(till.gateway().asked(), round, "one message a pause");
        // The pause doubles from a second on, give or take a quarter.
        till.after(TimeDelta::seconds(6)).await;
    }
    till.gateway().set_away(false);
    till.own_step(1, &order, "payments").await.is(201);
    till.own_step(1, &order, "payments").await.is(201);
    assert_eq!(till.gateway().asked(), 4);
}

#[tokio::test]
async fn a_sale_that_is_cancelled_ends_its_orders_and_begins_no_more() {
    let till = Till::open(10).await;
    let orders = join_all((1..=4).map(|user| till.buy(user))).await;
    till.pay(2, &orders[1], "t2").await;
    till.pay(3, &orders[2], "t3").await;
    till.admin_step(&orders[2], "redemption").await.is(200);
    let voucher = till.voucher.id.to_string();
    let cancel = ["voucher", "cancel", voucher.as_str()];
    let program = Program::on(&till.world);
    program.run(&cancel).await.refused(2, "2 unpaid orders of voucher");
    assert_eq!(till.status(4, &orders[3]).await, "unpaid");
    let unknown = ["voucher", "cancel", "4711", "--yes"];
    program.run(&unknown).await.refused(1, "there is no voucher 4711");
    let cancel = ["voucher", "cancel", voucher.as_str(), "--yes"];
    let said = program.says(&cancel).await;
    for part in [
        "cancelled 2 unpaid orders and began 1 refunds",
        "0 orders are refunded, 1 wait for the payment gateway, 1 were used",
    ] {
        assert!(said.contains(part), "{said}");
    }
    // Again: nothing is left.
    assert!(program.says(&cancel).await.contains("cancelled 0 unpaid orders and began 0 refunds"));
    eventually("the server knows", async || till.try_buy(5).await.body["code"] == "sale_ended")
        .await;
    program.run(&["voucher", "resume", &voucher]).await.refused(1, "was cancelled for good");
    let audit = till.holds().await;
    assert_eq!((audit.orders, audit.stock, audit.life.used), (2, 8, 1));
}

/// The command dies after it has begun; a sale that never began is over.
#[tokio::test]
async fn servers_go_on_where_the_cancelling_of_a_sale_stopped() {
    let till = Till::open(250).await;
    let pool = till.world.database.pool();
    till.sell_many(150).await;
    assert!(cancelled_sales::cancel(pool, till.voucher.id).await.unwrap());
    assert!(!cancelled_sales::cancel(pool, VoucherId::new(4711).unwrap()).await.unwrap());
    let winding_up = WindingUp::new(till.world.database.clone());
    let ended = async || winding_up.step(till.voucher.id).await.unwrap();
    assert_eq!(ended().await, WoundUp { cancelled: 100, refunded: 0, is_complete: false });
    assert_eq!(cancelled_sales::find(pool, &[]).await.unwrap(), Some(till.voucher.id));
    assert_eq!(ended().await, WoundUp { cancelled: 50, refunded: 0, is_complete: false });
    assert!(ended().await.is_complete);
    assert_eq!(cancelled_sales::find(pool, &[]).await.unwrap(), None);
    till.holds().await;

    let begin = till.world.clock.now() + TimeDelta::hours(1);
    let upcoming = till.world.voucher_between(5, begin, begin + TimeDelta::hours(1)).await;
    assert!(cancelled_sales::cancel(pool, upcoming.id).await.unwrap());
    eventually("the sale is over", async || {
        let found = till.get(&format!("/api/vouchers/{}", upcoming.id)).await;
        found.is(200).text_of("status") == "ended"
    })
    .await;
}

/// Another session holds one of the orders: the others are ended, and that one in the next step.
#[tokio::test]
async fn an_order_that_is_held_keeps_no_other_order_of_a_cancelled_sale_from_its_end() {
    let till = Till::open(3).await;
    let orders = join_all((1..=3).map(|number| till.buy(number))).await;
    let pool = till.world.database.pool();
    assert!(cancelled_sales::cancel(pool, till.voucher.id).await.unwrap());
    let hold = format!("select from orders where id = {} for update", orders[0]);
    let holder = till.world.begin(&hold).await;
    let winding_up = WindingUp::new(till.world.database.clone());
    assert_eq!(winding_up.step(till.voucher.id).await.unwrap().cancelled, 2);
    assert!(winding_up.step(till.voucher.id).await.is_err());
    holder.close().await.unwrap();
    assert_eq!(winding_up.step(till.voucher.id).await.unwrap().cancelled, 1);
    assert!(winding_up.step(till.voucher.id).await.unwrap().is_complete);
    till.holds().await;
}
