//! What an operator does with orders and their money on the board. In a real browser.

use std::sync::Arc;

use async_trait::async_trait;
use seckill::model::Voucher;
use seckill::orders::ToGateway;
use seckill::orders::outbox::Outbox;
use seckill::orders::{AnnounceError, GatewayError, PaymentGateway, PaymentRequest, RefundRequest};
use seckill::store::notices::Notice;
use seckill::store::payments::PaymentId;
use serde_json::{Value, json};

use crate::board::sales::{as_admin, board, order_of, pay, server, until_state};
use testkit::shop::api_client::Api;
use testkit::shop::till::notice;
use testkit::shop::web_driver::{Browser, DESKTOP, PHONE};
use testkit::shop::world::{PRICE, World};

/// Takes payments, and says no to every refund.
#[derive(Debug)]
struct KeepsTheMoney;

#[async_trait]
impl PaymentGateway for KeepsTheMoney {
    async fn request_payment(&self, request: PaymentRequest) -> Result<String, AnnounceError> {
        Ok(format!("/sandbox/payments/{}", request.payment))
    }

    async fn cancel_payment(&self, _: PaymentId) -> Result<(), GatewayError> {
        Ok(())
    }

    async fn payment_status(&self, _: PaymentId) -> Result<Option<Notice>, GatewayError> {
        Ok(None)
    }

    async fn refund(&self, _: &RefundRequest) -> Result<(), GatewayError> {
        Err(GatewayError("the bank is <b>closed</b>".to_owned()))
    }
}

/// Presses the button of this name in the row of `order`, and is sure.
async fn act(browser: &Browser, order: &str, action: &str) {
    browser.click(&format!("[data-order='{order}'] button[aria-label^='{action}']")).await;
    browser.until_text("#question-about", order).await;
    browser.click("#question-yes").await;
}

/// The money of a payment that was made in the sandbox is back.
pub fn returned(status: &str, payment: &str) -> Value {
    notice(status, payment, &format!("sandbox-{payment}"), PRICE)
}

/// What a server has to say to `gateway`.
async fn work(api: &Api, gateway: Arc<dyn PaymentGateway>) -> Outbox<ToGateway> {
    Outbox::of_gateway(api.world.database.clone(), api.world.shop().await, gateway)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_refunds_redeems_and_cancels() {
    let (api, voucher) = server(World::new().await).await;
    let mut orders = Vec::new();
    for user in 1..=4 {
        orders.push(order_of(&api, user, &voucher).await);
    }
    pay(&api, 1, &orders[0]).await;
    pay(&api, 2, &orders[1]).await;
    let browser = board(&api, "en", PHONE).await;

    act(&browser, &orders[0], "Refund").await;
    browser.until_text("#orders-state", &format!("Order {}: Refund under way", orders[0])).await;
    until_state(&browser, &orders[0], "Refund under way").await;
    let actions = format!("[data-order='{}'] .actions", orders[0]);
    assert_eq!(browser.text(&actions).await, "Settled outside");
    let sandbox = api.world.payments.clone().unwrap();
    assert_eq!(work(&api, sandbox).await.step().await.unwrap(), (1, 1));
    until_state(&browser, &orders[0], "Refunded").await;
    // What was said of it goes on with it.
    browser.until_text("#orders-state", &format!("Order {}: Refunded", orders[0])).await;

    act(&browser, &orders[1], "Redeem").await;
    until_state(&browser, &orders[1], "Redeemed").await;
    assert_eq!(browser.count(&format!("[data-order='{}'] button", orders[1])).await, 0);
    act(&browser, &orders[2], "Cancel").await;
    until_state(&browser, &orders[2], "Cancelled").await;
    browser.until_text("#figure-left", "38 of 40").await;

    // Paid while the question was open; and nothing is done to one about whom somebody is not sure.
    browser.click(&format!("[data-order='{}'] button", orders[3])).await;
    browser.until_text("#question-about", &orders[3]).await;
    pay(&api, 4, &orders[3]).await;
    browser.click("#question-yes").await;
    let said = format!("Not possible: order {} is in the state “Paid”", orders[3]);
    browser.until_text("#orders-state", &said).await;
    until_state(&browser, &orders[3], "Paid").await;
    browser.click(&format!("[data-order='{}'] button[aria-label^='Refund']", orders[3])).await;
    browser.click("#question [value=no]").await;
    browser.until("!document.querySelector('#question').open").await;
    assert_eq!(api.status(4, &orders[3]).await, "paid");
    browser.close_quietly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn money_that_waits_for_somebody_is_shown() {
    let world = World { payments: Some(Arc::new(KeepsTheMoney)), ..World::new().await };
    let (api, voucher) = server(world).await;
    let order = order_of(&api, 1, &voucher).await;
    let payment = pay(&api, 1, &order).await;
    let browser = board(&api, "en", DESKTOP).await;
    browser.until_text("#refunds-none", "No refund waits").await;
    browser.until_text("#unmatched-none", "There is none").await;

    as_admin(&api, "POST", &format!("/api/orders/{order}/refund"), &json!({})).await.is(202);
    assert_eq!(work(&api, Arc::new(KeepsTheMoney)).await.step().await.unwrap(), (1, 0));
    for said in
        [order.as_str(), "¥80.00", "refunded by an administrator", "the bank is <b>closed</b>"]
    {
        browser.until_text("#refunds", said).await;
    }
    browser.until("document.querySelector('#refunds td:nth-child(4)').innerText === '1'").await;

    api.notify(&notice("succeeded", "somebody else's", "t-77", 1_234)).await.is(204);
    for said in ["t-77", "somebody else's", "¥12.34", "no"] {
        browser.until_text("#unmatched", said).await;
    }
    api.notify(&notice("succeeded", "somebody else's", "t-78", 1_234)).await.is(204);
    browser.until_text("#unmatched", "t-78").await;
    browser.click("#unmatched tr:first-child button").await;
    browser.until_text("#question-about", "Transaction t-78, ¥12.34").await;
    browser.click("#question-yes").await;
    browser.until("document.querySelectorAll('#unmatched button').length === 1").await;
    // The gateway gives it back; and it gives back a second time what was settled outside it.
    api.notify(&notice("refunded", "somebody else's", "t-77", 1_234)).await.is(204);
    browser
        .until("/^\\d/.test(document.querySelector('#unmatched tr:last-child td:nth-child(5)').innerText)")
        .await;
    as_admin(&api, "POST", &format!("/api/orders/{order}/settlement"), &json!({})).await.is(200);
    browser.until_text("#refunds-none", "No refund waits").await;
    api.notify(&returned("refunded", &payment)).await.is(204);
    let twice = "refunded by an administrator; went back twice, at ";
    browser.until_text("#refunds .broken", twice).await;
    // A part of the money of a voucher that was used.
    let used = order_of(&api, 2, &voucher).await;
    let mut part = returned("charged_back", &pay(&api, 2, &used).await);
    as_admin(&api, "POST", &format!("/api/orders/{used}/redemption"), &json!({})).await.is(200);
    part["amount"] = json!(3_000);
    api.notify(&part).await.is(204);
    browser.until_text("#refunds", "¥30.00 went back: charge-back, ").await;
    until_state(&browser, &used, "Redeemed, part of the money went back").await;
    let row = format!("[data-order='{used}']");
    browser.until_text(&row, "¥80.00, ¥30.00 went back").await;
    look(&browser).await;
    browser.close_quietly().await;
}

/// An order of `user` whose refund the gateway does not take.
async fn stuck(api: &Api, user: i64, voucher: &Voucher) -> String {
    let order = order_of(api, user, voucher).await;
    pay(api, user, &order).await;
    as_admin(api, "POST", &format!("/api/orders/{order}/refund"), &json!({})).await.is(202);
    assert_eq!(work(api, Arc::new(KeepsTheMoney)).await.step().await.unwrap(), (1, 0));
    order
}

/// Another voucher has an order of the same id: each press names the voucher.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_the_gateway_does_not_take_is_settled_by_a_button_once() {
    for (language, button, question, refunding, refunded) in [
        ("en", "Settled outside", "will not be asked any more", "Refund under way", "Refunded"),
        ("zh-CN", "已线下退款", "不再请求支付网关退款", "退款中", "已退款"),
    ] {
        let world = World { payments: Some(Arc::new(KeepsTheMoney)), ..World::new().await };
        let other = world.voucher(1).await;
        let (api, voucher) = server(world).await;
        let order = stuck(&api, 1, &voucher).await;
        let same_id =
            sqlx::query("select * from sell($1, array[$2], array[2], array[sale_time()])");
        let same_id = same_id.bind(other.id.get()).bind(order.parse::<i64>().unwrap());
        same_id.execute(api.world.database.pool()).await.unwrap();
        let browser = board(&api, language, PHONE).await;
        // What is posted waits until it is let go.
        let hold = "if (options?.method === 'POST') {
            (window.posts ??= []).push(path);
            await new Promise((letGo) => (window.letGo = letGo));
        }";
        browser.on_fetch(hold).await;
        until_state(&browser, &order, refunding).await;
        let settle = format!("[data-order='{order}'] button[aria-label^='{button}']");

        browser.press_twice(&settle).await;
        for said in [order.as_str(), "¥80.00", question] {
            browser.until_text("#question-about", said).await;
        }
        browser.click("#question [value=no]").await;
        browser.until("!document.querySelector('#question').open").await;
        browser.press_twice(&settle).await;
        browser.is_readable("the question").await;
        browser.press_twice("#question-yes").await;
        browser.until("window.letGo").await;
        browser.press_twice(&settle).await;
        let is_asking = browser.value("document.querySelector('#question').open").await;
        assert_eq!(is_asking, false, "while the first press is under way");
        browser.value("window.letGo()").await;
        browser.until_text("#orders-state", refunded).await;
        until_state(&browser, &order, refunded).await;
        let path = format!("/api/orders/{order}/settlement?voucher_id={}", voucher.id);
        assert_eq!(browser.value("window.posts").await, json!([path]));
        let path = format!("/api/orders/{order}/steps?voucher_id={}", voucher.id);
        let steps = as_admin(&api, "GET", &path, &Value::Null).await.is(200).body.clone();
        let steps: Vec<_> = steps.as_array().unwrap().iter().map(|step| &step["step"]).collect();
        assert_eq!(steps, ["paid", "refund_begun", "settled_outside"]);

        // Settled elsewhere while the question is open.
        let order = stuck(&api, 2, &voucher).await;
        browser.click(&format!("[data-order='{order}'] button[aria-label^='{button}']")).await;
        browser.until_text("#question-about", &order).await;
        let path = format!("/api/orders/{order}/settlement?voucher_id={}", voucher.id);
        as_admin(&api, "POST", &path, &json!({})).await.is(200);
        browser.click("#question-yes").await;
        browser.until("window.posts.length === 2").await;
        browser.value("window.letGo()").await;
        for said in [order.as_str(), &format!("“{refunded}”")] {
            browser.until_text("#orders-state", said).await;
        }
        until_state(&browser, &order, refunded).await;
        browser.close_quietly().await;
    }
}

/// All forms are open.
async fn look(browser: &Browser) {
    for summary in ["#edit-sale summary", "#new-sale summary"] {
        browser.click(summary).await;
    }
    browser.is_readable("the board").await;
}
