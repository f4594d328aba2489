//! The pictures in the README: `make screenshots` takes them of pages that really sell.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use chrono::TimeDelta;
use seckill::model::{Clock, SystemClock};
use serde_json::json;

use super::board::sale_of_show;
use testkit::needs::needs;
use testkit::shop::private_server::PrivateServer;
use testkit::shop::web_driver::{Browser, PHONE};

/// A picture in a README is no larger, in bytes.
const MAX_BYTES: usize = 200_000;

/// A page on a small desk.
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

/// A page of this language, without the place that a scroll bar would take: there is none in a picture.
async fn page(language: &str, size: (u32, u32), address: &str) -> Browser {
    let browser = Browser::new(language, size).await;
    browser.prefers("light").await;
    browser.devtools("Emulation.setScrollbarsHidden", json!({ "hidden": true })).await;
    browser.open(address).await;
    browser.value("document.documentElement.style.scrollbarGutter = 'auto'").await;
    browser
}

async fn take(language: &str, suffix: &str, texts: [[&str; 2]; 3], sold_out: &str) {
    let server = PrivateServer::start().await;
    let token = server.admin().await;
    let address = server.node.address;
    let mut vouchers = Vec::new();
    for ([title, subtitle], (stock, begins_in_s)) in
        texts.into_iter().zip([(3, 0), (10, 0), (500, 600)])
    {
        let begin_time = SystemClock.now() + TimeDelta::seconds(begins_in_s);
        let body = json!({
            "title": title, "subtitle": subtitle, "stock": stock, "begin_time": begin_time,
            "price": 8000, "value": 10000,
        });
        let created = server.send("POST", "/api/vouchers", &token, Some(&body)).await;
        vouchers.push(created.is(201).text_of("id").to_owned());
    }
    for buyer in 0..4 {
        let buyer = server.login(&format!("1380013800{buyer}")).await;
        for voucher in &vouchers[..2] {
            let buying = format!("/api/vouchers/{voucher}/orders");
            server.send("POST", &buying, &buyer, None).await;
        }
    }

    let browser = page(language, PHONE, &format!("http://{address}/shop")).await;
    browser.until("document.querySelectorAll('.card').length === 3").await;
    write(&format!("shop{suffix}.png"), &browser.screenshot().await);
    browser.close_quietly().await;

    // After a larger sale, that of a show: its figures and its plot.
    server.api.post("/api/stage/shows", &json!({ "crowd": "rush" })).await.is(202);
    let sale = sale_of_show(&server).await;
    let board = format!("http://{address}/board?voucher={sale}#token={token}");
    let browser = page(language, BOARD, &board).await;
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
    let browser = page(language, STAGE, &format!("http://{}/watch", server.node.address)).await;
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
    let english = [
        ["Dinner for two, half price", "Not on Fridays and Saturdays"],
        ["100 yuan for 80", "In all our shops"],
        ["Cinema, any seat", "Valid until the end of the year"],
    ];
    take("en", "", english, "sold out").await;
    let chinese = [
        ["双人晚餐半价", "周五、周六不可用"],
        ["100 元券仅售 80 元", "全部门店通用"],
        ["电影票，任选座位", "年底前有效"],
    ];
    take("zh-CN", ".zh-CN", chinese, "已售罄").await;
}

/// How much longer ago than its page a picture may have been taken: a change of a page is seldom a new look.
const DAYS: i64 = 30;

/// Whether this is a clone that has all of its commits.
fn has_history() -> bool {
    let git = ["rev-parse", "--is-shallow-repository"];
    let said = Command::new("git").current_dir(at("")).args(git).output();
    let whole = said.is_ok_and(|said| said.stdout == b"false\n").then_some(());
    needs("history", whole.ok_or("this is no clone with all of its commits")).is_some()
}

/// When one of these files was last committed, in seconds; nothing if none of them was.
fn committed(files: &[&str]) -> Option<i64> {
    let git = ["log", "-1", "--format=%ct", "--"];
    let log = Command::new("git").current_dir(at("")).args(git).args(files).output().ok()?;
    String::from_utf8(log.stdout).ok()?.trim().parse().ok()
}

#[test]
fn the_pictures_are_as_new_as_their_pages() {
    if !has_history() {
        return;
    }
    let stage: &[&str] = &["crates/play/web/stage*.js", "crates/play/web/stage.css"];
    let shop: &[&str] = &["web/card.js", "web/storefront.js", "web/style.css"];
    let board: &[&str] = &["web/board*.js", "web/board.css"];
    for (pages, name) in [(stage, "watch"), (shop, "shop"), (board, "board")] {
        for suffix in ["", ".zh-CN"] {
            let picture = format!("docs/images/{name}{suffix}.png");
            assert!(at(&picture).is_file(), "{picture} is missing: make screenshots");
            let (Some(taken), Some(changed)) = (committed(&[&picture]), committed(pages)) else {
                continue;
            };
            let days = (changed - taken) / 86_400;
            assert!(days < DAYS, "{picture} is {days} days older than its page: make screenshots");
        }
    }
}
