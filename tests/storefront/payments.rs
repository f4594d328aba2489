//! What follows a purchase in the shop: paying, cancelling, running out of time; and the sandbox, on whose
//! page a buyer pays. In a real browser.

use std::time::Duration;

use chrono::TimeDelta;
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{Clock, Voucher};
use seckill::orders::expiry::Expiry;
use serde_json::{Value, json};

use crate::board::money::returned;
use crate::board::sales::pay;
use crate::storefront::sale::{BUY, MESSAGE, visited};
use testkit::shop::api_client::Api;
use testkit::shop::readable::SCREENS;
use testkit::shop::web_driver::{Browser, PHONE};
use testkit::shop::world::World;

pub const PAY: &str = "#vouchers .pay";
pub const CANCEL: &str = "#vouchers .cancel";
pub const YES: &str = "#question [value=yes]";

/// A shop with two vouchers on sale, at 80 yuan, and users 1 to 3.
pub async fn shop() -> (Api, Voucher) {
    let world = World::new().await;
    world.users(3).await;
    let begin = world.clock.now() - TimeDelta::hours(1);
    let new = NewVoucher {
        subtitle: Some("Any branch".to_owned()),
        terms: Some("One a table.\n<b>Not</b> on holidays.".to_owned()),
        value: Some(10_000),
        price: Some(8_000),
        ..NewVoucher::free("100 for 80", 2, begin, begin + TimeDelta::days(1))
    };
    let voucher = world.new_voucher(&new).await;
    (Api::of(world).await, voucher)
}

/// A browser of user 1 who has just bought the voucher.
pub async fn bought(api: &Api) -> Browser {
    let browser = visited(api, 1).await;
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "Reserved for you. Order ").await;
    browser
}

/// Waits for the sandbox's page, and presses again while no press is under way: a busy machine may answer 503, or lose a
/// driver's click.
async fn until_at_the_sandbox(browser: &Browser) {
    let there = "(() => {
        if (document.querySelector('h1')?.innerText.includes('Sandbox payment')) return true;
        const pay = [...document.querySelectorAll('.pay')].find(it => it.checkVisibility() && !it.disabled);
        pay?.click();
        return false;
    })()";
    browser.until(there).await;
}

/// The time to pay is over, and a server has noticed.
async fn time_is_over(world: &World) {
    world.set_time(world.clock.now() + TimeDelta::minutes(15)).await;
    let purchases = world.purchases(world.options()).await;
    let mut expiry = Expiry::new(world.database.clone(), purchases, Duration::ZERO);
    let (found, cancelled) = expiry.step().await.unwrap();
    assert_eq!((found, cancelled), (1, 1));
}

/// The orders of user 1, the newest first.
async fn orders(api: &Api) -> Vec<Value> {
    api.get_as(1, "/api/orders").await.is(200).body.as_array().unwrap().clone()
}

pub async fn only_order(api: &Api) -> String {
    let orders = orders(api).await;
    assert_eq!(orders.len(), 1);
    orders[0]["order_id"].as_str().unwrap().to_owned()
}

pub async fn statuses(api: &Api) -> Vec<Value> {
    orders(api).await.iter().map(|order| order["status"].clone()).collect()
}

/// Counts what the page posts to addresses that end so, also across pages.
async fn count_posts(browser: &Browser, end: &str) {
    browser.value("delete sessionStorage.posts").await;
    let count = format!(
        "if (options?.method === 'POST' && path.endsWith('{end}'))
            sessionStorage.posts = Number(sessionStorage.posts ?? 0) + 1;"
    );
    browser.on_fetch(&count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voucher_with_a_price_is_bought_and_paid_for() {
    let (api, _) = shop().await;
    let browser = visited(&api, 1).await;
    browser.until_text(".card .subtitle", "Any branch").await;
    browser.until_text(".card .price strong", "¥80.00").await;
    browser.until_text(".card .value", "worth ¥100.00").await;
    browser.click(".card .terms summary").await;
    browser.until_text(".card .terms p", "<b>Not</b> on holidays.").await;
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "Reserved for you. Order ").await;
    // By the server's clock, which is on another day than the browser's.
    browser
        .until("/^Pay within 1[45]:\\d\\d$/.test(document.querySelector('.pay-within').innerText)")
        .await;
    assert!(!browser.shows(".buy").await);
    browser.until_text(PAY, "Pay ¥80.00").await;
    browser.click(PAY).await;

    browser.until_text("h1", "Sandbox payment").await;
    browser.until_text("main", "No money moves").await;
    browser.until_text("#amount", "¥80.00").await;
    browser.until_text("#order", &only_order(&api).await).await;
    browser.until("/^1[45]:\\d\\d$/.test(document.querySelector('#left').innerText)").await;
    browser.click("[data-action=pay]").await;
    browser.until_text("#result", "Paid. The order is yours.").await;
    assert_eq!(statuses(&api).await, ["paid"]);
    assert!(!browser.shows("#choices").await);

    browser.click("#to-orders").await;
    browser.until_text("#order-list .order-status", "Paid").await;
    browser.until_text("#order-list .order-amount", "¥80.00").await;
    assert!(!browser.shows("#order-list .pay").await);
    browser.click(".tabs a[href='#all']").await;
    browser.until_text(BUY, "Bought").await;
    browser.until_text(MESSAGE, "It is yours").await;
    browser.close().await;
}

/// Who has cancelled an order may buy the voucher again after a second.
async fn pause_is_over(api: &Api) {
    api.world.set_time(api.world.clock.now() + TimeDelta::seconds(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_cancelled_when_its_buyer_is_sure_and_the_voucher_bought_again() {
    let (api, _) = shop().await;
    let browser = bought(&api).await;
    browser.until_text(".stock", "1 of 2 left").await;
    browser.click(CANCEL).await;
    browser.click("#question [value=no]").await;
    browser.until("!document.querySelector('#question').open").await;
    browser.until_shown(PAY).await;
    assert_eq!(statuses(&api).await, ["unpaid"]);
    browser.click(CANCEL).await;
    browser.click(YES).await;
    browser.until_text(MESSAGE, "Your order is cancelled.").await;
    assert_eq!(statuses(&api).await, ["cancelled"]);
    browser.until_text(".stock", "2 of 2 left").await;
    browser.until_text(BUY, "Buy now").await;
    pause_is_over(&api).await;
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "Reserved for you. Order ").await;
    assert_eq!(statuses(&api).await, ["unpaid", "cancelled"]);

    browser.click(".tabs a[href='#orders']").await;
    browser.until_text("[data-order=cancelled] .order-status", "Cancelled").await;
    browser.until_text("[data-order=unpaid] .order-status", "To be paid").await;
    browser.until_text("[data-order=unpaid] .pay-within", "Pay within 1").await;
    browser.click("[data-order=unpaid] .cancel").await;
    browser.click(YES).await;
    browser.until("document.querySelectorAll('[data-order=cancelled]').length === 2").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_paid_or_cancelled_elsewhere_shows_without_a_reload() {
    let (api, voucher) = shop().await;
    let browser = bought(&api).await;
    let order = only_order(&api).await;
    api.own_step(1, &order, "cancellation").await.is(200);
    browser.until_text(MESSAGE, "Your order is cancelled.").await;
    pause_is_over(&api).await;
    // Bought elsewhere: this page asks when somebody comes back to it.
    api.buy(1, voucher.id).await.is(201);
    browser.value("dispatchEvent(new Event('focus'))").await;
    browser.until_shown(PAY).await;
    let newest = orders(&api).await[0]["order_id"].as_str().unwrap().to_owned();
    pay(&api, 1, &newest).await;
    browser.until_text(MESSAGE, &format!("It is yours. Order {newest}")).await;
    browser.until_text(BUY, "Bought").await;
    browser.close().await;
}

/// The state stays `used`: that the money went back is news all the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_used_and_charged_back_says_so_without_a_reload() {
    let (api, _) = shop().await;
    let browser = bought(&api).await;
    let order = only_order(&api).await;
    let payment = pay(&api, 1, &order).await;
    api.step(&api.world.admin_token(2).await, &order, "redemption").await.is(200);
    browser.click(".tabs a[href='#orders']").await;
    browser.until_text("[data-order=used] .order-status", "Redeemed").await;
    api.notify(&returned("charged_back", &payment)).await.is(204);
    browser.value("dispatchEvent(new Event('focus'))").await;
    let status = "[data-order=charged_back] .order-status";
    browser.until_text(status, "Redeemed, charged back").await;
    browser.is_readable("the orders").await;
    // The longest state leaves the title and the id their room.
    for size in SCREENS {
        browser.resize(size).await;
        browser.until("document.querySelector('#order-list .order').offsetHeight < 200").await;
    }
    browser.open(&format!("http://{}/?lang=zh-CN#orders", api.address)).await;
    browser.until_text(status, "已使用，已被拒付").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_button_that_is_pressed_twice_does_its_work_once() {
    let (api, _) = shop().await;
    let browser = bought(&api).await;
    count_posts(&browser, "/payments").await;
    browser.press_twice(PAY).await;
    browser.until_shown("[data-action=decline]").await;
    assert_eq!(browser.value("sessionStorage.posts").await, "1");
    let id = browser.value("location.pathname.split('/').at(-1)").await;
    count_posts(&browser, id.as_str().unwrap()).await;
    browser.press_twice("[data-action=decline]").await;
    browser.until_text("#result", "Declined").await;
    assert_eq!(browser.value("sessionStorage.posts").await, "1");
    // One question, and one cancellation.
    browser.open(&format!("http://{}/", api.address)).await;
    browser.until_shown(CANCEL).await;
    count_posts(&browser, "/cancellation").await;
    browser.press_twice(CANCEL).await;
    browser.click(YES).await;
    browser.until_text(MESSAGE, "Your order is cancelled.").await;
    assert_eq!(browser.value("sessionStorage.posts").await, "1");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_was_declined_is_made_again_from_the_orders() {
    let (api, _) = shop().await;
    let browser = bought(&api).await;
    browser.click(PAY).await;
    browser.click("[data-action=decline]").await;
    browser.until_text("#result", "Declined: nothing was taken.").await;
    assert_eq!(statuses(&api).await, ["unpaid"]);
    let declined = browser.value("location.pathname").await;
    browser.click("#to-orders").await;
    browser.until_text("#order-list .order-status", "To be paid").await;
    browser.click("#order-list .pay").await;
    browser.click("[data-action=pay]").await;
    assert_ne!(browser.value("location.pathname").await, declined);
    browser.until_text("#result", "Paid.").await;
    assert_eq!(statuses(&api).await, ["paid"]);
    // Back in the history: the shop finds out.
    browser.back().await;
    browser.until_text("#order-list .order-status", "Paid").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn money_that_comes_too_late_revives_the_order() {
    let (api, _) = shop().await;
    let browser = bought(&api).await;
    browser.click(PAY).await;
    browser.click("[data-action=pay_late]").await;
    browser.until_text("#result", "It will be paid when the time to pay is over").await;
    assert_eq!(browser.value("document.querySelector('[data-action=pay]').disabled").await, true);
    assert_eq!(statuses(&api).await, ["unpaid"]);
    time_is_over(&api.world).await;
    browser.until_text("#result", "Paid. The order is yours.").await;
    browser.until_text("#order-state", "Paid").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandbox_says_that_a_payment_is_not_there() {
    let (api, _) = shop().await;
    let browser = Browser::new("zh-CN", PHONE).await;
    for id in ["7.661897216000000001.1", "nothing", "%E2%82%AC"] {
        browser.open(&format!("http://{}/sandbox/payments/{id}", api.address)).await;
        browser.until_text("main", "没有这笔支付").await;
        assert!(!browser.shows("#payment").await);
    }
    browser.click("#to-orders").await;
    browser.until_shown("#orders-view").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_is_paused_sells_nothing_until_it_goes_on() {
    let (api, voucher) = shop().await;
    let browser = visited(&api, 1).await;
    browser.until_text(BUY, "Buy now").await;
    let token = api.world.admin_token(2).await;
    let path = format!("/api/vouchers/{}", voucher.id);
    let change = async |body: Value| {
        api.call_with("PATCH", &path, &token, &body).await.is(200);
    };
    change(json!({ "paused": true })).await;
    browser.until_text(".badge", "Paused").await;
    assert_eq!(browser.value("document.querySelector('.buy').disabled").await, true);
    change(json!({ "paused": false, "price": 0, "terms": "", "subtitle": "" })).await;
    browser.until_text(BUY, "Buy now").await;
    browser.until_text(".price", "Free").await;
    assert!(!browser.shows(".terms").await);
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "It is yours. Order").await;
    assert_eq!(statuses(&api).await, ["paid"]);
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unpaid_orders_and_the_sandbox_can_be_read_on_every_screen() {
    let (api, _) = shop().await;
    let browser = bought(&api).await;
    browser.is_readable("card").await;
    browser.click(CANCEL).await;
    browser.until_shown(YES).await;
    browser.is_readable("question").await;
    browser.click("#question [value=no]").await;
    browser.click(".tabs a[href='#orders']").await;
    browser.until_shown("#order-list .pay").await;
    browser.is_readable("orders").await;
    browser.click("#order-list .pay").await;
    until_at_the_sandbox(&browser).await;
    browser.until_shown("[data-action=pay]").await;
    browser.is_readable("sandbox").await;
    browser.close().await;
}
