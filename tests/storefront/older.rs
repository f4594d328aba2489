//! More sales in the shop than its first page has. In a real browser.

use chrono::TimeDelta;
use serde_json::json;

use crate::storefront::stillness::{SAYS_NOTHING_IS_ON, sale, titles};
use testkit::shop::api_client::Api;
use testkit::shop::web_driver::{Browser, PHONE};
use testkit::shop::world::World;

const AGO: TimeDelta = TimeDelta::hours(-1);

async fn opened(api: &Api) -> Browser {
    let browser = Browser::new("en", PHONE).await;
    browser.open(&format!("http://{}/", api.address)).await;
    browser.until_text("#connection", "Live").await;
    browser
}

/// Sales on the newest page, which are sold out.
async fn first_page(world: &World) {
    for number in 1..=20 {
        sale(world, &format!("Newer {number}"), 0, AGO, 0).await;
    }
}

/// A script that finds what the card of this title says of its stock.
fn stock_of(title: &str) -> String {
    format!(
        "[...document.querySelectorAll('.card')]
            .find(card => card.querySelector('h2').textContent === '{title}')
            ?.querySelector('.stock').textContent"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_sale_that_is_on_is_found_and_changes_before_ones_eyes() {
    let api = Api::with_users(2).await;
    let tea = sale(&api.world, "Tea", 2, AGO, 0).await;
    sale(&api.world, "Ended", 5, TimeDelta::days(-3), 0).await;
    sale(&api.world, "Tomorrow", 5, TimeDelta::days(1), 0).await;
    first_page(&api.world).await;
    let browser = opened(&api).await;
    browser.until_text("#over-count", "Over (20)").await;
    browser.until_shown("#more-vouchers").await;
    // An older one may be on.
    assert_eq!(browser.value(SAYS_NOTHING_IS_ON).await, false);
    let place = "scrollY + document.querySelector('#more-vouchers').getBoundingClientRect().y";
    let before = browser.value(place).await;
    browser.click("#more-vouchers").await;
    // Not as they were made: first what can be bought.
    let older = json!(["Tea", "Tomorrow"]);
    browser.until(&format!("{}.length > 0", titles("older-vouchers"))).await;
    assert_eq!(browser.value(&titles("older-vouchers")).await, older);
    // Nothing is older, and still the button keeps its place.
    assert_eq!(browser.value(place).await, before);
    let is_seen =
        "document.querySelector('#more-vouchers').checkVisibility({ visibilityProperty: true })";
    browser.until(&format!("!{is_seen}")).await;
    browser.until_text("#over-count", "Over (21)").await;
    assert_eq!(browser.value("document.querySelector('#over').open").await, false);

    api.buy(1, tea).await.is(201);
    browser.until(&format!("{} === '1 of 2 left'", stock_of("Tea"))).await;
    api.buy(2, tea).await.is(201);
    browser.until_text("#older-vouchers .badge", "Sold out").await;
    // Nothing moves at it.
    assert_eq!(browser.value(&titles("older-vouchers")).await, older);
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn older_sales_that_are_all_over_open_the_fold_and_then_nothing_is_on() {
    let api = Api::new().await;
    let tea = sale(&api.world, "Tea", 0, AGO, 0).await;
    first_page(&api.world).await;
    let browser = opened(&api).await;
    browser.until_shown("#more-vouchers").await;
    browser.click("#more-vouchers").await;
    browser.until_text("#over-vouchers .card:last-child h2", "Tea").await;
    browser.until(SAYS_NOTHING_IS_ON).await;
    // Its stock comes back.
    let more = "update seckill_vouchers set stock = 1, initial_stock = 1, revision = revision + 1
        where voucher_id = $1";
    sqlx::query(more).bind(tea.get()).execute(api.world.database.pool()).await.unwrap();
    browser.until_text("#new-sales", "1 sale is on again").await;
    browser.until(&format!("!{SAYS_NOTHING_IS_ON}")).await;
    browser.close().await;
}
