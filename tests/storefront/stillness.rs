//! The list of sales in the shop: its order, and that nothing in it moves under a finger. In a real browser.

use chrono::TimeDelta;
use seckill::model::VoucherId;
use seckill::model::voucher_terms::{NewVoucher, VoucherChange};
use seckill::store::vouchers;
use serde_json::{Value, json};

use crate::storefront::sale::{BUY, MESSAGE, visited};
use testkit::shop::api_client::Api;
use testkit::shop::web_driver::{Browser, DESKTOP, PHONE};
use testkit::shop::world::{ADMIN_PHONE, World, midnight};
use testkit::wait::eventually;

/// The titles of the cards in a list, in their order.
pub fn titles(list: &str) -> String {
    format!("[...document.querySelectorAll('#{list} h2')].map(title => title.textContent)")
}

/// Where everything is that can be seen of the list, from the top of the page.
const PLACES: &str = "JSON.stringify([...document.querySelectorAll(
    '.hero, .bar, .line, .card, .card > *, #nothing-on, #over, #more-vouchers')]
    .filter(element => element.checkVisibility())
    .map(element => [element.classList[0], scrollY + element.getBoundingClientRect().y,
        element.getBoundingClientRect().height]))";

/// Whether the list says that nothing is on sale.
pub const SAYS_NOTHING_IS_ON: &str =
    "document.querySelector('#nothing-on').checkVisibility({ visibilityProperty: true })";

/// Puts a voucher on sale from this second of the test's day to two days later.
pub async fn sale(
    world: &World,
    title: &str,
    stock: i32,
    begins_in: TimeDelta,
    price: i64,
) -> VoucherId {
    let begin = midnight() + begins_in;
    let free = NewVoucher::free(title, stock, begin, begin + TimeDelta::days(2));
    let new = NewVoucher { price: Some(price), ..free };
    world.new_voucher(&new).await.id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shop_without_a_sale_says_so_and_shows_the_first_one_by_itself() {
    let api = Api::new().await;
    let browser = Browser::new("en", PHONE).await;
    browser.open(&format!("http://{}/", api.address)).await;
    // A hidden element "reads" its text, too: that it can be seen is the point.
    browser.until_shown("#nothing-yet").await;
    assert!(browser.text("#nothing-yet").await.starts_with("Nothing is on sale yet"));
    sale(&api.world, "Tea for one", 5, TimeDelta::hours(-1), 0).await;
    browser.until_text(".card h2", "Tea for one").await;
    assert!(!browser.shows("#nothing-yet").await);
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_sale_waits_behind_a_button_and_no_card_moves() {
    let api = Api::with_users(3).await;
    let first = sale(&api.world, "Tea for one", 1, TimeDelta::hours(-1), 0).await;
    sale(&api.world, "Cake", 5, TimeDelta::hours(5), 0).await;
    for size in [PHONE, DESKTOP] {
        let browser = visited(&api, 1).await;
        browser.resize(size).await;
        browser.until_text("#connection", "Live").await;
        let (before, order) =
            (browser.value(PLACES).await, browser.value(&titles("vouchers")).await);
        sale(&api.world, "Tea for two", 5, TimeDelta::hours(-1), 8_000).await;
        browser.until_text("#new-sales", "1 new sale").await;
        sale(&api.world, "Tea for three", 5, TimeDelta::hours(2), 0).await;
        browser.until_text("#new-sales", "2 new sales").await;
        // Nor does one whose sale is over.
        if size == PHONE {
            api.buy(2, first).await.is(201);
            browser.until_text(BUY, "Sold out").await;
        }
        assert_eq!(browser.value(PLACES).await, before);
        assert_eq!(browser.value(&titles("vouchers")).await, order);
        browser.click("#new-sales").await;
        browser.until("document.activeElement.textContent === 'Tea for two'").await;
        browser.until(&format!("{}[0] === 'Tea for two'", titles("vouchers"))).await;
        browser.until_text("#over-count", "Over (1)").await;
        assert_eq!(browser.text("#new-sales").await, "");
        browser.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_a_purchase_has_its_place_and_is_in_view() {
    let api = Api::with_users(3).await;
    for (title, price) in [("Tea", 0), ("Cake", 12_345_600), ("Dinner", 0), ("Lunch", 100)] {
        sale(&api.world, title, 5, TimeDelta::hours(-1), price).await;
    }
    for (user, size) in (1..).zip([DESKTOP, PHONE, (320, 640)]) {
        let browser = visited(&api, user).await;
        browser.resize(size).await;
        let before = browser.value(PLACES).await;
        for title in ["Tea", "Cake"] {
            // Its button is the last thing that can be seen.
            let press = format!(
                "(card => {{
                    document.querySelector('#pressed')?.removeAttribute('id');
                    card.id = 'pressed';
                    card.querySelector('.buy').scrollIntoView({{ block: 'end' }});
                    return scrollY;
                }})([...document.querySelectorAll('.card')]
                    .find(card => card.querySelector('h2').textContent === '{title}'))"
            );
            let at = browser.value(&press).await;
            browser.click("#pressed .buy").await;
            browser.until_text("#pressed .message", "Order ").await;
            let in_view = "(({ top, bottom }) => top >= 0 && bottom <= innerHeight)(
                document.querySelector('#pressed .message').getBoundingClientRect())";
            assert_eq!(browser.value(in_view).await, true, "{title} {size:?}");
            assert_eq!(browser.value("scrollY").await, at, "{title} {size:?}");
        }
        assert_eq!(browser.value(PLACES).await, before, "{size:?}");
        browser.until_text("#pressed .pay", "Pay ¥123,456.00").await;
        browser.click("#pressed .cancel").await;
        browser.click("#question [value=yes]").await;
        browser.until_text("#pressed .message", "Your order is cancelled").await;
        assert_eq!(browser.value(PLACES).await, before, "{size:?}");
        browser.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_seconds_of_a_countdown_are_red() {
    let api = Api::with_users(1).await;
    sale(&api.world, "Tea", 5, TimeDelta::minutes(30), 0).await;
    let browser = visited(&api, 1).await;
    let colour = "getComputedStyle(document.querySelector('.digits')).color";
    browser.prefers("light").await;
    browser.until("document.querySelector('.countdown').dataset.soon === 'false'").await;
    let calm = browser.value(colour).await;
    api.world.set_time(midnight() + TimeDelta::seconds(30 * 60 - 9)).await;
    browser.until("document.querySelector('.countdown').dataset.soon === 'true'").await;
    let red = browser.value(colour).await;
    assert_ne!(red, calm);
    assert_eq!(red, "rgb(156, 31, 43)");
    // A user who wants no motion sees the colour alone. The page's clock runs on while the server's stands still: a page
    // that is loaded anew has nine seconds again.
    let motion = |name: &str| {
        format!(
            "document.querySelector('.countdown')?.dataset.soon === 'true'
                && getComputedStyle(document.querySelector('.digits')).animationName === '{name}'"
        )
    };
    for (features, name) in [
        (json!([{ "name": "prefers-reduced-motion", "value": "reduce" }]), "none"),
        (json!([]), "beat"),
    ] {
        browser.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
        browser.reload().await;
        browser.until(&motion(name)).await;
    }
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn titles_stay_in_their_places_on_a_narrow_screen() {
    let api = Api::with_users(1).await;
    let long = "x".repeat(200);
    let turned = "abc\u{202e}gnp.exe";
    let mut ids = Vec::new();
    for title in [long.as_str(), turned] {
        ids.push(sale(&api.world, title, 5, TimeDelta::hours(-1), 100).await);
    }
    for id in ids {
        api.buy(1, id).await.is(201);
    }
    let browser = visited(&api, 1).await;
    let isolated = |selector: &str| {
        format!(
            "[...document.querySelectorAll('{selector}')].every(title => getComputedStyle(title).unicodeBidi === 'isolate')"
        )
    };
    browser.resize((320, 640)).await;
    browser.until_text("#vouchers", turned).await;
    browser.fits().await;
    assert_eq!(browser.value(&isolated(".card h2")).await, true);
    browser.click(".tabs a[href='#orders']").await;
    browser.until_text("#order-list", &long).await;
    browser.fits().await;
    assert_eq!(browser.value(&isolated(".order strong")).await, true);
    browser.click("#order-list .pay").await;
    browser.until_shown("[data-action=pay]").await;
    browser.fits().await;

    let token = api.world.admin_token(99).await;
    browser.open(&format!("http://{}/board#token={token}", api.address)).await;
    browser.until_shown("#board").await;
    let options = "[...document.querySelectorAll('#voucher option')].map(option => option.text)";
    browser.until(&format!("{options}.length === 2")).await;
    let [newer, older] = [turned, long.as_str()].map(|title| format!("\u{2068}{title}\u{2069} ("));
    let shown = browser.value(options).await;
    assert!(shown[0].as_str().unwrap().starts_with(&newer), "{shown}");
    assert!(shown[1].as_str().unwrap().starts_with(&older), "{shown}");
    browser.until_text("#figure-left", "4 of 5").await;
    browser.fits().await;
    browser.close().await;
}

/// Logs in on the board as its administrator.
async fn log_in_on_the_board(api: &Api, browser: &Browser) {
    browser.open(&format!("http://{}/board", api.address)).await;
    browser.fill("#phone", ADMIN_PHONE).await;
    browser.click("#phone-form [type=submit]").await;
    browser.until_text("#sent-to", "on their way").await;
    browser.fill("#code", &api.last_code()).await;
    browser.click("#code-form [type=submit]").await;
    browser.until_shown("#board").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_and_the_board_have_a_login_each() {
    let api = Api::with_users(1).await;
    api.world.voucher(5).await;
    api.world.admin_token(99).await;
    let browser = visited(&api, 1).await;
    let buyer = "localStorage.getItem('session')";
    let kept = browser.value(buyer).await;
    log_in_on_the_board(&api, &browser).await;
    assert_eq!(browser.value(buyer).await, kept);
    browser.click("#logout").await;
    browser.until_shown("#login").await;
    browser.open(&format!("http://{}/", api.address)).await;
    browser.until_text("#user-phone", "139****0001").await;
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "It is yours").await;

    // And the other way round.
    log_in_on_the_board(&api, &browser).await;
    browser.open(&format!("http://{}/", api.address)).await;
    browser.until_text("[data-owned=true] .buy", "Bought").await;
    let before = browser.value(PLACES).await;
    browser.click("#log-out").await;
    browser.until_text("#account-notice", "You are logged out").await;
    browser.until_text(BUY, "Buy now").await;
    assert_eq!(browser.value(PLACES).await, before);
    browser.open(&format!("http://{}/board", api.address)).await;
    browser.until_text("#figure-left", "4 of 5").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_whose_stock_comes_back_is_announced_and_shown_again() {
    let api = Api::with_users(1).await;
    let tea = sale(&api.world, "Tea for one", 1, TimeDelta::hours(-1), 0).await;
    api.buy(1, tea.get()).await.is(201);
    let browser = Browser::new("en", DESKTOP).await;
    browser.open(&format!("http://{}/", api.address)).await;
    browser.until_shown("#nothing-on").await;
    browser.until_text("#connection", "Live").await;
    let before = browser.value(PLACES).await;
    let more = VoucherChange { more_stock: 1, ..VoucherChange::default() };
    vouchers::change(api.world.database.pool(), tea, &more, None).await.unwrap();
    browser.until_text("#new-sales", "1 sale is on again").await;
    // It is not said any more, and keeps its place until somebody has the cards arranged.
    browser.until(&format!("!{SAYS_NOTHING_IS_ON}")).await;
    assert_eq!(browser.value(PLACES).await, before);
    assert_eq!(browser.value(&titles("vouchers")).await, json!([]));
    browser.click("#new-sales").await;
    assert_eq!(browser.value(&titles("vouchers")).await, json!(["Tea for one"]));
    assert!(!browser.shows("#over").await);
    browser.close().await;
}

/// Waits until the list, which the server keeps for a moment, says that so many are left.
pub async fn until_listed(api: &Api, sale: VoucherId, left: i32) {
    eventually(&format!("{left} of {sale} are listed"), async || {
        let listed = api.get("/api/vouchers").await.body;
        let is_so = |it: &Value| it["id"] == json!(sale) && it["stock"] == left;
        listed.as_array().unwrap().iter().any(is_so)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_moves_when_the_last_open_sale_sells_out() {
    let api = Api::with_users(2).await;
    sale(&api.world, "Ended", 5, TimeDelta::days(-3), 0).await;
    for size in [PHONE, DESKTOP] {
        let tea = sale(&api.world, "Tea for one", 1, TimeDelta::hours(-1), 0).await;
        until_listed(&api, tea, 1).await;
        let browser = visited(&api, 1).await;
        browser.resize(size).await;
        browser.until_text("#vouchers h2", "Tea for one").await;
        browser.until_text("#connection", "Live").await;
        // A card that stands below all that may come and go.
        browser.click("#over-count").await;
        browser.until_shown("#over-vouchers .card").await;
        let before = browser.value(PLACES).await;
        api.buy(2, tea).await.is(201);
        browser.until_text("#vouchers .badge", "Sold out").await;
        assert_eq!(browser.value(PLACES).await, before, "{size:?}");
        // That nothing is on is said when the cards are arranged.
        until_listed(&api, tea, 0).await;
        browser.reload().await;
        browser.until(SAYS_NOTHING_IS_ON).await;
        browser.close().await;
    }
}
