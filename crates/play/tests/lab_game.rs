//! The ladder as a game, in a real browser: goals, hints and wins; steps that are played and looked at again; the
//! consumer and the kill.

use crate::lab_page::{DESK, Game, HINT_MS, until_schedule};
use crate::lab_player::options;
use serde_json::json;
use testkit::shop::web_driver::{DESKTOP, PHONE};

#[tokio::test(flavor = "multi_thread")]
async fn a_win_says_what_broke_and_par_and_its_tick_outlasts_a_reload() {
    let browser = Game::at(DESK, "rung=r05a").await;
    browser.until_text("#goal", "one user holds at most one order").await;
    browser.until_text("#score", "0 of ").await;
    assert_eq!(browser.count("#ladder .tick").await, 0);
    browser.press("abab").await;
    browser.until_text("#verdict", "Broken in 4.").await;
    browser.until_text("#verdict", "Par: 4.").await;
    browser.until_text("#verdict.good", "order 1 and order 2").await;
    browser.until_text("#score", "1 of ").await;
    let tick = "document.querySelector('[data-rung=r05a_check_then_insert] .tick')";
    browser.until(tick).await;
    browser.reload().await;
    until_schedule(&browser, "ABAB").await;
    browser.until(tick).await;
    // It is still the reader's own; what somebody else played is nobody's win.
    browser.until_text("#verdict", "Broken in 4.").await;
    browser.visit("rung=r05a&users=1&processes=2&stock=2&schedule=BABA").await;
    browser.until_text("#verdict", "do it yourself").await;
    // With a step too many it is a win again, and the best is kept.
    browser.click("#restart").await;
    until_schedule(&browser, "–").await;
    browser.press("baba").await;
    browser.until_text("#verdict", "Broken in 4.").await;
    browser.click("#next-rung").await;
    browser.until_text("#source-title", "r05b_advisory_lock.rs").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_find_it_is_nudged_after_eight_steps_and_told_at_a_button() {
    let browser = Game::at(DESK, "rung=r05a").await;
    for round in 1..=2 {
        browser.press("aab").await;
        until_schedule(&browser, "AAB").await;
        browser.press("u").await;
        browser.press("u").await;
        until_schedule(&browser, "A").await;
        browser.click("#restart").await;
        until_schedule(&browser, "–").await;
        assert!(!browser.shows("#nudge").await, "{round}");
    }
    browser.press("a").await;
    until_schedule(&browser, "A").await;
    assert!(!browser.shows("#nudge").await);
    browser.press("a").await;
    browser.until_text("#nudge", "When does the rung ask for an earlier order").await;
    browser.click("#hint").await;
    browser.until_text("#nudge", "It begins so: A B …").await;
    browser.click("#hint").await;
    browser.until_text("#nudge", "The schedule: A B A B").await;
    assert_eq!(browser.value("document.querySelector('#hint').disabled").await, true);
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shown_steps_are_looked_at_again_by_keyboard_and_gone_on_from_in_another_way() {
    let browser = Game::at(DESK, "rung=r05a").await;
    // Without motion the end is there at once.
    browser.prefers("light").await;
    browser.click("#show-me").await;
    until_schedule(&browser, "ABAB").await;
    browser.until_text("#play", "Play").await;
    browser.until_text("#state", "order 2: user 1").await;
    let moves = "getComputedStyle(document.querySelector('#timeline .now')).animationName";
    assert_eq!(browser.value(moves).await, "none");
    // Each earlier state, by the keys of the range: home, and to the right.
    browser.value("document.querySelector('#scrubber').focus()").await;
    browser.press("\u{e011}").await;
    until_schedule(&browser, "–").await;
    browser.until_text("#state", "stock 2 of 2").await;
    browser.until("document.querySelector('#verdict').hidden").await;
    browser.until("document.querySelectorAll('#source .at-a.at-b').length === 1").await;
    for schedule in ["A", "AB", "ABA"] {
        browser.press("\u{e014}").await;
        until_schedule(&browser, schedule).await;
    }
    browser.until_text("#state", "stock 1 of 2").await;
    browser.until_text("#state", "order 1: user 1").await;
    let said = "document.querySelector('#scrubber').getAttribute('aria-valuetext')";
    assert_eq!(browser.value(said).await, "step 3 of 4");
    // It goes on by itself.
    browser.click("#play").await;
    until_schedule(&browser, "ABAB").await;
    browser.until_text("#play", "Play").await;
    // From an earlier state one goes on in another way.
    browser.press("uub").await;
    until_schedule(&browser, "ABB").await;
    browser.until("document.querySelector('#redo').disabled").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_consumer_is_played_and_its_process_killed() {
    let browser = Game::at(DESK, "rung=r21a").await;
    // Not the verdict of the rung before.
    browser.until("document.querySelector('#verdict').hidden").await;
    browser.until_shown("[data-buyer=C]").await;
    browser.until_text("[data-buyer=C]", "consumer, process 1").await;
    browser.until("document.querySelector('[data-step=C]').disabled").await;
    browser.press("aa").await;
    until_schedule(&browser, "AA").await;
    browser.until_text("#state", "told yes, not written yet: 1").await;
    browser.click("[data-step=C]").await;
    until_schedule(&browser, "AAC").await;
    browser.until_text("[data-buyer=C]", "takes an entry: order 1").await;
    browser.until_text("#source .at-c", "Point::EntryRead").await;
    browser.click("#kill").await;
    until_schedule(&browser, "AACK").await;
    browser.until_text("[data-buyer=C]", "killed").await;
    browser.press("bb").await;
    browser.until_text("#verdict", "Broken: no_broken_promise").await;
    browser.until_text("#state", "told yes, and has no order: 1").await;
    browser.until("document.querySelector('#ladder [aria-current] .tick')").await;
    // Where there is no consumer, there is no lane for it, and no process to kill.
    browser.visit("rung=r01").await;
    for gone in ["[data-buyer=C]", "[data-step=C]", "#kill", "#lease"] {
        browser.until(&format!("!document.querySelector('{gone}').checkVisibility()")).await;
    }
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rung_that_writes_later_shows_no_verdict_of_the_rung_before() {
    let browser = Game::at(DESK, "rung=r19&schedule=AB").await;
    browser.until_text("#verdict", "no promise was broken").await;
    browser.click("#next").await;
    browser.until_text("#source-title", "r20_lua_and_queue.rs").await;
    until_schedule(&browser, "–").await;
    browser.until("document.querySelector('#verdict').hidden").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_was_explored_can_be_tried() {
    let browser = Game::at(DESK, "rung=r27b").await;
    browser.until_text("#explored summary", "played").await;
    browser.until_text("#explored summary", "none breaks a promise").await;
    browser.until_text("#goal", "nothing that two buyers can do here breaks this one").await;
    browser.click("#explored summary").await;
    browser.click("#explored .some button").await;
    browser.until_text("#verdict", "no promise was broken").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_it_is_above_the_fold_on_a_desk_and_the_verdict_is_never_behind_the_controls_on_a_phone()
 {
    let browser = Game::at(DESK, "rung=r13d&schedule=ABBA&users=1&stock=2").await;
    until_schedule(&browser, "ABBA").await;
    for part in
        ["#ladder", "#goal", "#lanes", "#locks", "#state", "#controls", "#source", "#restart"]
    {
        let seen = format!(
            "(box => box.height > 10 && box.top >= 0 && box.bottom <= innerHeight)\
             (document.querySelector('{part}').getBoundingClientRect())"
        );
        browser.until(&seen).await;
    }
    // Both markers.
    for mark in ["a", "b"] {
        let seen = format!(
            "((mark, box) => mark.top >= box.top && mark.bottom <= box.bottom)\
             (document.querySelector('#source .mark-{mark}').getBoundingClientRect(), \
              document.querySelector('#source').getBoundingClientRect())"
        );
        browser.until(&seen).await;
    }

    for size in [PHONE, (320, 640)] {
        browser.resize(size).await;
        browser.visit("rung=r05a").await;
        // Out from behind the controls.
        let show = "document.querySelector('#show-me').scrollIntoView({ block: 'center' })";
        browser.value(show).await;
        browser.click("#show-me").await;
        browser.until_text("#verdict", "Broken: one_per_user").await;
        let seen = "((verdict, controls) => verdict.top >= 0 && verdict.bottom <= controls.top)\
            (document.querySelector('#verdict').getBoundingClientRect(), \
             document.querySelector('#controls').getBoundingClientRect())";
        browser.until(seen).await;
    }
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_solution_that_is_shown_is_no_win_needs_no_hint_and_a_link_on_the_page_begins_nothing_anew()
 {
    let browser = Game::at(DESK, "rung=r05a").await;
    let is_timed = format!("Boolean(window.heldTimers[{HINT_MS}])");
    browser.until(&is_timed).await;
    browser.click("#show-me").await;
    until_schedule(&browser, "ABAB").await;
    browser.until_text("#verdict", "That is how.").await;
    assert_eq!(browser.count("#ladder .tick").await, 0);
    assert_eq!(browser.value(&is_timed).await, false);
    browser.press("u").await;
    until_schedule(&browser, "ABA").await;
    // The way of a keyboard past the navigation: what was played is still there.
    browser.value("document.querySelector('a[href=\"#main\"]').click()").await;
    browser.until("location.hash === '#main'").await;
    browser.press("r").await;
    until_schedule(&browser, "ABAB").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_win_is_ones_own_when_one_comes_back_and_after_a_second_try() {
    let browser = Game::at(DESK, "rung=r05a").await;
    browser.press("aba").await;
    until_schedule(&browser, "ABA").await;
    // The step is lost on the way, and the reader tries again.
    browser.devtools("Network.enable", json!({})).await;
    browser.devtools("Network.setBlockedURLs", json!({ "urls": ["*/api/lab/sessions*"] })).await;
    browser.press("b").await;
    browser.until_shown("#message button").await;
    browser.devtools("Network.setBlockedURLs", json!({ "urls": [] })).await;
    browser.click("#message button").await;
    browser.until_text("#verdict", "Broken in 4.").await;
    assert_eq!(browser.count("#ladder .tick").await, 1);
    browser.press("n").await;
    browser.until("!location.search.includes('r05a')").await;
    until_schedule(&browser, "–").await;
    browser.back().await;
    until_schedule(&browser, "ABAB").await;
    browser.until_text("#verdict", "Broken in 4.").await;
    browser.close_after_cuts().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_goal_begins_anew_with_its_settings() {
    let browser = Game::at(DESKTOP, "rung=r01").await;
    browser.press("a").await;
    until_schedule(&browser, "A").await;
    browser.click("[data-lesson=double_click]").await;
    until_schedule(&browser, "–").await;
    browser.until_text("#goal", "one_per_user").await;
    assert_eq!(browser.value("document.querySelector('#users').value").await, "1");
    browser.until_text("[data-buyer=B]", "user 1").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lanes_and_controls_are_on_the_first_screen_of_a_phone_and_the_goal_is_unfolded() {
    for language in ["en", "zh-CN"] {
        let browser = Game::new(options().await, language, PHONE).await;
        browser.visit("rung=r05a").await;
        let seen = "((lanes, controls) => scrollY === 0 && lanes.top + 200 <= controls.top \
            && controls.bottom <= innerHeight)\
            (document.querySelector('#lanes').getBoundingClientRect(), \
             document.querySelector('#controls').getBoundingClientRect())";
        browser.until(seen).await;
        assert!(!browser.shows("#settings").await);
        browser.click("[aria-controls=goal-card]").await;
        browser.until_shown("#settings").await;
        browser.until_shown("#goals button").await;
        let unfolded = "document.querySelector('[aria-controls=goal-card]').ariaExpanded";
        assert_eq!(browser.value(unfolded).await, "true");
        browser.click("[aria-controls=goal-card]").await;
        browser.until("!document.querySelector('#settings').checkVisibility()").await;
        browser.close().await;
    }
}
