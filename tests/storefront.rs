//! The shop, in a real browser.

use crate::web_driver::{Browser, PHONE};
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn the_page_speaks_the_language_of_its_reader_and_keeps_the_one_that_was_chosen() {
    let world = World::new().await;
    let address = world.serve().await;
    let browser = Browser::new("zh-CN", PHONE).await;
    browser.open(&format!("http://{address}/")).await;
    browser.until_text("h1", "限时秒杀").await;
    assert_eq!(browser.value("document.documentElement.lang").await, "zh-CN");
    browser.click("#language").await;
    browser.until_text("h1", "Flash sales").await;
    assert_eq!(browser.value("document.documentElement.lang").await, "en");
    // The choice is kept, also for an address that says nothing of it.
    browser.open(&format!("http://{address}/")).await;
    browser.until_text("h1", "Flash sales").await;
    assert_eq!(browser.address().await.query(), Some("lang=en"));
    browser.close().await;
}
