//! Another sale is chosen on the board while something of the one before is under way. In a real browser.

use seckill::model::Voucher;
use serde_json::json;

use crate::board::sales::{board, order_of, server};
use testkit::shop::api_client::Api;
use testkit::shop::web_driver::{Browser, DESKTOP};
use testkit::shop::world::World;
use testkit::wait::eventually;

/// The board with two sales, of which the first is watched.
async fn two_sales() -> (Api, Browser, [Voucher; 2]) {
    let (api, first) = server(World::new().await).await;
    let second = api.world.voucher(7).await;
    let browser = board(&api, "en", DESKTOP).await;
    choose(&browser, &first).await;
    browser.until_text("#figure-left", "40 of 40").await;
    (api, browser, [first, second])
}

async fn choose(browser: &Browser, voucher: &Voucher) {
    browser.choose("#voucher", &voucher.id.to_string()).await;
}

/// From now on the answers to questions for which `which` (of `path` and `options`) holds wait for `window.release()`.
async fn hold(browser: &Browser, which: &str) {
    let hold = format!(
        "if ({which}) {{
            const answer = await fetch(path, options);
            window.isHeld = true;
            await new Promise(go => window.release = () => (go(), true));
            return answer;
        }}"
    );
    browser.on_fetch(&hold).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_verdict_of_a_sale_is_there_when_one_comes_back_to_it() {
    let (api, browser, [first, second]) = two_sales().await;
    // Audited because somebody asked, and while it is on sale.
    browser.click("#audit").await;
    browser.until_text("#figure-verdict", "✓").await;
    browser.until_text("#audit-state", "0 orders of 0 users, 40 left of 40").await;
    choose(&browser, &second).await;
    browser.until_text("#figure-left", "7 of 7").await;
    browser.until_text("#figure-verdict", "not audited yet").await;
    choose(&browser, &first).await;
    browser.until_text("#figure-verdict", "✓").await;
    browser.until_text("#audit-state", "40 left of 40").await;
    browser.until_text("#audit-verdict", "Every promise holds").await;

    // Audited by itself, when it was seen to be sold out.
    choose(&browser, &second).await;
    browser.until_text("#figure-left", "7 of 7").await;
    let gone = "update seckill_vouchers set stock = 0, initial_stock = 0, revision = revision + 1
        where voucher_id = $1";
    sqlx::query(gone).bind(second.id.get()).execute(api.world.database.pool()).await.unwrap();
    browser.until_text("#figure-verdict", "✓").await;
    browser.until_text("#audit-state", "0 left of 0").await;
    let more = "update seckill_vouchers set stock = 1, initial_stock = 1, revision = revision + 1
        where voucher_id = $1";
    sqlx::query(more).bind(second.id.get()).execute(api.world.database.pool()).await.unwrap();
    browser.until_text("#figure-verdict", "not audited yet").await;
    browser.close_quietly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_saved_of_one_sale_does_not_fill_the_form_of_another() {
    let (_api, browser, [_, second]) = two_sales().await;
    browser.click("#edit-sale summary").await;
    browser.fill("#edit-title", "First").await;
    hold(&browser, "options?.method === 'PATCH'").await;
    browser.click("#save-sale").await;
    browser.until("window.isHeld").await;
    choose(&browser, &second).await;
    browser.until_text("#figure-left", "7 of 7").await;
    browser.click("#edit-sale summary").await;
    browser.until("document.querySelector('#edit-stock').value === '7'").await;
    browser.fill("#edit-title", "Second").await;
    browser.value("window.release()").await;
    browser.until("!document.querySelector('#save-sale').disabled").await;
    let held = "['title', 'stock'].map(id => document.querySelector(`#edit-${id}`).value)";
    assert_eq!(browser.value(held).await, json!(["Second", "7"]));
    assert_eq!(browser.text("#edit-state").await, "");
    browser.close_quietly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_of_the_sale_before_can_be_pressed_when_those_of_the_next_cannot_be_had() {
    let (api, browser, [first, second]) = two_sales().await;
    let order = order_of(&api, 1, &first).await;
    browser.until_shown(&format!("[data-order='{order}'] button")).await;
    let cut = format!(
        "if (path.startsWith('/api/vouchers/{}/orders')) throw new TypeError('lost');",
        second.id
    );
    browser.on_fetch(&cut).await;
    choose(&browser, &second).await;
    browser.until("document.querySelector('#orders-state').textContent !== ''").await;
    assert_eq!(browser.count("#order-rows button").await, 0);
    browser.close_quietly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_are_saved_are_named_after_their_own_sale() {
    let (_api, browser, [first, second]) = two_sales().await;
    let directory = tempfile::tempdir().unwrap();
    browser.save_to(directory.path()).await;
    hold(&browser, "options?.headers?.accept === 'text/csv'").await;
    browser.click("#orders-csv").await;
    browser.until("window.isHeld").await;
    choose(&browser, &second).await;
    browser.until_text("#figure-left", "7 of 7").await;
    browser.value("window.release()").await;
    let saved = || {
        let names = std::fs::read_dir(directory.path()).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let name = format!("orders-of-{}.csv", first.id);
    eventually("the orders are saved", async || saved() == [name.as_str()]).await;
    browser.close_quietly().await;
}
