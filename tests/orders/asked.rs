//! A payment gateway that is asked before time cancels an order: it answers late, wrongly, twice, or not at all.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use chrono::TimeDelta;
use seckill::http::payments::PaymentWebhook;
use seckill::http::webhook::{SIGNATURE, SigningKey, Webhook};
use seckill::model::SystemClock;
use seckill::orders::expiry::Expiry;
use seckill::orders::outbox::Outbox;
use seckill::orders::{
    ASK_WITHIN, AnnounceError, GatewayError, PaymentGateway, PaymentRequest, RefundRequest,
    ToGateway,
};
use seckill::store::notices::{Money, Notice};
use seckill::store::payments::PaymentId;
use serde_json::{Value, json};
use tokio::sync::Notify;

use testkit::shop::kept_payments::KeptPayments;
use testkit::shop::till::{ADMINISTRATOR, Till, succeeded};
use testkit::shop::world::PRICE;
use testkit::wait::eventually;

/// User 1 was sent to the gateway, and the time to pay is over: a server has written down that the gateway is to be asked.
struct Asked {
    till: Till,
    order: String,
    payment: PaymentId,
    expiry: Expiry,
    messages: Outbox<ToGateway>,
}

impl Asked {
    async fn new() -> Self {
        let till = Till::open(1).await;
        let order = till.buy(1).await;
        let payment = till.own_payment(1, &order).await.parse().unwrap();
        let (mut expiry, messages) = (till.expiry(ASK_WITHIN).await, till.gateway_work().await);
        till.after(TimeDelta::minutes(15)).await;
        assert_eq!(expiry.step().await.unwrap(), (1, 0));
        Self { till, order, payment, expiry, messages }
    }

    /// What a server finds that looks for overdue orders, and how many of them it cancels.
    async fn expires(&mut self) -> (usize, i64) {
        self.expiry.step().await.unwrap()
    }

    /// What a server finds that looks for messages, and how many of them the gateway takes.
    async fn sends(&self) -> (usize, usize) {
        self.messages.step().await.unwrap()
    }

    /// From now on the gateway says that it has taken the money.
    fn is_paid(&self) {
        self.till.gateway().answers.lock().unwrap().insert(self.payment, took(PRICE));
    }

    fn questions(&self) -> usize {
        self.till.gateway().questions.lock().unwrap().len()
    }

    async fn status(&self) -> String {
        self.till.status(1, &self.order).await
    }
}

fn took(amount: i64) -> Notice {
    Notice::Succeeded(Money { transaction: "t1".to_owned(), amount, return_id: None })
}

/// What was pressed in the sandbox, whose notification comes a minute later, and the steps that the order takes, while a
/// server does its work.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_paid_in_time_has_the_order_though_the_notification_comes_late() {
    for (action, steps) in [
        (Some("pay"), &["paid"][..]),
        (Some("decline"), &["cancelled"]),
        (Some("pay_late"), &["cancelled", "revived"]),
        (None, &["cancelled"]),
    ] {
        let till = Till::with_line(1, 2).await;
        let order = till.buy(1).await;
        let payment = till.own_payment(1, &order).await;
        if let Some(action) = action {
            let delay_ms = if action == "pay_late" { 0 } else { 60_000 };
            let press = json!({ "action": action, "delay_ms": delay_ms });
            till.post(&format!("/api/sandbox/payments/{payment}"), &press).await.is(202);
        }
        let _workers = till.world.orders(&till.world.shop().await).start_workers();
        till.after(TimeDelta::minutes(15)).await;
        let path = format!("/api/orders/{order}/steps");
        eventually("the order is what the buyer made of it", async || {
            let log = till.get_as(ADMINISTRATOR, &path).await.is(200).body.clone();
            log.as_array().unwrap().iter().map(|it| &it["step"]).eq(steps)
        })
        .await;
        if action == Some("pay") {
            till.try_buy(2).await.problem(409, "sold_out");
        }
        till.holds().await;
    }
}

#[tokio::test]
async fn an_order_waits_for_a_silent_gateway_as_long_as_it_may_and_then_time_cancels_it() {
    let mut asked = Asked::new().await;
    asked.till.gateway().set_away(true);
    assert_eq!(asked.sends().await, (1, 0));
    assert_eq!(asked.sends().await, (0, 0));
    asked.till.after(TimeDelta::seconds(59)).await;
    assert_eq!((asked.sends().await, asked.questions()), ((1, 0), 2));
    assert_eq!(asked.expires().await, (0, 0));
    asked.till.own_step(1, &asked.order, "payments").await.problem(409, "order_state");
    asked.till.holds().await;
    asked.till.after(TimeDelta::seconds(1)).await;
    assert_eq!(asked.expires().await, (1, 1));
    assert_eq!(asked.status().await, "cancelled");
    // Nobody asks any more: the gateway is told that the payment is not wanted.
    asked.till.gateway().set_away(false);
    asked.till.after(TimeDelta::seconds(10)).await;
    assert_eq!((asked.sends().await, asked.questions()), ((2, 1), 2));
    assert_eq!(asked.sends().await, (0, 0));
    asked.till.holds().await;
}

/// The time begins with the question.
#[tokio::test]
async fn an_order_whose_time_was_over_while_no_server_ran_is_asked_for() {
    let till = Till::open(1).await;
    let order = till.buy(1).await;
    let payment = till.own_payment(1, &order).await.parse().unwrap();
    till.after(TimeDelta::hours(2)).await;
    till.is_broken("orders are unpaid a minute after their time was over").await;
    assert_eq!(till.expiry(ASK_WITHIN).await.step().await.unwrap(), (1, 0));
    till.holds().await;
    // Also an order that no server cancels when it has waited is named.
    till.after(TimeDelta::seconds(121)).await;
    till.is_broken("orders are unpaid a minute after their time was over").await;
    till.gateway().answers.lock().unwrap().insert(payment, took(PRICE));
    assert_eq!(till.gateway_work().await.step().await.unwrap(), (1, 1));
    assert_eq!(till.status(1, &order).await, "paid");
    till.holds().await;
}

#[tokio::test]
async fn only_an_order_from_which_somebody_was_sent_to_the_gateway_waits() {
    let till = Till::open(10).await;
    let [unannounced, sent] = [till.buy(1).await, till.buy(2).await];
    till.gateway().set_away(true);
    till.own_step(1, &unannounced, "payments").await.problem(503, "unavailable");
    till.gateway().set_away(false);
    till.own_payment(2, &sent).await;
    till.buy(3).await;
    till.after(TimeDelta::minutes(15)).await;
    assert_eq!(till.expiry(ASK_WITHIN).await.step().await.unwrap(), (3, 2));
    assert_eq!(till.status(2, &sent).await, "unpaid");
    // Where the gateway is not to be asked, nobody waits.
    let order = till.buy(4).await;
    till.own_payment(4, &order).await;
    till.after(TimeDelta::minutes(15)).await;
    assert_eq!(till.expire().await, 2);
    assert!(till.gateway().questions.lock().unwrap().is_empty());
}

#[tokio::test]
async fn two_servers_ask_once_and_what_is_said_twice_counts_once() {
    let asked = Asked::new().await;
    asked.is_paid();
    let other = asked.till.another_server().await.gateway_work().await;
    let (one, two) = tokio::join!(asked.messages.step(), other.step());
    assert_eq!((one.unwrap().1 + two.unwrap().1, asked.questions()), (1, 1));
    asked.till.notify(&succeeded(&asked.payment.to_string(), "t1", PRICE)).await.is(204);
    assert_eq!(asked.status().await, "paid");
    assert!(asked.till.list("/api/refunds").await.is_empty());
    asked.till.holds().await;
}

#[tokio::test]
async fn a_thousand_orders_that_wait_for_the_gateway_delay_no_other() {
    let till = Till::open(3_000).await;
    let other = till.world.priced_voucher(1).await;
    till.sell_many(1_001).await;
    till.sql(
        "insert into payments (voucher_id, order_id, number, amount, pay_url, created_at)
         select voucher_id, id, 1, amount, 'https://pay.example/', sale_time() from orders",
    )
    .await;
    till.after(TimeDelta::minutes(1)).await;
    till.api.buy(1, other.id).await.is(201);
    till.after(TimeDelta::hours(1)).await;
    let mut expiry = till.expiry(ASK_WITHIN).await;
    for found in [(1_000, 0), (2, 1), (0, 0)] {
        assert_eq!(expiry.step().await.unwrap(), found);
    }
    till.after(TimeDelta::minutes(1)).await;
    for found in [(1_000, 1_000), (1, 1), (0, 0)] {
        assert_eq!(expiry.step().await.unwrap(), found);
    }
    till.world.audits_hold().await;
}

/// The clock goes back while the gateway is asked: its answer is of a time at which the buyer could still pay.
#[tokio::test]
async fn a_gateway_that_was_asked_before_the_clock_went_back_is_asked_again() {
    let mut asked = Asked::new().await;
    asked.till.after(TimeDelta::minutes(-11)).await;
    assert_eq!((asked.sends().await, asked.expires().await), ((1, 1), (0, 0)));
    asked.is_paid();
    asked.till.after(TimeDelta::minutes(11)).await;
    assert_eq!((asked.expires().await, asked.sends().await), ((1, 0), (1, 1)));
    assert_eq!((asked.status().await, asked.questions()), ("paid".to_owned(), 2));
    asked.till.holds().await;
}

/// Says that a payment was paid, once it is let.
#[derive(Debug, Default)]
struct LateGateway {
    is_asked: Notify,
    may_answer: Notify,
    kept: KeptPayments,
}

#[async_trait]
impl PaymentGateway for LateGateway {
    async fn request_payment(&self, request: PaymentRequest) -> Result<String, AnnounceError> {
        self.kept.request_payment(request).await
    }

    async fn cancel_payment(&self, payment: PaymentId) -> Result<(), GatewayError> {
        self.kept.cancel_payment(payment).await
    }

    async fn payment_status(&self, _: PaymentId) -> Result<Option<Notice>, GatewayError> {
        self.is_asked.notify_one();
        self.may_answer.notified().await;
        Ok(Some(took(PRICE)))
    }

    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError> {
        self.kept.refund(request).await
    }
}

/// What happens to the order while the gateway's yes is on its way, what becomes of it, and how much money goes back.
#[tokio::test]
async fn a_yes_that_comes_too_late_is_late_money() {
    for (meanwhile, status, refunds) in
        [("nothing", "paid", 0), ("its buyer cancels it", "cancelled", 1), ("time", "paid", 0)]
    {
        let mut asked = Asked::new().await;
        let (gateway, world) = (Arc::new(LateGateway::default()), asked.till.world.clone());
        let shop = world.shop().await;
        let messages = Outbox::of_gateway(world.database.clone(), shop, gateway.clone());
        let happens = async {
            gateway.is_asked.notified().await;
            match meanwhile {
                "its buyer cancels it" => {
                    asked.till.own_step(1, &asked.order, "cancellation").await.is(200);
                }
                "time" => {
                    asked.till.after(TimeDelta::minutes(1)).await;
                    assert_eq!(asked.expires().await, (1, 1));
                }
                _ => {}
            }
            gateway.may_answer.notify_one();
        };
        let (sent, ()) = tokio::join!(messages.step(), happens);
        assert_eq!(sent.unwrap(), (1, 1), "{meanwhile}");
        assert_eq!(asked.status().await, status, "{meanwhile}");
        assert_eq!(asked.till.list("/api/refunds").await.len(), refunds, "{meanwhile}");
        asked.till.holds().await;
    }
}

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// A service at a port of its own. It answers to each signed message what it is told to, and keeps it.
#[derive(Clone, Default)]
struct Service {
    answer: Arc<Mutex<(u16, Value)>>,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Service {
    async fn take(self, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
        let signature = headers.get(SIGNATURE).and_then(|it| it.to_str().ok()).unwrap_or("");
        let is_signed = SigningKey::new(SECRET).verifies(signature, &body);
        let message = serde_json::from_slice(&body).unwrap_or(Value::Null);
        self.asked.lock().unwrap().push(if is_signed { message } else { Value::Null });
        let (status, answer) = self.answer.lock().unwrap().clone();
        (StatusCode::from_u16(status).unwrap(), answer.to_string())
    }
}

#[tokio::test]
async fn the_question_is_signed_and_what_is_no_clear_answer_is_none() {
    let service = Service::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let asked = service.clone();
    let routes =
        Router::new().route("/", post(async |headers, body| asked.take(headers, body).await));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let webhook = Webhook::new(url, SECRET, Arc::new(SystemClock)).unwrap();
    let webhook = PaymentWebhook { webhook, schemes: "https".parse().unwrap() };
    let payment: PaymentId = "1.662158939135148033.1".parse().unwrap();
    let paid = |transaction: &str, amount: i64| json!({ "status": "succeeded", "transaction_id": transaction, "amount": amount });
    let (long, other) = ("x".repeat(201), succeeded("1.2.3", "t1", PRICE));
    let mut cases = vec![
        (200, json!({ "status": "pending" }), Ok(None)),
        (200, json!({ "status": "failed" }), Ok(Some(Notice::Failed))),
        (200, paid("t1", PRICE), Ok(Some(took(PRICE)))),
        (202, succeeded(&payment.to_string(), "t1", 1), Ok(Some(took(1)))),
        (404, json!({ "status": "failed" }), Err("it said 404")),
        (500, Value::Null, Err("it said 500")),
        (200, other, Err("of another payment")),
    ];
    let wrong = [
        Value::Null,
        json!([]),
        json!({}),
        json!({ "status": "unknown" }),
        json!({ "status": "succeeded" }),
        json!({ "status": "refunded", "transaction_id": "t1", "amount": PRICE }),
        paid("", PRICE),
        paid("t\0", PRICE),
        paid(&long, PRICE),
        paid("t1", 0),
        paid("t1", -1),
        json!({ "status": "succeeded", "transaction_id": "t1", "amount": 80.5 }),
    ];
    cases.extend(wrong.map(|answer| (200, answer, Err("it says no status"))));
    for (status, answer, expected) in cases {
        *service.answer.lock().unwrap() = (status, answer.clone());
        let said = webhook.payment_status(payment).await;
        match (&said, &expected) {
            (Ok(said), Ok(expected)) => assert_eq!(said, expected, "{status} {answer}"),
            (Err(said), Err(why)) => assert!(said.to_string().contains(why), "{answer}: {said}"),
            _ => panic!("{status} {answer}: {said:?}"),
        }
    }
    let question = json!({ "type": "payment_status", "payment_id": payment.to_string() });
    let asked = service.asked.lock().unwrap();
    assert!(asked.iter().all(|message| *message == question), "{asked:?}");
}
