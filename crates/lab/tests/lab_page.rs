//! The ladder in a real browser.

use crate::lab_player::{Played, options};
use testkit::shop::web_driver::{Browser, DESKTOP, PHONE};

async fn until_schedule(browser: &Browser, schedule: &str) {
    browser.until(&format!("document.querySelector('#schedule').value === '{schedule}'")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_clicked_to_its_break_and_its_address_shows_it_to_somebody_else() {
    let played = Played::new(options().await).await;
    let page = format!("http://{}/lab", played.api.address);
    let browser = Browser::new("en", DESKTOP).await;
    browser.open(&format!("{page}?rung=r05a")).await;
    until_schedule(&browser, "–").await;
    browser.until_text("#source-title", "crates/ladder/src/r05a_check_then_insert.rs").await;
    // Both stand where the purchase begins.
    browser.until("document.querySelectorAll('#source .at-a.at-b').length === 1").await;
    browser.until_text("#source .at-a", "async fn buy").await;
    browser.until_shown("[data-buyer=A]").await;
    for (actor, schedule) in [("A", "A"), ("B", "AB"), ("A", "ABA")] {
        browser.click(&format!("[data-step={actor}]")).await;
        until_schedule(&browser, schedule).await;
        assert_eq!(browser.value("document.querySelector('#verdict').hidden").await, true);
    }
    browser.until_text("#source .at-b", "Point::OrdersCounted").await;
    browser.until_text("[data-buyer=A]", "is told: ordered").await;
    browser.until_text("#state", "stock 1 of 2").await;
    browser.click("[data-step=B]").await;
    browser.until_text("#verdict", "Broken: one_per_user").await;
    browser.until_text("#verdict", "User 1 holds 2 orders: order 1 and order 2.").await;
    let lines = "document.querySelectorAll('#timeline li').length";
    assert_eq!(browser.value(lines).await, 4);
    let address = browser.value("location.href").await.as_str().unwrap().to_owned();
    assert!(address.contains("schedule=ABAB"), "{address}");

    // Undo, and do something else.
    browser.press("u").await;
    until_schedule(&browser, "ABA").await;
    browser.until("document.querySelector('#verdict').hidden").await;
    browser.press("u").await;
    until_schedule(&browser, "AB").await;
    browser.press("r").await;
    until_schedule(&browser, "ABA").await;
    browser.until("!document.querySelector('#redo').disabled").await;
    browser.click("#restart").await;
    until_schedule(&browser, "–").await;
    browser.press("aab").await;
    until_schedule(&browser, "AAB").await;
    browser.press("b").await;
    browser.until_text("[data-buyer=B]", "already_bought").await;
    browser.until_text("#verdict", "no promise was broken").await;

    // The address that the teacher sent, opened afresh: in the session that is there.
    browser.open(&address).await;
    browser.until_text("#verdict", "Broken: one_per_user").await;
    until_schedule(&browser, "ABAB").await;
    browser.close().await;
    played.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rungs_follow_each_other_with_what_they_change() {
    let played = Played::new(options().await).await;
    let page = format!("http://{}/lab", played.api.address);
    let browser = Browser::new("en", DESKTOP).await;
    browser.open(&format!("{page}?rung=r08a_setnx")).await;
    browser.until_text("#source-title", "r08a_setnx.rs").await;
    until_schedule(&browser, "–").await;
    browser.press("n").await;
    browser.until_text("#source-title", "r08b_setnx_expire.rs").await;
    browser.click("#diff-previous summary").await;
    browser.until_text("#diff-previous pre", "+         purchase.at(Point::KeySet").await;
    browser.until_text("#diff-next summary", "What r09 changes").await;
    until_schedule(&browser, "–").await;
    browser.back().await;
    browser.until_text("#source-title", "r08a_setnx.rs").await;
    until_schedule(&browser, "–").await;

    // A lock with its lease, which the reader ends; the lesson goes on to the break.
    browser.open(&format!("{page}?rung=r09&schedule=AA&users=1&stock=2")).await;
    until_schedule(&browser, "AA").await;
    browser.until_text("#state", "lock:order:1 does not say whose it is, lease ends in 3").await;
    browser.click("#lease").await;
    browser.until_text("#timeline", "the lease ends on Redis 1").await;
    browser.until_text("#state", "none is held").await;
    browser.click("[data-lesson=outlived_lease]").await;
    browser.until_text("#verdict", "Broken: one_per_user").await;
    until_schedule(&browser, "AALBBAAABBB").await;
    // Nonsense in the address is said, and the page goes on.
    browser.open(&format!("{page}?rung=r05a&schedule=AXB")).await;
    browser.until_text("#message", "is none of them").await;
    browser.press("n").await;
    browser.until_text("#source-title", "r05b_advisory_lock.rs").await;
    until_schedule(&browser, "–").await;
    browser.close().await;
    played.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_shows_it_in_chinese_and_the_language_keeps_the_schedule() {
    let played = Played::new(options().await).await;
    let page = format!("http://{}/lab", played.api.address);
    let browser = Browser::new("zh-CN", PHONE).await;
    browser.open(&format!("{page}?rung=r13d_redisson_lock&schedule=ABB&users=1&stock=2")).await;
    until_schedule(&browser, "ABB").await;
    browser.until_text("h1", "一步一步地演").await;
    browser.until_text("[data-buyer=B]", "等待对方释放锁").await;
    browser.until_text("#state", "持有者 A，次数 1").await;
    browser.until("document.querySelector('[data-step=B]').disabled").await;
    let fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(browser.value(fits).await, true);
    // The buttons are in sight wherever the reader is in the player.
    browser.value("document.querySelector('#source').scrollIntoView()").await;
    let seen = "(box => box.top >= 0 && box.bottom <= innerHeight)\
        (document.querySelector('[data-step=A]').getBoundingClientRect())";
    browser.until(seen).await;
    browser.click("[data-step=A]").await;
    until_schedule(&browser, "ABBA").await;
    browser.click("#language").await;
    browser.until_text("h1", "step by step").await;
    until_schedule(&browser, "ABBA").await;
    browser.until_text("[data-buyer=B]", "waits for the release").await;
    browser.close().await;
    played.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ended_is_played_anew_and_one_that_is_taken_is_waited_for() {
    let played = Played::new(options().await).await;
    let page = format!("http://{}/lab", played.api.address);
    let browser = Browser::new("en", DESKTOP).await;
    browser.open(&format!("{page}?rung=r05a&schedule=AB&users=1&stock=2")).await;
    until_schedule(&browser, "AB").await;
    let session = browser.value("sessionStorage.getItem('lab-session')").await;
    let at = format!("/api/lab/sessions/{}", session.as_str().unwrap());
    played.api.send(played.api.request("DELETE", &at)).await.is(204);
    browser.click("[data-step=A]").await;
    until_schedule(&browser, "ABA").await;

    let other = Browser::new("en", DESKTOP).await;
    other.open(&format!("{page}?rung=r02")).await;
    other.until_text("#message", "somebody else plays r05a_check_then_insert").await;
    let session = browser.value("sessionStorage.getItem('lab-session')").await;
    let at = format!("/api/lab/sessions/{}", session.as_str().unwrap());
    played.api.send(played.api.request("DELETE", &at)).await.is(204);
    other.click("#message button").await;
    until_schedule(&other, "–").await;
    other.until("document.querySelector('#message').hidden").await;
    other.close().await;
    browser.close().await;
    played.close().await;
}
