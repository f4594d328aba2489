//! The pictures in the README: `make screenshots` takes them of pages that really sell.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::board::sale_of_show;
use testkit::shop::private_server::PrivateServer;
use testkit::shop::web_driver::{Browser, PHONE};

/// A picture in a README is no larger, in bytes.
const MAX_BYTES: usize = 150_000;

/// A page on a small desk: wide enough for two plots side by side.
const BOARD: (u32, u32) = (960, 900);

/// The stage without anything to scroll.
const STAGE: (u32, u32) = (1400, 800);

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn write(name: &str, picture: &[u8]) {
    let directory = at("docs/images");
    fs::create_dir_all(&directory).unwrap();
    assert!(picture.len() < MAX_BYTES, "{name} has {} bytes", picture.len());
    fs::write(directory.join(name), picture).unwrap();
}

async fn take(language: &str, suffix: &str, texts: [&str; 4]) {
    let [sold, on_sale, upcoming, sold_out] = texts;
    let server = PrivateServer::start().await;
    let token = server.admin().await;
    let address = server.node.address;
    let browser = Browser::new(language, BOARD).await;
    browser.devtools("Emulation.setScrollbarsHidden", json!({ "hidden": true })).await;
    let sold = server.voucher_called(sold, &token, 3, 0).await;
    let on_sale = server.voucher_called(on_sale, &token, 10, 0).await;
    server.voucher_called(upcoming, &token, 500, 600).await;
    for buyer in 0..4 {
        let buyer = server.login(&format!("1380013800{buyer}")).await;
        for voucher in [&sold, &on_sale] {
            let buying = format!("/api/vouchers/{voucher}/orders");
            server.send("POST", &buying, &buyer, None).await;
        }
    }

    browser.resize(PHONE).await;
    browser.open(&format!("http://{address}/shop")).await;
    browser.until("document.querySelectorAll('.card').length === 3").await;
    write(&format!("shop{suffix}.png"), &browser.screenshot().await);

    // After a larger sale, that of a show: its figures and plots.
    browser.resize(BOARD).await;
    server.api.post("/api/stage/shows", &json!({ "crowd": "rush" })).await.is(202);
    let sale = sale_of_show(&server).await;
    browser.open(&format!("http://{address}/board?voucher={sale}#token={token}")).await;
    must_in_minutes(&browser, "document.querySelector('#figure-verdict.kept')").await;
    browser.until_text("#sale-state", sold_out).await;
    browser.value("document.querySelector('.lead-figures').scrollIntoView()").await;
    write(&format!("board{suffix}.png"), &browser.screenshot().await);
    browser.close_quietly().await;
}

/// Our sale, and the same crowd at the first rung beside it.
#[ignore = "`make screenshots` runs it"]
#[tokio::test(flavor = "multi_thread")]
async fn take_the_pictures_of_the_stage() {
    for (language, suffix) in [("en", ""), ("zh-CN", ".zh-CN")] {
        take_the_stage(language, &format!("watch{suffix}.png")).await;
    }
}

async fn take_the_stage(language: &str, name: &str) {
    let server = PrivateServer::start().await;
    let browser = Browser::new(language, STAGE).await;
    browser.prefers("light").await;
    browser.devtools("Emulation.setScrollbarsHidden", json!({ "hidden": true })).await;
    browser.open(&format!("http://{}/watch", server.node.address)).await;
    browser.click("#start").await;
    // Twenty thousand buyers may take longer than a test waits for one event.
    must_in_minutes(&browser, "document.querySelector('#other').dataset.holds").await;
    browser.until("!document.querySelector('#start').disabled").await;
    write(name, &browser.screenshot().await);
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
    let english = ["Dinner for two, half price", "100 yuan for 80", "Cinema, any seat", "sold out"];
    take("en", "", english).await;
    let chinese = ["双人晚餐半价", "100 元券仅售 80 元", "电影票，任选座位", "已售罄"];
    take("zh-CN", ".zh-CN", chinese).await;
}
