//! The shop, the sandbox and the board in a browser that is as old as the oldest ones that are supported.

use testkit::shop::web_driver::{Browser, DESKTOP, PHONE};
use testkit::shop::world::World;
use testkit::wait::eventually;

use crate::board::sales::{order_of, server};
use crate::storefront::sale::{BUY, MESSAGE};

/// Takes the rules from the page that need a selector which those browsers do not know.
const WITHOUT_HAS: &str = "[...document.styleSheets].forEach((sheet) =>
    [...sheet.cssRules].map((rule, at) => [rule, at]).reverse().forEach(([rule, at]) =>
        rule.selectorText?.includes(':has') && sheet.deleteRule(at)))";

async fn opened(address: &str, size: (u32, u32)) -> Browser {
    let browser = Browser::new("en", size).await;
    browser.forget_what_is_new().await;
    browser.open(address).await;
    assert_eq!(browser.value("typeof AbortSignal.timeout").await, "undefined");
    browser
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_logs_in_buys_and_pays() {
    let (api, _) = server(World::new().await).await;
    let browser = opened(&format!("http://{}/", api.address), PHONE).await;
    browser.click(BUY).await;
    browser.fill("#phone", "13800138000").await;
    browser.click("#phone-form [type=submit]").await;
    browser.until_text("#sent-to", "on their way").await;
    browser.fill("#code", &api.last_code()).await;
    browser.click("#code-form [type=submit]").await;
    browser.until_text(MESSAGE, "Reserved for you. Order ").await;
    browser.value(WITHOUT_HAS).await;
    let when = "getComputedStyle(document.querySelector('.when')).visibility";
    assert_eq!(browser.value(when).await, "hidden");
    browser.click("#vouchers .cancel").await;
    browser.click("#question [value=no]").await;
    browser.until("document.activeElement.matches('.cancel')").await;
    browser.click("#vouchers .pay").await;
    browser.click("[data-action=pay]").await;
    browser.until_text("#result", "Paid. The order is yours.").await;
    browser.click("#to-orders").await;
    browser.until_text("#order-list", "Paid").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_watches_a_sale_and_saves_its_orders() {
    let (api, voucher) = server(World::new().await).await;
    order_of(&api, 1, &voucher).await;
    let token = api.world.admin_token(99).await;
    let browser = opened(&format!("http://{}/board#token={token}", api.address), DESKTOP).await;
    browser.until_text("#figure-left", "39 of 40").await;
    browser.until_text("#live", "Live").await;
    browser.until_shown("#order-rows [data-order]").await;
    let directory = tempfile::tempdir().unwrap();
    browser.save_to(directory.path()).await;
    browser.click("#orders-csv").await;
    let saved = directory.path().join(format!("orders-of-{}.csv", voucher.id));
    let is_saved =
        async || std::fs::read_to_string(&saved).is_ok_and(|text| text.lines().count() == 2);
    eventually("the order is saved", is_saved).await;
    browser.close_quietly().await;
}
