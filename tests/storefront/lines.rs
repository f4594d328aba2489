//! A draw and a line in the shop: entering, the order, the place, and an offer that is not paid in time. In a real browser.

use chrono::TimeDelta;

use crate::storefront::sale::{BUY, MESSAGE, visited};
use testkit::shop::readable::SCREENS;
use testkit::shop::till::Till;
use testkit::shop::web_driver::Browser;
use testkit::shop::world::PRICE;

const ENTRY: &str = "#vouchers .entry";
const LEAVE: &str = "#vouchers .leave";
const PAY: &str = "#vouchers .pay";
const BADGE: &str = "#vouchers .badge";

/// Where the parts of the card are.
const PLACES: &str = "JSON.stringify([...document.querySelectorAll('.card, .card > *, .card .entry, .card .action')]
    .map(element => [scrollY + element.getBoundingClientRect().y, element.getBoundingClientRect().height]))";

/// Half an hour until the entries close: a test's session ends after one.
async fn drawn(stock: i32, beacon: &str) -> Till {
    Till::drawn_in(TimeDelta::minutes(30), stock, PRICE, beacon, 5).await
}

async fn close(shop: &Till) {
    shop.after(TimeDelta::minutes(30)).await;
}

/// Nothing on the card is cut off or hard to read, on any screen, and what is told has its room.
async fn is_readable(browser: &Browser) {
    for size in SCREENS {
        browser.resize(size).await;
        // A page that has just got another size may not be laid out yet.
        let is_whole = "[...document.querySelectorAll('#vouchers .entry, #vouchers .action > *')]
            .every(one => !one.checkVisibility() || one.scrollHeight <= one.clientHeight + 1)";
        browser.until(is_whole).await;
    }
    browser.is_readable("the card").await;
}

/// Presses what is wanted, which is not bought: a place is.
async fn press(browser: &Browser, what: &str, becomes: &str) {
    browser.until_text(BUY, what).await;
    browser.click(BUY).await;
    browser.until_text(BUY, becomes).await;
}

async fn leave(browser: &Browser) {
    browser.click(LEAVE).await;
    browser.click("#question [value=yes]").await;
}

/// Everybody can look how it was drawn.
async fn is_explained(shop: &Till, browser: &Browser) {
    browser.click("#vouchers .draw summary").await;
    browser.until_text("#vouchers .draw", "How was it drawn?").await;
    browser.until_text("#vouchers .draw", "you have to trust").await;
    let drawn = shop.draw().await;
    for told in ["seed_hash", "entries_hash", "seed"] {
        browser.until_text("#vouchers .draw", drawn[told].as_str().unwrap()).await;
    }
    let command = format!("seckill draw verify draw-{}.json", shop.voucher.id);
    browser.until_text("#vouchers .draw code", &command).await;
    browser.until_text("#vouchers .draw dl", "Drawn").await;
    is_readable(browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draw_is_entered_and_ends_with_an_order_or_a_place_in_line() {
    let shop = drawn(1, "").await;
    let (one, two) = tokio::join!(visited(&shop.api, 1), visited(&shop.api, 2));
    one.until_text(BADGE, "Draw: enter now").await;
    one.until_text(ENTRY, "Whoever enters early has no advantage").await;
    one.until("/^Entries close in 00:(30|29):/.test(document.querySelector('.when').innerText)")
        .await;
    let before = one.value(PLACES).await;
    is_readable(&one).await;
    press(&one, "Enter the draw", "Entered").await;
    one.until("document.activeElement.matches('.entry')").await;
    let entry = shop.entry(1).await;
    one.until_text(ENTRY, entry["entry_id"].as_str().unwrap()).await;
    assert_eq!(one.value(PLACES).await, before);
    is_readable(&one).await;
    // A buyer who leaves is asked first, and may come again.
    one.click(LEAVE).await;
    one.until_text("#question", "Your entry, or your place in line, is lost").await;
    one.click("#question [value=no]").await;
    one.until("!document.querySelector('#question').open").await;
    assert_eq!(shop.entry(1).await, entry);
    leave(&one).await;
    one.until_text(BUY, "Enter the draw").await;
    shop.after(TimeDelta::seconds(1)).await;
    press(&one, "Enter the draw", "Entered").await;
    press(&two, "Enter the draw", "Entered").await;

    close(&shop).await;
    one.reload().await;
    one.until_text(ENTRY, "Entries are closed; the draw comes.").await;
    one.until_text(BUY, "Entered").await;
    assert!(!one.shows(".leave").await);
    is_readable(&one).await;
    let late = visited(&shop.api, 3).await;
    late.until_text(BUY, "Entries are closed").await;
    assert_eq!(late.value("document.querySelector('.buy').disabled").await, true);
    late.close().await;

    shop.serve().await;
    let first_wins = shop.entry(1).await["status"] == "offered";
    let (winner, other, waits) = if first_wins { (one, two, 2) } else { (two, one, 1) };
    winner.until_shown(PAY).await;
    winner.until_text(ENTRY, "It is your turn.").await;
    winner
        .until("/^Pay within 1[45]:/.test(document.querySelector('.pay-within').innerText)")
        .await;
    is_readable(&winner).await;
    other.until_text(ENTRY, "You are the next in line. Offered in the last hour: 1.").await;
    other.until_text(BADGE, "Sold out: line open").await;
    is_readable(&other).await;
    winner.click(PAY).await;
    winner.click("[data-action=pay]").await;
    winner.until_text("#result", "Paid. The order is yours.").await;
    winner.click("#to-orders").await;
    winner.click(".tabs a[href='#all']").await;
    winner.until_text(BUY, "Bought").await;
    winner.until_text(ENTRY, "It was your turn, and you have it.").await;
    winner.close().await;

    is_explained(&shop, &other).await;
    leave(&other).await;
    other.until_text(BUY, "Stand in line").await;
    assert_eq!(shop.entry(waits).await["status"], "left");
    shop.holds().await;
    other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_back_is_offered_to_the_buyer_in_line_who_pays() {
    let shop = Till::with_line(1, 5).await;
    let browser = visited(&shop.api, 1).await;
    browser.until_text(ENTRY, "Once it is sold out, you can stand in line").await;
    let order = shop.buy(4).await;
    browser.until_text(BUY, "Stand in line").await;
    shop.enter(3).await.is(201);
    browser.until_text(ENTRY, "offered to those who stand in line").await;
    is_readable(&browser).await;
    press(&browser, "Stand in line", "In line").await;
    browser.until_text(ENTRY, "You are number 2 in line. Offered in the last hour: 0.").await;
    is_readable(&browser).await;
    shop.entries("DELETE", 3).await.is(204);
    browser.until_text(ENTRY, "You are the next in line.").await;
    shop.own_step(4, &order, "cancellation").await.is(200);
    shop.serve().await;
    browser.until_text(ENTRY, "It is your turn.").await;
    browser.until_text(MESSAGE, "Reserved for you. Order ").await;
    browser
        .until("/^Pay within 1[45]:/.test(document.querySelector('.pay-within').innerText)")
        .await;
    browser.click(PAY).await;
    browser.click("[data-action=pay]").await;
    browser.until_text("#result", "Paid. The order is yours.").await;
    assert_eq!(shop.entry(1).await["status"], "bought");
    shop.holds().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_who_does_not_pay_in_time_is_told_why_the_next_one_is_offered_it() {
    let shop = Till::with_line(1, 5).await;
    let order = shop.buy(4).await;
    let browser = visited(&shop.api, 1).await;
    press(&browser, "Stand in line", "In line").await;
    shop.enter(2).await.is(201);
    shop.own_step(4, &order, "cancellation").await.is(200);
    shop.serve().await;
    browser.until_shown(PAY).await;
    shop.after(TimeDelta::minutes(15)).await;
    shop.expire().await;
    shop.serve().await;
    browser.until_text(ENTRY, "it was not paid in time, so it goes to the next in line").await;
    browser.until_text(MESSAGE, "not paid in time").await;
    is_readable(&browser).await;
    // The pause after an order that was given up is over.
    shop.after(TimeDelta::seconds(1)).await;
    press(&browser, "Stand in line", "In line").await;
    browser.until_text(ENTRY, "You are the next in line.").await;
    assert_eq!(shop.entry(2).await["status"], "offered");
    shop.holds().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_speaks_of_draws_and_lines_in_chinese() {
    let shop = drawn(1, "the lottery of 2026-11-12").await;
    let browser = visited(&shop.api, 1).await;
    browser.click("#language").await;
    browser.until_text(ENTRY, "先后不影响结果").await;
    press(&browser, "登记抽签", "已登记").await;
    browser.until_text(LEAVE, "取消登记").await;
    is_readable(&browser).await;
    // How many lines an id takes depends on its letters: this one is as wide as any.
    shop.sql(
        "update entries set id = 'dddddddd-dddd-4ddd-8ddd-dddddddddddd' where voucher_id = $1",
    )
    .await;
    shop.enter(2).await.is(201);
    close(&shop).await;
    browser.reload().await;
    browser.until_text(ENTRY, "等以下公开数字公布后抽签").await;
    browser.until_text(ENTRY, "the lottery of 2026-11-12").await;
    is_readable(&browser).await;
    browser.click("#vouchers .draw summary").await;
    browser.until_text("#vouchers .draw", "如何抽签").await;
    browser.until_text("#vouchers .draw", "没有人能知道顺序").await;
    is_readable(&browser).await;
    browser.close().await;
}
