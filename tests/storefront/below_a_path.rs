//! A shop below a path of its host, where another shop may stand, in a real browser.

use crate::api::base_path::shop;
use crate::storefront::payments::PAY;
use crate::storefront::sale::{BUY, MESSAGE};
use testkit::shop::web_driver::{Browser, PHONE};

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_buys_pays_and_looks_around_below_a_path() {
    let api = shop(1).await;
    let place = format!("http://{}/shop", api.address);
    let browser = Browser::new("en", PHONE).await;
    browser.open(&place).await;
    browser.value("localStorage.setItem('session', 'of another shop')").await;
    browser.until("document.querySelector('#connection').dataset.state === 'live'").await;
    browser.click(BUY).await;
    browser.fill("#phone", "138 0013 8000").await;
    browser.click("#phone-form [type=submit]").await;
    browser.until_text("#sent-to", "on their way to 13800138000").await;
    browser.fill("#code", &api.last_code()).await;
    browser.click("#code-form [type=submit]").await;
    browser.until_text(MESSAGE, "Reserved for you. Order ").await;
    browser.click(PAY).await;
    browser.until_text("h1", "Sandbox payment").await;
    browser.click("[data-action=pay]").await;
    browser.until_text("#result", "Paid. The order is yours.").await;
    browser.click("#to-orders").await;
    browser.until_text("#order-list .order-status", "Paid").await;
    assert_eq!(browser.value("location.pathname").await, "/shop/");
    browser.reload().await;
    browser.until_text("#order-list .order-status", "Paid").await;
    assert_eq!(browser.value("localStorage.getItem('session')").await, "of another shop");

    browser.open(&format!("{place}/docs/")).await;
    browser.until_shown("[data-path='/api/login-codes']").await;
    browser.click("nav a").await;
    browser.until_text("h1", "Shop").await;

    let token = api.world.admin_token(99).await;
    browser.open(&format!("{place}/board#token={token}")).await;
    browser.until_shown("#sale-state").await;
    browser.until_shown("#live.kept").await;
    browser.close().await;
}
