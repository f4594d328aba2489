//! What there is to win in the game, on every kind of rung, and how it is said; what a phone shows of a step.

use crate::lab_page::{Game, until_schedule};
use crate::lab_player::options;
use testkit::shop::web_driver::{DESKTOP, PHONE};

#[tokio::test(flavor = "multi_thread")]
async fn what_explore_found_is_the_goal_and_time_payment_and_a_lost_answer_are_buttons() {
    let browser = Game::new(options().await, "en", DESKTOP).await;
    for (rung, goal, keys, schedule, broken) in [
        ("r13b", "one_per_user", "aaalbbbbbbaa", "AAALBBBBBBAA", "Broken in 12. Par: 12."),
        ("r24", "no_oversell", "atttabb", "ATTTABB", "Broken in 7. Par: 7."),
        ("r27a", "same_answer", "aasb", "AASB", "Broken in 4. Par: 4."),
    ] {
        browser.visit(&format!("rung={rung}")).await;
        browser.until_text("#goal", goal).await;
        for (nth, key) in keys.chars().enumerate() {
            browser.press(&key.to_string()).await;
            until_schedule(&browser, &schedule[..=nth]).await;
        }
        browser.until_text("#verdict.good .won", broken).await;
        browser.until_text("#verdict", "In a shop: ").await;
    }
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_is_told_the_same_where_it_has_a_key() {
    let browser = Game::at(DESKTOP, "rung=r27b&users=1&processes=1&stock=2").await;
    browser.until("document.querySelector('#again').disabled").await;
    browser.press("aa").await;
    browser.click("#again").await;
    until_schedule(&browser, "AAS").await;
    browser.until_text("#timeline", "the answer is lost").await;
    assert!(!browser.shows("#verdict").await);
    browser.press("b").await;
    browser.until_text("#verdict.good", "no promise was broken").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_take_no_steps_for_whoever_turns_them_off_and_the_buttons_are_one_link_away() {
    let browser = Game::at(DESKTOP, "rung=r05a").await;
    browser.click("#shortcuts").await;
    browser.reload().await;
    until_schedule(&browser, "–").await;
    browser.press("ab").await;
    browser.value("document.querySelector('main .skip').click()").await;
    browser.until("document.activeElement.id === 'controls'").await;
    browser.click("[data-step=A]").await;
    until_schedule(&browser, "A").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_phone_the_newest_step_is_in_sight_and_the_code_is_folded() {
    let browser = Game::at(PHONE, "rung=r13b").await;
    assert!(!browser.shows("#source").await);
    for (nth, key) in "aaalbbb".chars().enumerate() {
        browser.press(&key.to_string()).await;
        until_schedule(&browser, &"AAALBBB"[..=nth]).await;
        let seen = "((step, controls) => step.top >= 0 && step.bottom <= controls.top)\
            (document.querySelector('#timeline li:last-child').getBoundingClientRect(), \
             document.querySelector('#controls').getBoundingClientRect())";
        browser.until(seen).await;
    }
    browser.value("document.querySelector('[aria-controls=source-card]').click()").await;
    browser.until_shown("#source").await;
    browser.close().await;
}
