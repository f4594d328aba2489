//! The ladder in a real browser: sessions, settings, and the two languages.

use std::ops::Deref;

use crate::course_pages::{MAX_BYTES, transferred};
use crate::lab_player::{Played, options, two_seats};
use seckill_play::page::PlayerOptions;
use testkit::shop::web_driver::{Browser, DESKTOP, PHONE};
use testkit::wait::eventually;

pub const DESK: (u32, u32) = (1400, 900);

/// After so long whoever has not found it is nudged. A test says when that is.
pub const HINT_MS: u32 = 60_000;

/// A reader in front of the ladder.
pub struct Game {
    pub played: Played,
    browser: Browser,
}

impl Deref for Game {
    type Target = Browser;

    fn deref(&self) -> &Browser {
        &self.browser
    }
}

impl Game {
    /// In front of nothing yet.
    pub async fn new(options: PlayerOptions, language: &str, size: (u32, u32)) -> Self {
        let played = Played::new(options).await;
        let browser = Browser::new(language, size).await;
        browser.hold_timer(HINT_MS).await;
        Self { played, browser }
    }

    /// In front of what this query shows.
    pub async fn at(size: (u32, u32), query: &str) -> Self {
        let game = Self::new(options().await, "en", size).await;
        game.visit(query).await;
        game
    }

    /// Opens the page with this query, and waits until it has a session.
    pub async fn visit(&self, query: &str) {
        self.open(&format!("http://{}/lab?{query}", self.played.api.address)).await;
        self.until("/^[^…]/.test(document.querySelector('#schedule').value)").await;
    }

    pub async fn close(self) {
        self.browser.close().await;
        self.played.close().await;
    }

    /// After the network was cut.
    pub async fn close_after_cuts(self) {
        self.browser.close_after_cuts().await;
        self.played.close().await;
    }
}

pub async fn until_schedule(browser: &Browser, schedule: &str) {
    browser.until(&format!("document.querySelector('#schedule').value === '{schedule}'")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_clicked_to_its_break_and_its_address_shows_it_to_somebody_else() {
    let browser = Game::at(DESKTOP, "rung=r05a").await;
    browser.until_text("#source-title", "crates/ladder/src/r05a_check_then_insert.rs").await;
    // Both stand where the purchase begins.
    browser.until("document.querySelectorAll('#source .at-a.at-b').length === 1").await;
    browser.until_text("#source .at-a", "async fn buy").await;
    browser.until_shown("[data-buyer=A]").await;
    for (actor, schedule) in [("A", "A"), ("B", "AB"), ("A", "ABA")] {
        browser.click(&format!("[data-step={actor}]")).await;
        until_schedule(&browser, schedule).await;
        assert!(!browser.shows("#verdict").await);
    }
    browser.until_text("#source .at-b", "Point::OrdersCounted").await;
    browser.until_text("[data-buyer=A]", "is told: ordered").await;
    browser.until_text("#state", "stock 1 of 2").await;
    browser.click("[data-step=B]").await;
    browser.until_text("#verdict", "Broken: one_per_user").await;
    browser.until_text("#verdict", "User 1 holds 2 orders: order 1 and order 2.").await;
    assert_eq!(browser.count("#timeline li").await, 4);
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
    browser.until_text("#verdict", "nothing broke in this order").await;

    // The address that the teacher sent, opened afresh.
    browser.open(&address).await;
    browser.until_text("#verdict", "Broken: one_per_user").await;
    until_schedule(&browser, "ABAB").await;

    // The course has a chapter on it.
    browser.click("#verdict a").await;
    browser.until("location.pathname === '/lab/course/r05a_check_then_insert'").await;
    browser.until_text("h1", "r05a").await;
    browser.back().await;
    until_schedule(&browser, "ABAB").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rungs_follow_each_other_with_what_they_change() {
    let browser = Game::at(DESKTOP, "rung=r08a_setnx").await;
    browser.until_text("#source-title", "r08a_setnx.rs").await;
    browser.press("n").await;
    browser.until_text("#source-title", "r08b_setnx_expire.rs").await;
    browser.click("#diff-previous summary").await;
    browser.until_text("#diff-previous pre", "+         purchase.at(Point::KeySet").await;
    // Code alone, as if both had one name, and words in changed lines.
    let shown = browser.text("#diff-previous pre").await;
    assert!(!shown.contains("//") && !shown.contains("struct Setnx "), "{shown}");
    browser.until("document.querySelectorAll('#diff-previous mark').length > 0").await;
    browser.until_text("#diff-next summary", "What r09 changes").await;
    until_schedule(&browser, "–").await;
    browser.back().await;
    browser.until_text("#source-title", "r08a_setnx.rs").await;
    until_schedule(&browser, "–").await;

    // A lock with its lease, which the reader ends; the lesson goes on to the break.
    browser.visit("rung=r09&schedule=AA&users=1&stock=2").await;
    until_schedule(&browser, "AA").await;
    browser.until_text("#locks", "lock:order:1 does not say whose it is, lease ends in 3").await;
    browser.click("#lease").await;
    browser.until_text("#timeline", "the lease ends on Redis 1").await;
    browser.until_text("#locks", "none is held").await;
    // Nonsense in the address is said, and the page goes on.
    let page = format!("http://{}/lab", browser.played.api.address);
    browser.open(&format!("{page}?rung=r05a&schedule=AXB")).await;
    browser.until_text("#message", "is no step").await;
    browser.press("n").await;
    browser.until_text("#source-title", "r05b_advisory_lock.rs").await;
    until_schedule(&browser, "–").await;
    // What two buyers cannot break is not called unbreakable where it breaks otherwise.
    browser.visit("rung=r26a").await;
    browser.until_text("#goal", "It breaks otherwise: ").await;
    browser.until("document.querySelector('#show-me').hidden").await;
    // What locks the row is said.
    browser.visit("rung=r02").await;
    browser.until_text("#locks", "from select … for update until the transaction ends").await;
    browser.visit("rung=r18a").await;
    browser.until_text("#locks", "an update locks the voucher's row").await;
    browser.close().await;
}

/// What a page says in English words: none of it may be left in Chinese, but for code and names.
const ENGLISH: &str = "[...document.querySelectorAll('#timeline li, .buyer .at, #state, #verdict p, #nudge, #controls button')]\
    .map(it => it.innerText).filter(text => /[a-z]{2,} [a-z]{2,}/i.test(text)).join('; ')";

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_shows_it_in_chinese_and_the_language_keeps_the_schedule() {
    let browser = Game::new(options().await, "zh-CN", PHONE).await;
    browser.visit("rung=r13d_redisson_lock&schedule=ABB&users=1&stock=2").await;
    until_schedule(&browser, "ABB").await;
    browser.until_text("h1", "攻破一个设计").await;
    browser.until_text("[data-buyer=B]", "等待锁的释放").await;
    browser.until_text("#locks", "持有者 A，次数 1").await;
    browser.until("document.querySelector('[data-step=B]').disabled").await;
    assert_eq!(browser.value(ENGLISH).await, "");
    // Nothing is wider than the page, on a narrow one either.
    for size in [(320, 700), PHONE] {
        browser.resize(size).await;
        browser.fits().await;
    }
    // The buttons are in sight wherever the reader is in the player.
    browser.value("document.querySelector('#source').scrollIntoView()").await;
    let seen = "(box => box.top >= 0 && box.bottom <= innerHeight)\
        (document.querySelector('[data-step=A]').getBoundingClientRect())";
    browser.until(seen).await;
    browser.click("[data-step=A]").await;
    until_schedule(&browser, "ABBA").await;
    browser.click("#language").await;
    browser.until_text("h1", "Break a design").await;
    until_schedule(&browser, "ABBA").await;
    browser.until_text("[data-buyer=B]", "waits for the release").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lost_a_seat_is_told_and_goes_on_and_a_third_tab_is_told_that_all_are_taken() {
    let played = Played::new(two_seats().await).await;
    let page = format!("http://{}/lab", played.api.address);
    let first = Browser::new("en", DESKTOP).await;
    first.open(&format!("{page}?rung=r05a&schedule=AB&users=1&stock=2")).await;
    until_schedule(&first, "AB").await;
    let session = first.value("document.querySelector('#player').dataset.session").await;
    let at = format!("/api/lab/sessions/{}", session.as_str().unwrap());
    played.api.send(played.api.request("DELETE", &at)).await.is(204);
    first.click("[data-step=A]").await;
    first.until_text("#message", "somebody else has its seat").await;
    first.click("#message button").await;
    until_schedule(&first, "ABA").await;

    // A second one plays beside it; a third finds no seat, until the first goes away.
    let second = Browser::new("en", DESKTOP).await;
    second.open(&format!("{page}?rung=r02")).await;
    until_schedule(&second, "–").await;
    let third = Browser::new("zh-CN", DESKTOP).await;
    third.open(&format!("{page}?rung=r02")).await;
    third.until_text("#message", "2 个位置都有人在玩：请稍后再试").await;
    first.open("about:blank").await;
    let has_left = async || played.api.get(&at).await.status == 404;
    eventually("the first has left", has_left).await;
    third.click("#message button").await;
    until_schedule(&third, "–").await;
    third.until("document.querySelector('#message').hidden").await;
    // Back at the page, the first asks for a session of its own: there is no seat.
    first.open(&format!("{page}?rung=r02")).await;
    first.until_text("#message", "2 seats are taken: try again in a moment").await;
    for browser in [first, second, third] {
        browser.close().await;
    }
    played.close().await;
}

/// With everything that it loads, compressed, whatever rung it shows.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_light() {
    let played = Played::new(options().await).await;
    let load = async |path: &str| transferred(&played.api, path).await.0;
    let (mut weight, page) = transferred(&played.api, "/lab").await;
    let (before, _) = page.split_once("/lab.js\"").unwrap();
    let assets = &before[before.rfind("/assets/").unwrap()..];
    let parts =
        ["explored", "file", "goal", "hints", "lanes", "replay", "schedule", "scrubber", "server"];
    let scripts = parts.iter().map(|part| format!("lab_{part}.js"));
    let others = ["lab.js", "page.js", "words.js", "api.js", "style.css", "lab.css"];
    for name in scripts.chain(others.map(str::to_owned)) {
        weight += load(&format!("{assets}/{name}")).await;
    }
    let mut heaviest = 0;
    for rung in ladder::RUNGS {
        heaviest = heaviest.max(load(&format!("/api/lab/rungs/{}", rung.id)).await);
    }
    assert!(weight + heaviest < MAX_BYTES, "{weight} + {heaviest} bytes");
    played.close().await;
}
