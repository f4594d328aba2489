//! Tests share a browser, and know nothing of each other there.

use serde_json::{Value, json};

use testkit::shop::api_client::Api;
use testkit::shop::web_driver::{Browser, DESKTOP, PHONE};
use testkit::wait::eventually;

/// Whether this browser context is open.
async fn is_open(context: &str) -> bool {
    Browser::contexts().await.as_array().unwrap().contains(&json!(context))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_people_share_no_storage_no_language_no_size_and_no_console() {
    let api = Api::new().await;
    let (one, other) = tokio::join!(Browser::new("zh-CN", PHONE), Browser::new("en", DESKTOP));
    for browser in [&one, &other] {
        browser.open(&format!("http://{}/", api.address)).await;
    }
    let keep = "(localStorage.kept = 1, document.cookie = 'kept=1', console.error('mine'), true)";
    one.value(keep).await;
    let kept = "[localStorage.kept ?? '', document.cookie, navigator.language, innerWidth]";
    assert_eq!(one.value(kept).await, json!(["1", "kept=1", "zh-CN", PHONE.0]));
    assert_eq!(other.value(kept).await, json!(["", "", "en", DESKTOP.0]));
    for browser in [&one, &other] {
        assert_eq!(browser.value("document.hasFocus()").await, Value::Bool(true));
    }
    let console = one.console().await;
    assert!(console.len() == 1 && console[0].contains("mine"), "{console:?}");
    other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_fails_closes_its_pages() {
    let browser = Browser::new("en", PHONE).await;
    let context = browser.context().to_owned();
    assert!(is_open(&context).await);
    let failing = tokio::spawn(async move {
        let _browser = browser;
        panic!("as a test that fails");
    });
    assert!(failing.await.is_err());
    eventually("its pages are closed", async || !is_open(&context).await).await;
}
