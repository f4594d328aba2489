//! The life of an order by the API: payment, cancellation, expiry, refund, redemption, and what the payment
//! gateway says, right or wrong.

#[allow(unused_imports)]
use crate::worlds::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::TimeDelta;
use futures_util::future::join_all;
use seckill::http::webhook::SIGNATURE;
use seckill::model::{Clock, OrderStatus, Voucher};
use seckill::orders::expiry::Expiry;
use seckill::orders::gateway_work::GatewayWork;
use seckill::orders::{GatewayError, PaymentGateway, PaymentRequest, RefundRequest};
use seckill::store::payments::PaymentId;
use serde_json::{Value, json};
use sqlx::Connection;

use testkit::shop::api_client::{Answer, Api};
use testkit::shop::held_rows::waiting;
use testkit::shop::world::{PRICE, World};
use testkit::wait::eventually;

/// A gateway that keeps what it is asked for, and can be away.
#[derive(Debug, Default)]
pub struct Gateway {
    is_away: Mutex<bool>,
    is_silent: Mutex<bool>,
    /// Payments that it was asked for.
    pub asked: AtomicUsize,
    pub refunded: Mutex<Vec<RefundRequest>>,
    /// Payments that it knows are not wanted any more.
    pub cancelled: Mutex<Vec<String>>,
}

#[async_trait]
impl PaymentGateway for Gateway {
    async fn request_payment(&self, request: PaymentRequest) -> Result<String, GatewayError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if *self.is_silent.lock().unwrap() {
            std::future::pending::<()>().await;
        }
        self.answer()?;
        Ok(format!("https://pay.example/{}", request.payment))
    }

    async fn cancel_payment(&self, payment: PaymentId) -> Result<(), GatewayError> {
        self.answer()?;
        self.cancelled.lock().unwrap().push(payment.to_string());
        Ok(())
    }

    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError> {
        self.answer()?;
        self.refunded.lock().unwrap().push(request.clone());
        Ok(())
    }
}

impl Gateway {
    pub fn set_away(&self, is_away: bool) {
        *self.is_away.lock().unwrap() = is_away;
    }

    fn answer(&self) -> Result<(), GatewayError> {
        match *self.is_away.lock().unwrap() {
            true => Err(GatewayError("it is away".to_owned())),
            false => Ok(()),
        }
    }
}

/// A shop with one sale, and its gateway. User 100 administers.
pub struct Till {
    pub api: Api,
    pub gateway: Arc<Gateway>,
    pub voucher: Voucher,
}

impl Till {
    pub async fn open(stock: i32) -> Self {
        let gateway = Arc::new(Gateway::default());
        let world = World { payments: Some(gateway.clone()), ..World::new().await };
        world.users(5).await;
        world.admin_token(100).await;
        let voucher = world.priced_voucher(stock).await;
        let address = world.serve().await;
        Self { api: Api::at(world, address), gateway, voucher }
    }

    pub fn admin(&self) -> String {
        self.api.world.token(100)
    }

    /// The order that user `number` buys.
    pub async fn buy(&self, number: i64) -> String {
        let bought = self.api.buy(number, self.voucher.id).await;
        bought.is(201).text_of("order_id").to_owned()
    }

    pub async fn step(&self, token: &str, order: &str, step: &str) -> Answer {
        let request = self.api.request("POST", &format!("/api/orders/{order}/{step}"));
        self.api.send(request.bearer_auth(token)).await
    }

    pub async fn own_step(&self, number: i64, order: &str, step: &str) -> Answer {
        self.step(&self.api.world.token(number), order, step).await
    }

    pub async fn status(&self, number: i64, order: &str) -> String {
        let found = self.api.get_as(number, &format!("/api/orders/{order}")).await;
        found.is(200).text_of("status").to_owned()
    }

    /// What the gateway says, signed.
    pub async fn notify(&self, body: &Value) -> Answer {
        let body = serde_json::to_vec(body).unwrap();
        let signature = self.api.world.payment_key().sign(1, &body);
        self.notify_signed(body, &signature).await
    }

    pub async fn notify_signed(&self, body: Vec<u8>, signature: &str) -> Answer {
        let request = self.api.request("POST", "/api/payments/notifications");
        self.api.send(request.header(SIGNATURE, signature).body(body)).await
    }

    /// User `number` pays for `order`, in this transaction.
    pub async fn pay(&self, number: i64, order: &str, transaction: &str) {
        let payment = self.own_step(number, order, "payments").await;
        let payment = payment.is(201).text_of("payment_id").to_owned();
        self.notify(&succeeded(&payment, transaction, PRICE)).await.is(204);
    }

    pub async fn expire(&self) -> i64 {
        let (database, shop) = (self.api.world.database.clone(), self.api.world.shop().await);
        Expiry::new(database, shop).step().await.unwrap().1
    }

    pub async fn gateway_work(&self) -> GatewayWork {
        let (database, shop) = (self.api.world.database.clone(), self.api.world.shop().await);
        GatewayWork::new(database, shop, self.gateway.clone())
    }

    pub async fn as_admin(&self, method: &str, path: &str) -> Answer {
        self.api.send(self.api.request(method, path).bearer_auth(self.admin())).await
    }

    pub async fn holds(&self) -> seckill::purchase::audit::VoucherAudit {
        let audit = self.api.world.audit().await;
        assert!(audit.holds, "{audit:?}");
        audit
    }
}

pub fn succeeded(payment: &str, transaction: &str, amount: i64) -> Value {
    json!({ "payment_id": payment, "status": "succeeded", "transaction_id": transaction, "amount": amount })
}

#[tokio::test]
async fn an_order_is_paid_and_redeemed_once() {
    let till = Till::open(1).await;
    let bought = till.api.buy(1, till.voucher.id).await;
    assert_eq!((&bought.body["status"], &bought.body["amount"]), (&json!("unpaid"), &json!(PRICE)));
    assert_eq!(bought.text_of("pay_by"), "2026-11-11T00:15:00Z");
    let order = bought.text_of("order_id");
    let payment = till.own_step(1, order, "payments").await;
    let id = format!("{}.{order}.1", till.voucher.id);
    let expected = json!({
        "payment_id": id, "order_id": order, "amount": PRICE, "pay_by": "2026-11-11T00:15:00Z",
        "pay_url": format!("https://pay.example/{id}"),
    });
    assert_eq!(payment.is(201).body, expected);
    // A button that is pressed twice begins one payment.
    assert_eq!(till.own_step(1, order, "payments").await.is(201).body, expected);
    till.step(&till.admin(), order, "redemption").await.problem(409, "order_state");
    for _ in 0..2 {
        till.notify(&succeeded(&id, "t1", PRICE)).await.is(204);
        assert_eq!(till.status(1, order).await, "paid");
    }
    let again = till.own_step(1, order, "payments").await;
    assert_eq!(again.problem(409, "order_state").body["order_status"], "paid");
    till.own_step(1, order, "cancellation").await.problem(409, "order_state");
    till.own_step(1, order, "redemption").await.problem(403, "forbidden");
    let used = till.step(&till.admin(), order, "redemption").await;
    assert_eq!((used.is(200).text_of("status"), used.body["used_at"].is_string()), ("used", true));
    till.step(&till.admin(), order, "redemption").await.problem(409, "order_state");
    till.step(&till.admin(), order, "refund").await.problem(409, "order_state");
    let audit = till.holds().await;
    assert_eq!((audit.life.paid, audit.life.payments, audit.stock), (1, 1, 0));
}

#[tokio::test]
async fn nobody_touches_the_order_of_another() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    for step in ["payments", "cancellation"] {
        till.own_step(2, &order, step).await.problem(404, "order_not_found");
        till.step("", &order, step).await.problem(401, "unauthenticated");
    }
    for step in ["refund", "redemption"] {
        till.own_step(1, &order, step).await.problem(403, "forbidden");
        till.step(&till.admin(), "77", step).await.problem(404, "order_not_found");
        till.step(&till.admin(), "x", step).await.problem(422, "invalid_request");
    }
    till.own_step(1, "77", "payments").await.problem(404, "order_not_found");
    // An administrator cancels anybody's.
    let cancelled = till.step(&till.admin(), &order, "cancellation").await;
    assert_eq!(cancelled.is(200).text_of("status"), "cancelled");
    till.api.buy(2, till.voucher.id).await.is(201);
    till.holds().await;
}

#[tokio::test]
async fn more_overdue_orders_than_one_step_takes_are_cancelled_in_the_next_and_a_held_row_delays_no_other()
 {
    let till = Till::open(3_000).await;
    let other = till.api.world.priced_voucher(1).await;
    let place =
        "select * from sell($1, (select array_agg(1000 + i) from generate_series(1, 1001) i),
                                    (select array_agg(1000 + i) from generate_series(1, 1001) i),
                                    (select array_agg(sale_time()) from generate_series(1, 1001)))";
    let pool = till.api.world.database.pool();
    till.api.world.users(2_001).await;
    sqlx::query(place).bind(till.voucher.id.get()).execute(pool).await.unwrap();
    till.api.world.set_time(till.api.world.clock.now() + TimeDelta::minutes(1)).await;
    till.api.buy(1, other.id).await.is(201);
    till.api.world.set_time(till.api.world.clock.now() + TimeDelta::hours(1)).await;
    let (database, shop) = (till.api.world.database.clone(), till.api.world.shop().await);
    let mut expiry = Expiry::new(database, shop);
    // A session holds the row of the sale whose thousand orders are due first.
    let hold =
        format!("select from seckill_vouchers where voucher_id = {} for update", till.voucher.id);
    let holder = till.api.world.begin(&hold).await;
    assert!(expiry.step().await.is_err());
    assert_eq!(expiry.step().await.unwrap(), (1, 1));
    holder.close().await.unwrap();
    assert_eq!(expiry.step().await.unwrap(), (1_000, 1_000));
    assert_eq!(expiry.step().await.unwrap(), (1, 1));
    let audits = seckill::purchase::audit::run(pool, None).await.unwrap();
    assert!(audits.iter().all(|audit| audit.holds && audit.orders == 0), "{audits:?}");
}

#[tokio::test]
async fn what_the_gateway_says_wrongly_changes_nothing() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.own_step(1, &order, "payments").await.text_of("payment_id").to_owned();
    let good = serde_json::to_vec(&succeeded(&payment, "t1", PRICE)).unwrap();
    let key = till.api.world.payment_key();
    for signature in
        ["", "t=1,v1=00", &key.sign(1, b"{}"), &key.sign(1, &good).replace("t=1", "t=2")]
    {
        till.notify_signed(good.clone(), signature).await.problem(403, "forbidden");
    }
    let unsigned = till.api.request("POST", "/api/payments/notifications").body(good);
    till.api.send(unsigned).await.problem(403, "forbidden");
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
        json!({ "payment_id": payment, "status": "charged_back", "transaction_id": "t1", "amount": 0 }),
        json!({ "payment_id": payment, "status": "charged_back", "transaction_id": "t1", "amount": -PRICE }),
    ] {
        till.notify(&wrong).await.problem(422, "invalid_request");
    }
    let large = vec![b' '; 10 * 1024 * 1024];
    let signature = key.sign(1, &large);
    till.notify_signed(large, &signature).await.problem(413, "invalid_request");
    assert_eq!(till.status(1, &order).await, "unpaid");
}

#[tokio::test]
async fn money_for_a_payment_that_is_not_ours_is_kept_and_shown() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let unknown = ["no payment", "1.2.3", &format!("{}.{order}.9", till.voucher.id)];
    for (number, payment) in unknown.iter().enumerate() {
        for _ in 0..2 {
            till.notify(&succeeded(payment, &format!("t{number}"), 5)).await.is(204);
        }
        till.notify(&json!({ "payment_id": payment, "status": "failed" })).await.is(204);
    }
    let shown = till.as_admin("GET", "/api/payments/unmatched").await;
    let shown: Vec<&str> = shown
        .is(200)
        .body
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["payment_id"].as_str().unwrap())
        .collect();
    assert_eq!(shown.len(), 3);
    assert!(unknown.iter().all(|payment| shown.contains(payment)), "{shown:?}");
    till.api.get_as(1, "/api/payments/unmatched").await.problem(403, "forbidden");
    till.api.get_as(1, "/api/refunds").await.problem(403, "forbidden");
    till.holds().await;
}

#[tokio::test]
async fn a_gateway_that_is_away_for_an_hour_loses_nothing() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    till.gateway.set_away(true);
    till.own_step(1, &order, "payments").await.problem(503, "unavailable");
    till.gateway.set_away(false);
    till.api.world.set_time(till.api.world.clock.now() + TimeDelta::seconds(2)).await;
    till.pay(1, &order, "t1").await;
    till.gateway.set_away(true);
    assert_eq!(
        till.step(&till.admin(), &order, "refund").await.is(202).text_of("status"),
        "refunding"
    );
    let refunds = till.gateway_work().await;
    let begin = till.api.world.clock.now();
    let mut tries = 0;
    while till.api.world.clock.now() < begin + TimeDelta::hours(1) {
        tries += refunds.step().await.unwrap().0;
        till.api.world.set_time(till.api.world.clock.now() + TimeDelta::seconds(30)).await;
    }
    // It was asked often at first, and then about every five minutes.
    assert!((12..30).contains(&tries), "{tries}");
    let waiting = till.as_admin("GET", "/api/refunds").await;
    assert_eq!(waiting.body[0]["attempts"], tries);
    assert_eq!(waiting.body[0]["last_error"], "the payment gateway: it is away");
    assert_eq!(till.status(1, &order).await, "refunding");
    till.holds().await;
    till.gateway.set_away(false);
    till.api.world.set_time(till.api.world.clock.now() + TimeDelta::minutes(7)).await;
    assert_eq!(refunds.step().await.unwrap(), (1, 1));
    assert_eq!(refunds.step().await.unwrap(), (0, 0));
    assert_eq!(till.gateway.refunded.lock().unwrap().len(), 1);
    assert_eq!(till.status(1, &order).await, "refunded");
    till.api.buy(1, till.voucher.id).await.is(201);
    let audit = till.holds().await;
    assert_eq!((audit.life.refunded, audit.life.refunds, audit.orders), (1, 1, 1));
}

/// As many payments as may be begun at once wait for a gateway that says nothing. One more is refused, and
/// whatever is no payment goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_silent_holds_up_no_other_request() {
    let till = Till::open(70).await;
    till.api.world.users(70).await;
    let orders = join_all((1..=66).map(|number| till.buy(number))).await;
    *till.gateway.is_silent.lock().unwrap() = true;
    let pay =
        async |number: i64| till.own_step(number, &orders[number as usize - 1], "payments").await;
    // A busy machine may have no connection for one of so many at once: it asks again.
    let asks_until_it_waits = async |number| {
        while till.gateway.asked.load(Ordering::Relaxed) < 64 {
            let answer = pay(number).await;
            assert_eq!(answer.status, 503, "{answer:?}");
        }
    };
    let waiting = join_all((1..=64).map(asks_until_it_waits));
    let others = async {
        eventually("64 payments wait for the gateway", async || {
            till.gateway.asked.load(Ordering::Relaxed) == 64
        })
        .await;
        pay(65).await.problem(503, "unavailable");
        till.api.get_as(1, "/api/me").await.is(200);
        assert_eq!(till.status(1, &orders[0]).await, "unpaid");
        till.own_step(66, &orders[65], "cancellation").await.is(200);
        till.api.buy(67, till.voucher.id).await.is(201);
    };
    tokio::select! {
        _ = waiting => panic!("the gateway is silent"),
        () = others => {}
    }
}

/// The row of a voucher is held, and steps of its orders wait for it: they are refused in time, and nobody
/// who reads, or takes a step of another voucher's order after that, waits behind them.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_held_delays_no_reader() {
    let till = Till::open(10).await;
    let orders = join_all((1..=5).map(|number| till.buy(number))).await;
    let holder = till.api.world.hold_the_row().await;
    let cancelling = join_all((1..=5).map(|number| {
        let order = &orders[number as usize - 1];
        till.own_step(number, order, "cancellation")
    }));
    let reading = async {
        let pool = till.api.world.database.pool();
        // The others wait for their turn.
        eventually("a step waits for the row", async || waiting(pool).await == 1).await;
        join_all((1..=5).map(|number| till.status(number, &orders[number as usize - 1]))).await
    };
    let (refused, read) = tokio::join!(cancelling, reading);
    assert_eq!(read, ["unpaid"; 5]);
    for answer in refused {
        // Nothing was done: it does not say that the outcome is unknown.
        answer.problem(503, "unavailable");
        assert!(answer.body.get("detail").is_none(), "{answer:?}");
    }
    holder.close().await.unwrap();
    till.own_step(1, &orders[0], "cancellation").await.is(200);
}

#[tokio::test]
async fn without_a_gateway_nobody_can_pay_and_the_answer_says_so() {
    let world = World { payments: None, ..World::new().await };
    world.users(1).await;
    let voucher = world.priced_voucher(1).await;
    let address = world.serve().await;
    let api = Api::at(world, address);
    let bought = api.buy(1, voucher.id).await;
    let path = format!("/api/orders/{}/payments", bought.is(201).text_of("order_id"));
    let answer = api.send(api.request("POST", &path).bearer_auth(api.world.token(1))).await;
    answer.problem(503, "unavailable");
    assert!(answer.text_of("detail").contains("SECKILL_PAYMENTS"), "{answer:?}");
}

#[tokio::test]
async fn an_administrator_reads_the_orders_of_a_voucher_page_by_page_and_as_csv() {
    let till = Till::open(5).await;
    let orders = [till.buy(1).await, till.buy(2).await, till.buy(3).await];
    till.pay(2, &orders[1], "t1").await;
    till.own_step(3, &orders[2], "cancellation").await.is(200);
    let path = format!("/api/vouchers/{}/orders", till.voucher.id);
    let page = till.as_admin("GET", &format!("{path}?limit=2")).await;
    let ids = |answer: &Answer| -> Vec<String> {
        let rows = answer.body.as_array().unwrap().iter();
        rows.map(|row| row["order_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&page), [orders[2].clone(), orders[1].clone()]);
    let next = page.header("link").unwrap().split(['<', '>']).nth(1).unwrap().to_owned();
    assert_eq!(ids(&till.as_admin("GET", &next).await), [orders[0].clone()]);
    for (place, status) in [(0, "unpaid"), (1, "paid"), (2, "cancelled")] {
        let found = till.as_admin("GET", &format!("{path}?status={status}&limit=1")).await;
        assert_eq!(ids(&found), [orders[place].clone()], "{status}");
        assert!(found.header("link").unwrap().contains(&format!("status={status}")));
    }
    let phone: String = sqlx::query_scalar("select phone from users where id = 2")
        .fetch_one(till.api.world.database.pool())
        .await
        .unwrap();
    let csv = till.api.request("GET", &path).bearer_auth(till.admin()).header("accept", "text/csv");
    let csv = csv.send().await.unwrap();
    assert_eq!(csv.headers()["content-type"], "text/csv; charset=utf-8");
    let csv = csv.text().await.unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 4, "{csv}");
    assert!(lines[0].starts_with("order_id,voucher_id,user_id,phone,status,amount,"), "{csv}");
    let voucher = till.voucher.id;
    // Spreadsheets keep 15 digits of a number, and drop a plus sign: a formula whose value is a text keeps all of it.
    let text = |digits: &str| format!("\"=\"\"{digits}\"\"\"");
    let [order, voucher, user, phone] = [&orders[1], &voucher.to_string(), "2", &phone].map(text);
    let price = format!("{}.00", PRICE / 100);
    assert!(
        lines[2].starts_with(&format!("{order},{voucher},{user},{phone},paid,{price},")),
        "{csv}"
    );
    for (wrong, status, code) in [
        (format!("{path}?status=gone"), 422, "invalid_request"),
        (format!("{path}?limit=0"), 422, "invalid_request"),
        ("/api/vouchers/77/orders".to_owned(), 404, "voucher_not_found"),
    ] {
        till.as_admin("GET", &wrong).await.problem(status, code);
    }
    till.api.get_as(1, &path).await.problem(403, "forbidden");
}

#[tokio::test]
async fn the_audit_names_what_is_wrong_with_the_money() {
    let (promise, steps) = ("no_lost_payment", "order_steps");
    for (tamper, promises) in [
        ("delete from payments", &[promise][..]),
        ("update payments set paid_amount = 1", &[promise]),
        ("update orders set status = 4, cancelled_by = 3", &["no_undersell", steps, promise]),
        ("update orders set status = 5", &[steps, promise]),
        ("update orders set status = 1", &["no_stuck_stock", steps, promise]),
        ("update payments set status = 4, reason = 'order_paid'", &[promise, promise]),
        ("insert into refunds (voucher_id, order_id, number, transaction_id, amount, reason, next_attempt_at, created_at)
          select voucher_id, id, 1, 't1', 8000, 'x', now(), now() from orders", &[promise]),
        ("drop index payments_one_per_transaction;
          insert into payments (voucher_id, order_id, number, amount, status, transaction_id, paid_amount, created_at)
          select voucher_id, order_id, 2, amount, 4, 't1', paid_amount, now() from payments", &[promise, promise]),
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
        till.api.world.set_time(till.api.world.clock.now() + TimeDelta::hours(1)).await;
        till.holds().await;
        sqlx::raw_sql(tamper).execute(till.api.world.database.pool()).await.unwrap();
        let audit = till.api.world.audit().await;
        let named: Vec<String> =
            audit.violations.iter().map(|it| it.promise.to_string()).collect();
        assert_eq!(named, promises, "{tamper}: {audit:?}");
        assert!(audit.violations.iter().any(|it| it.what.contains(&order)), "{audit:?}");
    }
}

/// A role that may read and nothing else audits, also money.
#[tokio::test]
async fn the_right_to_read_is_enough_for_an_audit() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    till.pay(1, &order, "t1").await;
    let name = till.api.world.database_url.split('?').next().unwrap().rsplit('/').next().unwrap();
    let role = format!("reader_{name}");
    let make = format!(
        "create role {role} login password 'reader';
         grant select on all tables in schema public to {role}"
    );
    let pool = till.api.world.database.pool();
    sqlx::raw_sql(sqlx::AssertSqlSafe(make)).execute(pool).await.unwrap();
    let mut url = reqwest::Url::parse(&till.api.world.database_url).unwrap();
    let set = url.set_username(&role).and_then(|()| url.set_password(Some("reader")));
    set.unwrap();
    let program = testkit::program::Program::on(&till.api.world).with("DATABASE_URL", url.as_str());
    let ran = program.run(&["audit"]).await;
    assert!(ran.status == 0 && ran.stdout.contains("holds"), "{ran:?}");
    let ran = program.run(&["orders", "export", "--status", "paid"]).await;
    assert!(ran.status == 0 && ran.stdout.contains(&order), "{ran:?}");
    let ran = program.run(&["orders", "export", "--format", "json"]).await;
    let exported: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    assert_eq!(exported["status"], "paid");
    let clean = format!("drop owned by {role}; drop role {role}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(clean)).execute(pool).await.unwrap();
}

#[tokio::test]
async fn every_state_of_an_order_has_one_name() {
    for status in OrderStatus::ALL {
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        assert_eq!(OrderStatus::try_from(status as i16), Ok(status));
    }
}
