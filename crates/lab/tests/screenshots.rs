//! The pictures in the README: `make screenshots` takes them of pages that really sell.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use testkit::shop::private_server::PrivateServer;
use testkit::shop::web_driver::{Browser, PHONE};

/// A picture in a README is no larger, in bytes.
const MAX_BYTES: usize = 150_000;

/// A page on a small desk: wide enough for two plots side by side.
const BOARD: (u32, u32) = (960, 900);

/// The stage without anything to scroll.
const STAGE: (u32, u32) = (1400, 800);

async fn crowd(server: &PrivateServer, token: &str, voucher: &str, users: i32) {
    let body = json!({ "voucher_id": voucher, "users": users, "attempts": 1 });
    server.send("POST", "/api/crowds", token, Some(&body)).await.is(202);
}

fn write(name: &str, picture: &[u8]) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    fs::create_dir_all(&directory).unwrap();
    assert!(picture.len() < MAX_BYTES, "{name} has {} bytes", picture.len());
    fs::write(directory.join(name), picture).unwrap();
}

async fn take(language: &str, suffix: &str, texts: [&str; 5]) {
    let [sold, on_sale, upcoming, large, sold_out] = texts;
    let server = PrivateServer::start().await;
    let token = server.admin().await;
    let address = server.node.address;
    let browser = Browser::new(language, BOARD).await;
    browser.devtools("Emulation.setScrollbarsHidden", json!({ "hidden": true })).await;
    let sold = server.voucher_called(sold, &token, 20, 0).await;
    let on_sale = server.voucher_called(on_sale, &token, 100, 0).await;
    server.voucher_called(upcoming, &token, 500, 600).await;
    browser.open(&format!("http://{address}/board?voucher={sold}#token={token}")).await;
    browser.until_shown("#board").await;
    let is_over = "!document.querySelector('#send-crowd').disabled \
        && document.querySelector('#crowd-verdict td.kept')";
    for (voucher, users, left) in [(&sold, 60, "0 "), (&on_sale, 38, "62 ")] {
        crowd(&server, &token, voucher, users).await;
        browser.open(&format!("http://{address}/board?voucher={voucher}")).await;
        browser.until(is_over).await;
        browser.until_text("#figure-left", left).await;
    }

    browser.resize(PHONE).await;
    browser.open(&format!("http://{address}/shop")).await;
    browser.until("document.querySelectorAll('.card').length === 3").await;
    write(&format!("shop{suffix}.png"), &browser.screenshot().await);

    // After a larger sale: its figures and plots.
    browser.resize(BOARD).await;
    let large = server.voucher_called(large, &token, 2_000, 0).await;
    browser.open(&format!("http://{address}/board?voucher={large}")).await;
    browser.until_text("#figure-left", "2,000").await;
    crowd(&server, &token, &large, 3_000).await;
    browser.until(is_over).await;
    browser.until_text("#sale-state", sold_out).await;
    browser.value("document.querySelector('.lead-figures').scrollIntoView()").await;
    write(&format!("board{suffix}.png"), &browser.screenshot().await);
    browser.close_quietly().await;
}

/// Our sale, and the same crowd at the first rung beside it.
#[ignore = "`make screenshots` runs it"]
#[tokio::test(flavor = "multi_thread")]
async fn take_the_picture_of_the_stage() {
    let server = PrivateServer::start().await;
    let browser = Browser::new("en", STAGE).await;
    browser.prefers("light").await;
    browser.devtools("Emulation.setScrollbarsHidden", json!({ "hidden": true })).await;
    browser.open(&format!("http://{}/watch", server.node.address)).await;
    browser.click("#start").await;
    for (half, button) in [("#ours", "#against"), ("#other", "#start")] {
        // Twenty thousand buyers may take longer than a test waits for one event.
        must_in_minutes(&browser, &format!("document.querySelector('{half}').dataset.holds")).await;
        browser.until(&format!("!document.querySelector('{button}').disabled")).await;
        if half == "#ours" {
            browser.click(button).await;
        }
    }
    write("watch.png", &browser.screenshot().await);
    browser.close_quietly().await;
}

async fn must_in_minutes(browser: &Browser, expression: &str) {
    let over = async {
        while !browser.value(&format!("Boolean({expression})")).await.as_bool().unwrap() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), over).await.expect("the show ends");
}

#[ignore = "`make screenshots` runs it"]
#[tokio::test(flavor = "multi_thread")]
async fn take_the_pictures() {
    let english = [
        "Dinner for two, half price",
        "100 yuan for 80",
        "Cinema, any seat",
        "Coffee, a month of it",
        "sold out",
    ];
    take("en", "", english).await;
    let chinese =
        ["双人晚餐半价", "100 元券仅售 80 元", "电影票，任选座位", "一个月的咖啡", "已售罄"];
    take("zh-CN", ".zh-CN", chinese).await;
}
