//! What the API returns of an order, and what the payment gateway says, right or wrong. What each step does is in
//! `life_model`.

use chrono::TimeDelta;
use futures_util::future::join_all;
use seckill::model::Clock;
use seckill::orders::ASK_WITHIN;
use serde_json::{Value, json};
use sqlx::Connection;

use testkit::program::Program;
use testkit::shop::api_client::Api;
use testkit::shop::till::{ADMINISTRATOR, Till, notice, succeeded};
use testkit::shop::world::{PRICE, World};
use testkit::wait::eventually;

#[tokio::test]
async fn what_is_returned_of_an_order_says_its_price_where_to_pay_and_when_it_was_used() {
    let till = Till::open(1).await;
    let bought = till.try_buy(1).await;
    assert_eq!((&bought.body["status"], &bought.body["amount"]), (&json!("unpaid"), &json!(PRICE)));
    assert_eq!(bought.text_of("pay_by"), "2026-11-11T00:15:00Z");
    let order = bought.text_of("order_id");
    let id = format!("{}.{order}.1", till.voucher.id);
    let expected = json!({
        "payment_id": id, "order_id": order, "amount": PRICE, "pay_by": "2026-11-11T00:15:00Z",
        "pay_url": format!("https://pay.example/{id}"),
    });
    assert_eq!(till.own_step(1, order, "payments").await.is(201).body, expected);
    till.notify(&succeeded(&id, "t1", PRICE)).await.is(204);
    assert!(till.admin_step(order, "redemption").await.is(200).body["used_at"].is_string());
    let audit = till.holds().await;
    assert_eq!((audit.life.paid, audit.life.payments, audit.stock), (1, 1, 0));
}

#[tokio::test]
async fn nobody_touches_the_order_of_another() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    for step in ["payments", "cancellation"] {
        till.own_step(2, &order, step).await.problem(404, "order_not_found");
        till.own_step(1, "77", step).await.problem(404, "order_not_found");
        till.step("", &order, step).await.problem(401, "unauthenticated");
    }
    for step in ["refund", "redemption", "settlement"] {
        till.own_step(1, &order, step).await.problem(403, "forbidden");
        till.admin_step("77", step).await.problem(404, "order_not_found");
    }
    assert_eq!(till.status(1, &order).await, "unpaid");
}

#[tokio::test]
async fn more_overdue_orders_than_one_step_takes_are_cancelled_in_the_next_and_a_held_row_delays_no_other()
 {
    let till = Till::open(3_000).await;
    let other = till.world.priced_voucher(1).await;
    till.sell_many(1_001).await;
    till.after(TimeDelta::minutes(1)).await;
    till.api.buy(1, other.id).await.is(201);
    till.after(TimeDelta::hours(1)).await;
    let mut expiry = till.expiry(ASK_WITHIN).await;
    // A session holds the row of the sale whose thousand orders are due first.
    let holder = till.hold_the_sale().await;
    assert!(expiry.step().await.is_err());
    assert_eq!(expiry.step().await.unwrap(), (1, 1));
    holder.close().await.unwrap();
    assert_eq!(expiry.step().await.unwrap(), (1_000, 1_000));
    assert_eq!(expiry.step().await.unwrap(), (1, 1));
    let audits = till.world.audits_hold().await;
    assert!(audits.iter().all(|audit| audit.orders == 0), "{audits:?}");
}

#[tokio::test]
async fn what_the_gateway_says_wrongly_changes_nothing() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.own_payment(1, &order).await;
    let good = serde_json::to_vec(&succeeded(&payment, "t1", PRICE)).unwrap();
    let key = till.world.payment_key();
    for signature in
        ["", "t=1,v1=00", &key.sign(1, b"{}"), &key.sign(1, &good).replace("t=1", "t=2")]
    {
        till.send(till.noticing(&good, signature)).await.problem(403, "forbidden");
    }
    let unsigned = till.request("POST", "/api/payments/notifications").body(good);
    till.send(unsigned).await.problem(403, "forbidden");
    for wrong in [
        json!([]),
        json!({}),
        json!({ "payment_id": payment, "status": "done" }),
        json!({ "payment_id": payment, "status": "succeeded" }),
        succeeded(&payment, "", PRICE),
        succeeded(&payment, &"x".repeat(201), PRICE),
        succeeded(&payment, "t\0", PRICE),
        succeeded(&payment, "t1", 0),
        succeeded(&payment, "t1", -PRICE),
        json!({ "payment_id": payment, "status": "succeeded", "transaction_id": "t1", "amount": 80.5 }),
        json!({ "payment_id": payment, "status": "succeeded", "transaction_id": "t1", "amount": 1e30 }),
        succeeded("", "t1", PRICE),
        json!({ "payment_id": payment, "status": "refunded" }),
        json!({ "payment_id": payment, "status": "refunded", "amount": PRICE }),
        notice("charged_back", &payment, "t1", 0),
        notice("charged_back", &payment, "t1", -PRICE),
    ] {
        till.notify(&wrong).await.problem(422, "invalid_request");
    }
    let large = vec![b' '; 10 * 1024 * 1024];
    let large = till.noticing(&large, &key.sign(1, &large));
    till.send(large).await.problem(413, "invalid_request");
    assert_eq!(till.status(1, &order).await, "unpaid");
}

#[tokio::test]
async fn money_for_a_payment_that_is_not_ours_is_kept_and_shown() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.pay(1, &order, "t1").await;
    let unknown = format!("{}.{order}.9", till.voucher.id);
    let unknown = [("1.2.3", 5), ("1.2.4", 5), ("1.2.4", 6), (&unknown, 5), ("no payment", 5)];
    for (payment, amount) in unknown.iter().chain(&unknown) {
        till.notify(&succeeded(payment, "t9", *amount)).await.is(204);
        till.notify(&json!({ "payment_id": payment, "status": "failed" })).await.is(204);
    }
    till.notify(&notice("refunded", "1.2.4", "t9", 6)).await.is(204);
    let shown = till.list("/api/payments/unmatched").await;
    assert_eq!(shown.len(), unknown.len(), "{shown:?}");
    for (payment, amount) in unknown {
        let is_it = |it: &&Value| it["payment_id"] == payment && it["amount"] == amount;
        let kept = shown.iter().find(is_it).unwrap_or_else(|| panic!("{payment}: {shown:?}"));
        assert_eq!(kept["returned_at"].is_string(), amount == 6, "{kept}");
    }
    for path in ["/api/payments/unmatched", "/api/refunds"] {
        till.get_as(1, path).await.problem(403, "forbidden");
    }
    till.holds().await;
    // The order is gone, as nothing of ours does it: money for its payment goes back.
    let gone = "delete from orders; delete from order_steps; update seckill_vouchers set stock = 1";
    till.sql(gone).await;
    till.notify(&succeeded(&payment, "t2", PRICE)).await.is(204);
    assert_eq!(till.list("/api/refunds").await[0]["reason"], "order_missing");
}

#[tokio::test]
async fn a_gateway_that_is_away_for_an_hour_loses_nothing() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    till.pay(1, &order, "t1").await;
    till.gateway().set_away(true);
    till.admin_step(&order, "refund").await.is(202);
    let refunds = till.gateway_work().await;
    let begin = till.world.clock.now();
    let mut tries = 0;
    while till.world.clock.now() < begin + TimeDelta::hours(1) {
        tries += refunds.step().await.unwrap().0;
        till.after(TimeDelta::seconds(30)).await;
    }
    // It was asked often at first, and then about every five minutes.
    assert!((12..30).contains(&tries), "{tries}");
    let waiting = till.list("/api/refunds").await;
    assert_eq!(waiting[0]["attempts"], tries);
    assert_eq!(waiting[0]["last_error"], "the payment gateway: it is away");
    assert_eq!(till.status(1, &order).await, "refunding");
    till.holds().await;
    till.gateway().set_away(false);
    till.after(TimeDelta::minutes(7)).await;
    assert_eq!(refunds.step().await.unwrap(), (1, 1));
    assert_eq!(refunds.step().await.unwrap(), (0, 0));
    assert_eq!(till.gateway().refunded.lock().unwrap().len(), 1);
    assert_eq!(till.status(1, &order).await, "refunded");
    let audit = till.holds().await;
    assert_eq!((audit.life.refunded, audit.life.refunds, audit.orders), (1, 1, 0));
}

/// As many payments as may be begun at once wait for a gateway that says nothing. One more is refused, and
/// whatever is no payment goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_silent_holds_up_no_other_request() {
    let till = Till::open(70).await;
    till.world.users(70).await;
    let orders = join_all((1..=66).map(|number| till.buy(number))).await;
    till.gateway().fall_silent();
    let pay =
        async |number: i64| till.own_step(number, &orders[number as usize - 1], "payments").await;
    // A busy machine may have no connection for one of so many at once: it asks again.
    let asks_until_it_waits = async |number| {
        while till.gateway().asked() < 64 {
            let answer = pay(number).await;
            assert_eq!(answer.status, 503, "{answer:?}");
        }
    };
    let waiting = join_all((1..=64).map(asks_until_it_waits));
    let others = async {
        eventually("64 payments wait for the gateway", async || till.gateway().asked() == 64).await;
        pay(65).await.problem(503, "unavailable");
        till.get_as(1, "/api/me").await.is(200);
        assert_eq!(till.status(1, &orders[0]).await, "unpaid");
        till.own_step(66, &orders[65], "cancellation").await.is(200);
        till.try_buy(67).await.is(201);
    };
    tokio::select! {
        _ = waiting => panic!("the gateway is silent"),
        () = others => {}
    }
}

/// Nothing was done of a step that waits in vain for the row of its voucher, and its answer says no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_waits_in_vain_for_a_held_row_is_not_in_doubt_and_its_order_is_read() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let holder = till.hold_the_sale().await;
    let reading = async {
        till.world.until_one_waits().await;
        till.status(1, &order).await
    };
    // One after the other waits for the row, and the others for their turn.
    let cancelling = join_all((0..5).map(|_| till.own_step(1, &order, "cancellation")));
    let (refused, read) = tokio::join!(cancelling, reading);
    assert_eq!(read, "unpaid");
    for answer in refused {
        assert_eq!(answer.problem(503, "unavailable").body.get("detail"), None);
    }
    holder.close().await.unwrap();
    till.own_step(1, &order, "cancellation").await.is(200);
}

#[tokio::test]
async fn without_a_gateway_nobody_can_pay_and_the_answer_says_so() {
    let world = World { payments: None, ..World::new().await };
    world.users(1).await;
    let voucher = world.priced_voucher(1).await;
    let api = Api::of(world).await;
    let bought = api.buy(1, voucher.id).await;
    let answer = api.own_step(1, bought.is(201).text_of("order_id"), "payments").await;
    assert_eq!(answer.problem(503, "unavailable").retry_after_s(), 60);
    assert!(answer.text_of("detail").contains("SECKILL_PAYMENTS"), "{answer:?}");
}

#[tokio::test]
async fn an_administrator_reads_the_orders_of_a_voucher_page_by_page_and_as_csv() {
    let till = Till::open(5).await;
    let orders = [till.buy(1).await, till.buy(2).await, till.buy(3).await];
    till.pay(2, &orders[1], "t1").await;
    till.own_step(3, &orders[2], "cancellation").await.is(200);
    let path = format!("/api/vouchers/{}/orders", till.voucher.id);
    let pages = async |query: String| {
        till.pages(ADMINISTRATOR, &format!("{path}?{query}"), "order_id").await
    };
    let [first, second, third] = orders.clone();
    assert_eq!(pages("limit=2".to_owned()).await, [vec![third, second], vec![first]]);
    for (order, status) in orders.iter().zip(["unpaid", "paid", "cancelled"]) {
        // The address of the next page has the status, too.
        let of_status = pages(format!("status={status}&limit=1")).await;
        assert_eq!(of_status, [vec![order.clone()], Vec::new()]);
    }
    let (voucher, me) = (till.voucher.id.to_string(), till.get_as(2, "/api/me").await);
    let values = [orders[1].as_str(), &voucher, "2", me.text_of("phone")];
    assert!(values[3].starts_with('+'), "{values:?}");
    // Spreadsheets keep 15 digits of a number, and drop a plus sign: a formula whose value is a text keeps all of it. A
    // program reads the value itself, whatever it begins with.
    for (query, format, [before, after]) in
        [("", "csv", ["", ""]), ("?for=spreadsheet", "spreadsheet", ["=\"", "\""])]
    {
        let path = format!("{path}{query}");
        let csv = till.request("GET", &path).bearer_auth(till.admin()).header("accept", "text/csv");
        let csv = till.send(csv).await;
        assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
        let mut reader = csv::Reader::from_reader(csv.text.as_bytes());
        let head = reader.headers().unwrap().iter().take(6).collect::<Vec<_>>().join(",");
        assert_eq!(head, "order_id,voucher_id,user_id,phone,status,amount", "{csv:?}");
        let lines: Vec<_> = reader.records().map(Result::unwrap).collect();
        let expected = values.map(|digits| format!("{before}{digits}{after}"));
        assert_eq!(
            (lines.len(), lines[1].iter().take(4).collect::<Vec<_>>()),
            (3, expected.iter().map(String::as_str).collect())
        );
        assert_eq!([&lines[1][4], &lines[1][5]], ["paid", &format!("{}.00", PRICE / 100)]);
        let exported = ["orders", "export", "--format", format];
        assert_eq!(Program::on(&till.world).says(&exported).await, csv.text);
    }
    let export = ["orders", "export", "--format", "json", "--status", "paid"];
    let exported = Program::on(&till.world).says(&export).await;
    let exported: Value = serde_json::from_str(exported.trim()).unwrap();
    assert_eq!((&exported["status"], &exported["order_id"]), (&json!("paid"), &json!(orders[1])));
    for (wrong, status, code) in [
        (format!("{path}?status=gone"), 422, "invalid_request"),
        (format!("{path}?limit=0"), 422, "invalid_request"),
        (format!("{path}?for=people"), 422, "invalid_request"),
        ("/api/vouchers/77/orders".to_owned(), 404, "voucher_not_found"),
    ] {
        till.as_admin("GET", &wrong).await.problem(status, code);
    }
    till.get_as(1, &path).await.problem(403, "forbidden");
}

#[tokio::test]
async fn the_audit_names_what_is_wrong_with_the_money() {
    let (promise, steps) = ("no_lost_payment", "order_steps");
    for (tamper, promises) in [
        ("delete from payments", &[promise][..]),
        ("update payments set paid_amount = 1", &[promise, promise]),
        ("update orders set status = 4, cancelled_by = 3", &["no_undersell", steps, promise, promise]),
        ("update orders set status = 5", &[steps, promise, promise]),
        ("update orders set status = 1", &["no_stuck_stock", steps, promise, promise]),
        ("update payments set status = 4, reason = 'order_paid'", &[promise, promise]),
        ("insert into refunds (voucher_id, order_id, number, reason, created_at)
          select voucher_id, id, 1, 'x', now() from orders", &[promise, promise, promise]),
        ("insert into refunds (voucher_id, order_id, number, reason, created_at)
          select voucher_id, id, 2, 'x', now() from orders", &[promise, promise]),
        ("update orders set returned_amount = 1", &[promise, promise]),
        ("insert into returns (voucher_id, order_id, transaction_id, number, amount, done_by, returned_at)
          select voucher_id, id, 't1', 1, 1, 3, now() from orders", &[promise, promise]),
        ("drop index payments_one_per_transaction;
          insert into payments (voucher_id, order_id, number, amount, status, transaction_id, paid_amount, created_at)
          select voucher_id, order_id, 2, amount, 4, 't1', paid_amount, now() from payments", &[promise, promise, promise]),
        ("delete from order_steps", &[steps]),
        ("update order_steps set status_before = 4", &[steps]),
        ("update order_steps set status_after = 3", &[steps]),
        ("insert into order_steps select voucher_id, order_id, 2, 'redeemed', 4, 2, 2, null, now() from order_steps",
            &[steps]),
        ("insert into order_steps select voucher_id, order_id, 2, 'redeemed', 2, 3, 2, null, now() from order_steps",
            &[steps]),
    ] {
        let till = Till::open(1).await;
        let order = till.buy(1).await;
        till.pay(1, &order, "t1").await;
        till.after(TimeDelta::hours(1)).await;
        till.holds().await;
        sqlx::raw_sql(tamper).execute(till.world.database.pool()).await.unwrap();
        let audit = till.world.audit().await;
        let named: Vec<String> =
            audit.violations.iter().map(|it| it.promise.to_string()).collect();
        assert_eq!(named, promises, "{tamper}: {audit:?}");
        assert!(audit.violations.iter().any(|it| it.what.contains(&order)), "{audit:?}");
    }
}
