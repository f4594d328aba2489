//! What follows a purchase in the shop: paying, cancelling, running out of time; and the sandbox, on whose
//! page a buyer pays. In a real browser.

use chrono::TimeDelta;
use faults::{Fault, Proxy};
use seckill::model::{Clock, Voucher};
use seckill::orders::expiry::Expiry;
use seckill::store::vouchers::NewVoucher;
use serde_json::{Value, json};
use sqlx::Connection;

use crate::board::money::{notify, returned};
use crate::storefront::sale::{BUY, MESSAGE, POOR_CONTRAST, visited, visited_at};
use testkit::shop::api_client::{Answer, Api};
use testkit::shop::web_driver::{Browser, DESKTOP, PHONE};
use testkit::shop::world::World;
use testkit::wait::eventually;

const PAY: &str = "#vouchers .pay";
const CANCEL: &str = "#vouchers .cancel";
const TIME_LEFT: &str = "#vouchers .pay-within";
const YES: &str = "#question [value=yes]";

/// A shop with two vouchers on sale, at 80 yuan, and users 1 to 3.
async fn shop() -> (Api, Voucher) {
    let world = World::new().await;
    world.users(3).await;
    let begin = world.clock.now() - TimeDelta::hours(1);
    let new = NewVoucher {
        subtitle: "Any branch".to_owned(),
        terms: "One a table.\n<b>Not</b> on holidays.".to_owned(),
        value: Some(10_000),
        price: 8_000,
        ..NewVoucher::free("100 for 80", 2, begin, begin + TimeDelta::days(1))
    };
    let voucher = world.new_voucher(&new).await;
    let address = world.serve().await;
    (Api::at(world, address), voucher)
}

/// A browser of user 1 who has just bought the voucher.
async fn bought(api: &Api) -> Browser {
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
    let (found, cancelled) = Expiry::new(world.database.clone(), purchases).step().await.unwrap();
    assert_eq!((found, cancelled), (1, 1));
}

async fn post_as(api: &Api, user: i64, path: &str) -> Answer {
    api.send(api.request("POST", path).bearer_auth(api.world.token(user))).await
}

/// The orders of user 1, the newest first.
async fn orders(api: &Api) -> Vec<Value> {
    api.get_as(1, "/api/orders").await.is(200).body.as_array().unwrap().clone()
}

async fn only_order(api: &Api) -> String {
    let orders = orders(api).await;
    assert_eq!(orders.len(), 1);
    orders[0]["order_id"].as_str().unwrap().to_owned()
}

async fn statuses(api: &Api) -> Vec<Value> {
    orders(api).await.iter().map(|order| order["status"].clone()).collect()
}

/// Pays the only order of user 1 behind the page's back. Returns the payment.
async fn pay_elsewhere(api: &Api) -> String {
    let path = format!("/api/orders/{}/payments", only_order(api).await);
    let mut id = String::new();
    eventually("the payment begins", async || {
        let payment = post_as(api, 1, &path).await;
        if payment.status != 503 {
            id = payment.is(201).text_of("payment_id").to_owned();
        }
        !id.is_empty()
    })
    .await;
    take_payment(api, &id).await;
    id
}

/// On a busy machine the first connection of a pool may come too late: a 503 asks to be asked again.
async fn take_payment(api: &Api, id: &str) {
    let path = format!("/api/sandbox/payments/{id}");
    eventually("the payment is taken", async || {
        let answer = api.post(&path, &json!({ "action": "pay" })).await;
        assert!([204, 503].contains(&answer.status), "{answer:?}");
        answer.status == 204
    })
    .await;
}

/// Counts what the page posts to addresses that end so, also across pages.
async fn count_posts(browser: &Browser, end: &str) {
    let counting = format!(
        "(window.fetch = (fetch => (path, options) => {{
            if (options?.method === 'POST' && path.endsWith('{end}'))
                sessionStorage.posts = Number(sessionStorage.posts ?? 0) + 1;
            return fetch(path, options);
        }})(window.fetch), true)"
    );
    browser.value(&counting).await;
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
    assert_eq!(browser.value("document.querySelector('.buy').checkVisibility()").await, false);
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
    assert_eq!(browser.value("document.querySelector('#choices').checkVisibility()").await, false);

    browser.click("#to-orders").await;
    browser.until_text("#order-list .order-status", "Paid").await;
    browser.until_text("#order-list .order-amount", "¥80.00").await;
    let pay = "document.querySelector('#order-list .pay').checkVisibility()";
    assert_eq!(browser.value(pay).await, false);
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
async fn an_order_expires_before_its_buyers_eyes() {
    let (api, _) = shop().await;
    let browser = bought(&api).await;
    time_is_over(&api.world).await;
    browser.until_text(MESSAGE, "Your order is cancelled: it was not paid in time.").await;
    browser.until_text(BUY, "Buy now").await;
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "Reserved for you.").await;
    browser.until_text(TIME_LEFT, "Pay within 1").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_paid_or_cancelled_elsewhere_shows_without_a_reload() {
    let (api, voucher) = shop().await;
    let browser = bought(&api).await;
    let order = only_order(&api).await;
    post_as(&api, 1, &format!("/api/orders/{order}/cancellation")).await.is(200);
    browser.until_text(MESSAGE, "Your order is cancelled.").await;
    pause_is_over(&api).await;
    // Bought elsewhere: this page asks when somebody comes back to it.
    api.buy(1, voucher.id).await.is(201);
    browser.value("dispatchEvent(new Event('focus'))").await;
    browser.until_shown(PAY).await;
    let newest = orders(&api).await[0]["order_id"].as_str().unwrap().to_owned();
    let payment = post_as(&api, 1, &format!("/api/orders/{newest}/payments")).await;
    take_payment(&api, payment.text_of("payment_id")).await;
    browser.until_text(MESSAGE, &format!("It is yours. Order {newest}")).await;
    browser.until_text(BUY, "Bought").await;
    browser.close().await;
}

/// The state stays `used`: that the money went back is news all the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_used_and_charged_back_says_so_without_a_reload() {
    let (api, _) = shop().await;
    let browser = bought(&api).await;
    let payment = pay_elsewhere(&api).await;
    let path = format!("/api/orders/{}/redemption", only_order(&api).await);
    let token = api.world.admin_token(2).await;
    api.send(api.request("POST", &path).bearer_auth(&token)).await.is(200);
    browser.click(".tabs a[href='#orders']").await;
    browser.until_text("[data-order=used] .order-status", "Redeemed").await;
    notify(&api, &returned("charged_back", &payment)).await;
    browser.value("dispatchEvent(new Event('focus'))").await;
    let status = "[data-order=charged_back] .order-status";
    browser.until_text(status, "Redeemed, charged back").await;
    for scheme in ["light", "dark"] {
        browser.prefers(scheme).await;
        assert_eq!(browser.value(POOR_CONTRAST).await, json!([]), "{scheme}");
    }
    // The longest state leaves the title and the id their room.
    for size in [DESKTOP, (320, 640), PHONE] {
        browser.resize(size).await;
        browser.until("document.documentElement.scrollWidth <= innerWidth").await;
        browser.until("document.querySelector('#order-list .order').offsetHeight < 200").await;
    }
    browser.open(&format!("http://{}/?lang=zh-CN#orders", api.address)).await;
    browser.until_text(status, "已使用，已退款").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_button_that_is_pressed_twice_does_its_work_once() {
    let (api, _) = shop().await;
    let browser = bought(&api).await;
    count_posts(&browser, "/payments").await;
    browser.value(&format!("document.querySelectorAll('{PAY}').forEach(button => {{ button.click(); button.click() }})")).await;
    browser.until_text("h1", "Sandbox payment").await;
    assert_eq!(browser.value("sessionStorage.posts").await, "1");
    browser.until_shown("[data-action=pay]").await;
    browser.value("delete sessionStorage.posts").await;
    let id = browser.value("location.pathname.split('/').at(-1)").await;
    count_posts(&browser, id.as_str().unwrap()).await;
    let twice = "(button => { button.click(); button.click() })(document.querySelector('[data-action=decline]'))";
    browser.value(twice).await;
    browser.until_text("#result", "Declined").await;
    assert_eq!(browser.value("sessionStorage.posts").await, "1");
    // One question, and one cancellation.
    browser.open(&format!("http://{}/", api.address)).await;
    browser.until_shown(CANCEL).await;
    browser.value("delete sessionStorage.posts").await;
    count_posts(&browser, "/cancellation").await;
    let twice = format!(
        "(button => {{ button.click(); button.click() }})(document.querySelector('{CANCEL}'))"
    );
    browser.value(&twice).await;
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
async fn money_that_comes_too_late_revives_the_order_or_goes_back() {
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

    // What its buyer has cancelled stays cancelled.
    let (api, _) = shop().await;
    let other = bought(&api).await;
    other.click(PAY).await;
    other.until_text("#order-state", "To be paid").await;
    let order = only_order(&api).await;
    post_as(&api, 1, &format!("/api/orders/{order}/cancellation")).await.is(200);
    other.until_text("#result", "not waiting for money any more. It is now: Cancelled").await;
    // Somebody holds the row: the page goes on saying that it is to be tried again.
    let row = api.world.hold_the_row().await;
    other.click("[data-action=pay]").await;
    other.until_text("#result", "Try again in a moment.").await;
    row.close().await.unwrap();
    let mut said = String::new();
    eventually("the money goes back", async || {
        if said.contains("Try again") {
            other.click("[data-action=pay]").await;
        }
        let result = other.value("document.querySelector('#result').innerText").await;
        said = result.as_str().unwrap().to_owned();
        said.contains("The money goes back: the order was cancelled")
    })
    .await;
    other.close().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandbox_says_that_a_payment_is_not_there() {
    let (api, _) = shop().await;
    let browser = Browser::new("zh-CN", PHONE).await;
    for id in ["7.661897216000000001.1", "nothing", "%E2%82%AC"] {
        browser.open(&format!("http://{}/sandbox/payments/{id}", api.address)).await;
        browser.until_text("main", "没有这笔支付").await;
        assert_eq!(
            browser.value("document.querySelector('#payment').checkVisibility()").await,
            false
        );
    }
    browser.click("#to-orders").await;
    browser.until_shown("#orders-view").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_the_page_did_not_know_of_is_told_in_words() {
    let (api, _) = shop().await;
    let browser = bought(&api).await;
    // The page cannot look.
    browser.value("(window.fetch = (fetch => (path, options) => options?.method === 'GET'
        && path.startsWith('/api/orders') ? Promise.reject(new TypeError('cut')) : fetch(path, options))(window.fetch), true)").await;
    pay_elsewhere(&api).await;
    browser.click(CANCEL).await;
    browser.click(YES).await;
    browser.until_text(MESSAGE, "That is not possible any more. The order is now: Paid.").await;
    browser.until_text(BUY, "Bought").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_leaves_it_open_until_the_server_has_said() {
    let (api, _) = shop().await;
    let network = Proxy::before(&api.address.to_string()).await.unwrap();
    let browser = visited_at(&network.address(), &api, 1).await;
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "Reserved for you.").await;
    for (button, said) in [
        (PAY, "before the payment page could be opened"),
        (CANCEL, "not known whether the order is cancelled"),
    ] {
        browser.until_text("#connection", "Live").await;
        network.break_by(Fault::Down);
        browser.click(button).await;
        if button == CANCEL {
            browser.click(YES).await;
        }
        browser.until_text(MESSAGE, said).await;
        assert_eq!(browser.value("document.querySelector('.pay').disabled").await, true);
        network.break_by(Fault::None);
        browser.until_text(MESSAGE, "still unpaid and not cancelled").await;
        assert_eq!(statuses(&api).await, ["unpaid"]);
    }
    // This time the server has done it, and only its answer is lost.
    cancel_with_lost_answer(&browser, "").await;
    browser.close_after_cuts().await;
}

/// The server cancels the order, and its answer is lost when `meanwhile` has ended.
async fn cancel_with_lost_answer(browser: &Browser, meanwhile: &str) {
    let cut = format!(
        "(window.fetch = (fetch => async (path, options) => {{
            const answer = await fetch(path, options);
            if (!path.endsWith('/cancellation')) return answer;
            {meanwhile}
            window.isCut = true;
            throw new TypeError('cut');
        }})(window.fetch), true)"
    );
    browser.value(&cut).await;
    browser.click(CANCEL).await;
    browser.click(YES).await;
    browser.until("window.isCut").await;
    browser.until_text(MESSAGE, "Your order is cancelled.").await;
    browser.until_text(BUY, "Buy now").await;
}

/// The page asks by itself, and learns that the order is cancelled before it hears that the answer is lost.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_page_has_learnt_is_not_unknown_when_an_answer_is_lost_after_it() {
    let (api, _) = shop().await;
    let browser = visited(&api, 1).await;
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "Reserved for you.").await;
    let asks = "dispatchEvent(new Event('focus'));
        const said = () => document.querySelector('#vouchers .message').innerText;
        while (!said().includes('cancelled')) await new Promise(resolve => setTimeout(resolve, 10));";
    cancel_with_lost_answer(&browser, asks).await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_is_paused_sells_nothing_until_it_goes_on() {
    let (api, voucher) = shop().await;
    let browser = visited(&api, 1).await;
    browser.until_text(BUY, "Buy now").await;
    let token = api.world.admin_token(2).await;
    let change = async |body: Value| {
        let path = format!("/api/vouchers/{}", voucher.id);
        api.send(api.request("PATCH", &path).bearer_auth(&token).json(&body)).await.is(200);
    };
    change(json!({ "paused": true })).await;
    browser.until_text(".badge", "Paused").await;
    assert_eq!(browser.value("document.querySelector('.buy').disabled").await, true);
    change(json!({ "paused": false, "price": 0, "terms": "", "subtitle": "" })).await;
    browser.until_text(BUY, "Buy now").await;
    browser.until_text(".price", "Free").await;
    assert_eq!(browser.value("document.querySelector('.terms').checkVisibility()").await, false);
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "It is yours. Order").await;
    assert_eq!(statuses(&api).await, ["paid"]);
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unpaid_orders_and_the_sandbox_can_be_read_on_every_screen() {
    let (api, _) = shop().await;
    let browser = bought(&api).await;
    let look = async |what: &str| {
        for scheme in ["light", "dark"] {
            browser.prefers(scheme).await;
            assert_eq!(browser.value(POOR_CONTRAST).await, json!([]), "{what} {scheme}");
        }
        for size in [PHONE, DESKTOP, (320, 640)] {
            browser.resize(size).await;
            browser.until("document.documentElement.scrollWidth <= innerWidth").await;
        }
        let unnamed = "[...document.querySelectorAll('button, a, input')].filter(element =>
            !(element.innerText || element.textContent || element.labels?.length)).length";
        assert_eq!(browser.value(unnamed).await, 0, "{what}");
    };
    look("card").await;
    browser.click(CANCEL).await;
    browser.until_shown(YES).await;
    look("question").await;
    browser.click("#question [value=no]").await;
    browser.click(".tabs a[href='#orders']").await;
    browser.until_shown("#order-list .pay").await;
    look("orders").await;
    browser.click("#order-list .pay").await;
    until_at_the_sandbox(&browser).await;
    browser.until_shown("[data-action=pay]").await;
    look("sandbox").await;
    browser.close().await;
}
