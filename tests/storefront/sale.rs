//! The shop, in a real browser.

use chrono::TimeDelta;
use faults::{Fault, Proxy};
use seckill::model::Voucher;
use serde_json::json;
use sqlx::Connection;

use testkit::shop::api_client::{Api, another_code};
use testkit::shop::web_driver::{Browser, ENTER, PHONE, TAB};
use testkit::shop::world::{World, midnight};
use testkit::wait::eventually;

pub const BUY: &str = "#vouchers .buy";
pub const MESSAGE: &str = "#vouchers .message";

/// A shop with a voucher on sale and users 1 to 3.
async fn shop(world: World) -> (Api, Voucher) {
    world.users(3).await;
    let voucher = world.voucher(2).await;
    (Api::of(world).await, voucher)
}

/// The shop as somebody sees it who has come before, as this user; as a stranger for 0.
pub async fn visited(api: &Api, user: i64) -> Browser {
    visited_at(&api.address.to_string(), api, user).await
}

pub async fn visited_at(address: &str, api: &Api, user: i64) -> Browser {
    let browser = Browser::new("en", PHONE).await;
    browser.open(&format!("http://{address}/")).await;
    if user > 0 {
        let session =
            json!({ "token": api.world.token(user), "phone": format!("1390000000{user}") });
        let keep = format!("localStorage.setItem('session', {})", json!(session.to_string()));
        browser.value(&keep).await;
        browser.reload().await;
        browser.until_shown("#log-out").await;
    }
    browser.until_shown(".card").await;
    browser
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_speaks_the_language_of_its_reader_and_keeps_the_one_that_was_chosen() {
    let address = Api::shared().await.address;
    let browser = Browser::new("zh-CN", PHONE).await;
    browser.open(&format!("http://{address}/")).await;
    browser.until_text("h1", "商城").await;
    assert_eq!(browser.value("document.documentElement.lang").await, "zh-CN");
    browser.click("#language").await;
    browser.until_text("h1", "Shop").await;
    assert_eq!(browser.value("document.documentElement.lang").await, "en");
    // The choice is kept, also for an address that says nothing of it.
    browser.open(&format!("http://{address}/")).await;
    browser.until_text("h1", "Shop").await;
    browser.until("location.search === '?lang=en'").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_logs_in_buys_and_finds_the_order_after_a_reload() {
    let (api, voucher) = shop(World::new().await).await;
    let browser = visited(&api, 0).await;
    // One click: what was wanted is bought as soon as somebody is logged in.
    browser.click(BUY).await;
    browser.fill("#phone", "12").await;
    browser.click("#phone-form [type=submit]").await;
    browser.until_text("#login-notice", "This is no phone number").await;
    browser.fill("#phone", "138 0013 8000").await;
    browser.click("#phone-form [type=submit]").await;
    browser.until_text("#sent-to", "on their way to 13800138000").await;
    // The page does not know the code.
    let code = api.last_code();
    let page = browser.value("document.documentElement.outerHTML").await;
    assert!(!page.as_str().unwrap().contains(&code));
    browser.fill("#code", &another_code(&code)).await;
    browser.click("#code-form [type=submit]").await;
    browser.until_text("#login-notice", "The code is wrong").await;
    browser.fill("#code", &code).await;
    browser.click("#code-form [type=submit]").await;
    browser.until_text(MESSAGE, "It is yours. Order ").await;
    browser.until_text(BUY, "Bought").await;
    browser.until_text(".stock", "1 of 2 left").await;
    let said = browser.text(MESSAGE).await;
    let order = said.rsplit(' ').next().unwrap().to_owned();
    assert!(order.parse::<i64>().is_ok_and(|id| id > 1 << 53), "{said}");

    browser.click(".tabs a[href='#orders']").await;
    browser.until_text("#order-list .order-id", &order).await;
    browser.until_text("#order-list", &voucher.title).await;
    browser.reload().await;
    browser.until_text("#order-list .order-id", &order).await;
    browser.back().await;
    browser.until_text(MESSAGE, &order).await;
    assert_eq!(browser.value("document.querySelector('.buy').disabled").await, true);

    let kept = browser.value("JSON.parse(localStorage.getItem('session')).token").await;
    let token = kept.as_str().unwrap();
    api.call("GET", "/api/me", token).await.is(200);
    browser.click("#log-out").await;
    browser.until_text("#account-notice", "You are logged out, on all devices").await;
    api.call("GET", "/api/me", token).await.problem(401, "unauthenticated");
    browser.until_text(BUY, "Buy now").await;
    browser.until_text(MESSAGE, "").await;
    assert_eq!(browser.value("localStorage.getItem('session')").await, json!(null));
    assert!(api.world.audit().await.holds);
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_is_a_sentence_in_the_language_of_the_page() {
    let (api, voucher) = shop(World::new().await).await;
    let browser = visited(&api, 1).await;
    browser.click("#language").await;
    browser.until_text(BUY, "立即抢购").await;
    // Bought in another window.
    api.buy(1, voucher.id).await.is(201);
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "用户已经购买过一次。抢购成功，订单号 ").await;
    // A token that is good no more.
    let session = json!({ "token": "gone", "phone": "13900000009" }).to_string();
    let keep = format!("localStorage.setItem('session', {})", json!(session));
    browser.value(&keep).await;
    browser.reload().await;
    browser.until_shown("#log-in").await;
    browser.until_text(BUY, "立即抢购").await;
    // In one step: a question that the page asks by itself meanwhile would end the session before the click.
    browser.value(&format!("{keep}, document.querySelector('{BUY}').click()")).await;
    browser.until_text("#login-notice", "请先登录").await;
    browser.close().await;
}

/// The server's clock is in another year than the browser's.
#[tokio::test(flavor = "multi_thread")]
async fn a_sale_begins_before_ones_eyes_and_nothing_on_the_page_moves() {
    let api = Api::with_users(1).await;
    let begin = midnight() + TimeDelta::minutes(30);
    let voucher = api.world.voucher_between(5, begin, begin + TimeDelta::days(2)).await;
    let browser = visited(&api, 1).await;
    browser.until("/^00:(30:00|29:)/.test(document.querySelector('.digits').innerText)").await;
    assert!(!browser.shows(".buy").await);
    let places = "JSON.stringify([...document.querySelectorAll('.card, .card .action, .card .when, .card .stock')]
        .map(element => element.getBoundingClientRect()))";
    let before = browser.value(places).await;
    api.world.set_time(begin).await;
    browser.until_text(BUY, "Buy now").await;
    assert_eq!(browser.value(places).await, before);
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "It is yours").await;
    assert!(api.world.audit().await.holds && voucher.stock == 5);
    browser.close().await;
}

/// Here the server's clock stands still, three seconds before the sale: to a page whose countdown has
/// ended it says that it is too early.
#[tokio::test(flavor = "multi_thread")]
async fn the_countdown_ends_by_itself_and_the_server_has_the_last_word() {
    let api = Api::with_users(1).await;
    let begin = midnight() + TimeDelta::seconds(3);
    api.world.voucher_between(5, begin, begin + TimeDelta::days(2)).await;
    let browser = visited(&api, 1).await;
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "The sale has not begun").await;
    api.world.set_time(begin).await;
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "It is yours").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_is_asked_again_a_few_times_and_sells_when_it_can() {
    let (api, _) = shop(World::new().await).await;
    for (user, language, busy, asked, yours) in [
        (
            1,
            "en",
            "Buying",
            r"^The service is unavailable for a moment\. Next try in \d s \(2 of 4\)\.$",
            "It is yours",
        ),
        (
            2,
            "zh-CN",
            "正在抢购",
            r"^服务暂不可用，请稍后再试。\d 秒后重试（第 2 次，共 4 次）。$",
            "抢购成功",
        ),
    ] {
        let browser = visited(&api, user).await;
        browser.open(&format!("http://{}/?lang={language}", api.address)).await;
        let holder = api.world.hold_the_row().await;
        browser.click(BUY).await;
        let said = format!("document.querySelector('{MESSAGE}').innerText");
        browser.until(&format!("/{asked}/.test({said})")).await;
        browser.until_text(BUY, busy).await;
        // It gives up, and leaves the rest to the buyer.
        if user == 2 {
            browser.until_text(MESSAGE, "服务暂不可用，请稍后再试。可以再次点击重试。").await;
        }
        drop(holder);
        if user == 2 {
            browser.click(BUY).await;
        }
        browser.until_text(MESSAGE, yours).await;
        browser.close().await;
    }
    assert!(api.world.audit().await.holds);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_followed_by_the_order_that_was_placed() {
    let (api, _) = shop(World::new().await).await;
    let network = Proxy::before(&api.address.to_string()).await.unwrap();
    let browser = visited_at(&network.address(), &api, 1).await;
    api.world.wait_long_for_rows().await;
    let holder = api.world.hold_the_row().await;
    browser.click(BUY).await;
    let pool = api.world.database.pool();
    api.world.until_one_waits().await;
    network.break_by(Fault::Down);
    holder.close().await.unwrap();
    browser.until_text(MESSAGE, "The connection was lost").await;
    browser.until_text("#connection", "No connection").await;
    let is_placed = async || {
        let orders = sqlx::query_scalar::<_, i64>("select count(*) from orders");
        orders.fetch_one(pool).await.unwrap() == 1
    };
    eventually("the order is placed", is_placed).await;
    network.break_by(Fault::None);
    browser.until_text(MESSAGE, "It is yours. Order").await;
    browser.until_text("#connection", "Live").await;
    browser.close_after_cuts().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_logs_out_while_the_server_is_away_is_told_so() {
    let (api, _) = shop(World::new().await).await;
    let network = Proxy::before(&api.address.to_string()).await.unwrap();
    let browser = visited_at(&network.address(), &api, 1).await;
    browser.until_shown("#log-out").await;
    network.break_by(Fault::Down);
    browser.click("#log-out").await;
    browser.until_shown("#log-in").await;
    browser.until_text("#account-notice", "The server could not be told").await;
    assert_eq!(browser.value("localStorage.getItem('session')").await, json!(null));
    browser.close_after_cuts().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_refused_a_stream_asks_every_few_seconds() {
    let world = World { event_streams: 0, ..World::new().await };
    let (api, voucher) = shop(world).await;
    let browser = visited(&api, 1).await;
    browser.until_text("#connection", "Updated every 5 seconds").await;
    api.buy(2, voucher.id).await.is(201);
    browser.until_text(".stock", "1 of 2 left").await;
    browser
        .until("/^\\d{2}:\\d{2}:\\d{2}$/.test(document.querySelector('.when').innerText.slice(8))")
        .await;
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "It is yours").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_that_looks_like_html_is_text() {
    let (api, voucher) = shop(World::new().await).await;
    let title =
        "<script>document.title='broken'</script><img src=x onerror=document.title='broken'>";
    let naming = sqlx::query("update vouchers set title = $1").bind(title);
    naming.execute(api.world.database.pool()).await.unwrap();
    api.buy(1, voucher.id).await.is(201);
    let browser = visited(&api, 1).await;
    browser.until_text(".card h2", title).await;
    browser.click(".tabs a[href='#orders']").await;
    browser.until_text("#order-list", title).await;
    assert_eq!(browser.value("document.title").await, "Shop");
    assert_eq!(browser.count("main img, main script").await, 0);
    // Nor could a script of the page make HTML of it.
    let refused =
        "(() => { try { document.body.innerHTML = 'x'; return false } catch { return true } })()";
    assert_eq!(browser.value(refused).await, true);
    assert!(!browser.console().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_can_be_done_with_the_keyboard() {
    let (api, _) = shop(World::new().await).await;
    let browser = visited(&api, 0).await;
    let tab_to = async |selector: &str| {
        let has_focus = format!("document.activeElement.matches({})", json!(selector));
        for _ in 0..30 {
            if browser.value(&has_focus).await == json!(true) {
                return;
            }
            browser.press(TAB).await;
        }
        panic!("the focus never comes to {selector}");
    };
    browser.press(TAB).await;
    assert_eq!(browser.value("document.activeElement.className").await, "skip");
    tab_to("#log-in").await;
    browser.press(ENTER).await;
    browser.until("document.activeElement.id === 'phone'").await;
    browser.press("13800138000").await;
    browser.press(ENTER).await;
    browser.until("document.activeElement.id === 'code'").await;
    browser.press(&api.last_code()).await;
    browser.press(ENTER).await;
    browser.until_shown("#log-out").await;
    tab_to(".tabs a[href='#orders']").await;
    tab_to(".buy").await;
    // The ring that shows where the focus is.
    browser.until("getComputedStyle(document.activeElement).outlineStyle === 'solid'").await;
    browser.press(ENTER).await;
    browser.until_text(MESSAGE, "It is yours").await;
    browser.until("document.activeElement.matches('.message')").await;
    browser.close().await;
}
