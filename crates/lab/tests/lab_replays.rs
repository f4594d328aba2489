//! Every cell of the lab's matrix, played: a test a rung, so that a broken one names itself.

use ladder::{self, Invariant, LockKind, RUNGS, Rung, Scenario};
use seckill::http::Language;
use seckill_lab::{Cell, Outcome, cells, replay};

use crate::course::english::english_word;
use crate::course::timeline;
use crate::kept::{has_lock_of, lab, played};
use testkit::shop::world;

fn told(cell: &Cell) -> String {
    let timeline: Vec<String> = cell.timeline.iter().map(ToString::to_string).collect();
    let (rung, scenario, claimed) = (cell.of.rung, cell.of.scenario, cell.claimed);
    let witness = cell.witness.as_ref().map_or("no witness".to_owned(), ToString::to_string);
    let observed = cell.observed;
    let timeline = timeline.join("\n    ");
    format!("{rung} {scenario}: {claimed:?} claimed, {observed:?}: {witness}\n    {timeline}")
}

async fn plays_as_claimed(id: &str) {
    let rung = ladder::find(id).unwrap();
    if !has_lock_of(rung) {
        return;
    }
    let mut otherwise = Vec::new();
    for (_, scenario) in cells().filter(|(known, _)| known.id == rung.id) {
        let cell = played(rung, scenario).await;
        if cell.is_wrong() {
            otherwise.push(told(&cell));
        }
        let chinese = timeline::printed(&cell, Language::Chinese);
        let english = chinese.iter().filter(|line| english_word(line).is_some());
        otherwise.extend(english.map(|line| format!("{scenario}: no Chinese for: {line}")));
    }
    assert!(otherwise.is_empty(), "{}", otherwise.join("\n"));
}

/// A test a rung, and one that none of them was forgotten.
macro_rules! rungs {
    ($($id:ident)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $id() {
            plays_as_claimed(stringify!($id)).await;
        })+

        #[test]
        fn every_rung_has_a_test() {
            let known: Vec<&str> = RUNGS.iter().map(|rung| rung.id).collect();
            assert_eq!(known, [$(stringify!($id)),+]);
        }
    };
}

rungs! {
    r01_naive
    r02_row_lock
    r03_version_cas
    r04_stock_guard
    r05a_check_then_insert
    r05b_advisory_lock
    r06_global_mutex
    r07a_user_mutex_inside_tx
    r07b_user_mutex
    r08a_setnx
    r08b_setnx_expire
    r09_set_nx_px
    r10_owner_check
    r11_lua_release
    r12_reentrant
    r13a_renewal
    r13b_wakeup
    r13c_resent_release
    r13d_redisson_lock
    r14_multi_lock
    r15_redlock
    r16_fencing
    r17_zookeeper
    r18a_constraints
    r18b_stock_segments
    r18c_all_segments
    r19_group_commit
    r20_lua_and_queue
    r21a_lua_and_stream
    r21b_stream_from_now
    r21c_unchecked_consumer
    r21d_batched_consumer
    r22_stream_done_right
    r23a_outbox
    r23b_batched_outbox
    r24_expire_by_timer
    r25_expire_by_condition
    r26a_cached_stock
    r26b_delayed_double_delete
    r26c_sold_out_for_a_second
    r26d_write_then_delete
    r26e_versioned_fill
    r27a_retry
    r27b_request_key
    r28a_fixed_window
    r28b_token_bucket
    r28c_redis_time
    r29a_admission_token
    r29b_spent_token
    r30a_first_come
    r30b_draw
    r31a_line_by_check
    r31b_line_by_condition
}

/// Each row of the registry says something else than what the code of `built` does.
async fn are_found_out(rows: &[(&str, &Rung, Scenario, (Outcome, Outcome))]) {
    let lab = lab().await;
    for &(built, row, scenario, verdict) in rows {
        let row = Rung { claims: row.claims, breaks: row.breaks, ..*find(built) };
        let cell = replay(&lab, Box::leak(Box::new(row)), scenario).await;
        assert_eq!((cell.claimed, cell.observed), verdict, "{}", told(&cell));
        assert!(!cell.is_as_claimed());
    }
    lab.close().await.unwrap();
}

fn find(id: &str) -> &'static Rung {
    ladder::find(id).unwrap()
}

const SAID_TO_BREAK: (Outcome, Outcome) = (Outcome::Breaks, Outcome::Holds);
const SAID_TO_HOLD: (Outcome, Outcome) = (Outcome::Holds, Outcome::Breaks);

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_its_code_belies_is_found_out() {
    use Scenario::{
        DoubleClick, ForgottenTimer, GivenBackTogether, JustRestocked, LastOne, LatePayment,
        LateRefill, NodeDown, PausedHolder, PayAndExpire, PoisonWithLast, ResentRelease,
        StalledRelease, TwoNodes, UnknownOrder,
    };
    let modest = find("r05a_check_then_insert");
    let too_much = Rung { claims: &[Invariant::NoOversell, Invariant::OnePerUser], ..*modest };
    are_found_out(&[
        // The naive rung with the guard of r04; r11 without the script in its release.
        ("r04_stock_guard", find("r01_naive"), LastOne, SAID_TO_BREAK),
        ("r10_owner_check", find("r11_lua_release"), StalledRelease, SAID_TO_HOLD),
        // A release that cannot be sent again; a fixed lease without the fence; no lock at all.
        ("r13b_wakeup", find("r13c_resent_release"), ResentRelease, SAID_TO_HOLD),
        ("r12_reentrant", find("r16_fencing"), PausedHolder, SAID_TO_HOLD),
        ("r05a_check_then_insert", find("r05b_advisory_lock"), TwoNodes, SAID_TO_HOLD),
        // All servers of the lock, where a majority is claimed to be enough.
        ("r14_multi_lock", find("r15_redlock"), NodeDown, SAID_TO_HOLD),
        ("r05a_check_then_insert", &too_much, DoubleClick, SAID_TO_HOLD),
        ("r05a_check_then_insert", &too_much, TwoNodes, SAID_TO_HOLD),
        ("r24_expire_by_timer", find("r25_expire_by_condition"), LatePayment, SAID_TO_HOLD),
        ("r24_expire_by_timer", find("r25_expire_by_condition"), PayAndExpire, SAID_TO_HOLD),
        ("r24_expire_by_timer", find("r25_expire_by_condition"), UnknownOrder, SAID_TO_HOLD),
        ("r21a_lua_and_stream", find("r22_stream_done_right"), PoisonWithLast, SAID_TO_HOLD),
        // Judged by what is left at the end, r26c would keep what it breaks.
        ("r26c_sold_out_for_a_second", find("r26e_versioned_fill"), JustRestocked, SAID_TO_HOLD),
        ("r26e_versioned_fill", find("r26d_write_then_delete"), JustRestocked, SAID_TO_BREAK),
        ("r26b_delayed_double_delete", find("r26d_write_then_delete"), LateRefill, SAID_TO_HOLD),
        ("r18c_all_segments", find("r18b_stock_segments"), GivenBackTogether, SAID_TO_HOLD),
        ("r25_expire_by_condition", find("r24_expire_by_timer"), PayAndExpire, SAID_TO_BREAK),
        ("r25_expire_by_condition", find("r24_expire_by_timer"), ForgottenTimer, SAID_TO_BREAK),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_messages_retries_or_rates_that_its_code_belies_is_found_out() {
    use Scenario::{
        AnswerLost, ClockAhead, DiesLetIn, DiesWithLast, OtherOrder, PassedInLine, TokenTwice,
        UpdateIgnored, WindowEdge,
    };
    are_found_out(&[
        // A consumer that looks at no update, or dies between the entry and its order.
        ("r21c_unchecked_consumer", find("r21d_batched_consumer"), UpdateIgnored, SAID_TO_HOLD),
        ("r21d_batched_consumer", find("r21a_lua_and_stream"), DiesWithLast, SAID_TO_BREAK),
        // A client that sends again without a key.
        ("r27a_retry", find("r27b_request_key"), AnswerLost, SAID_TO_HOLD),
        ("r27b_request_key", find("r27a_retry"), AnswerLost, SAID_TO_BREAK),
        // A window for a bucket, a process's clock for that of Redis, and a token that is not spent.
        ("r28a_fixed_window", find("r28b_token_bucket"), WindowEdge, SAID_TO_HOLD),
        ("r28b_token_bucket", find("r28a_fixed_window"), WindowEdge, SAID_TO_BREAK),
        ("r28b_token_bucket", find("r28c_redis_time"), ClockAhead, SAID_TO_HOLD),
        ("r28c_redis_time", find("r28b_token_bucket"), ClockAhead, SAID_TO_BREAK),
        ("r29a_admission_token", find("r29b_spent_token"), TokenTwice, SAID_TO_HOLD),
        ("r29b_spent_token", find("r29a_admission_token"), TokenTwice, SAID_TO_BREAK),
        ("r29b_spent_token", find("r29a_admission_token"), DiesLetIn, SAID_TO_HOLD),
        // First come for a draw, and a line that is looked at before the offer.
        ("r30a_first_come", find("r30b_draw"), OtherOrder, SAID_TO_HOLD),
        ("r30b_draw", find("r30a_first_come"), OtherOrder, SAID_TO_BREAK),
        ("r31a_line_by_check", find("r31b_line_by_condition"), PassedInLine, SAID_TO_HOLD),
        ("r31b_line_by_condition", find("r31a_line_by_check"), PassedInLine, SAID_TO_BREAK),
    ])
    .await;
}

/// A buyer who was told of an order has one, whatever promise the scenario is about.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_order_is_never_passed_over() {
    let queue = *ladder::find("r20_lua_and_queue").unwrap();
    // The lab takes it for a rung that writes before it answers, and so has nothing left to write.
    let at_once = Rung { lock: LockKind::Redis(1), ..queue };
    let keeps_promises = Rung { claims: &[Invariant::NoBrokenPromise], ..queue };
    let lab = lab().await;
    for (row, scenario, why) in [
        (at_once, Scenario::LastOne, "no_lost_order: A was told of order "),
        (keeps_promises, Scenario::DiesWithLast, "no_broken_promise: A was told yes"),
    ] {
        let cell = replay(&lab, Box::leak(Box::new(row)), scenario).await;
        assert_eq!(cell.observed, Outcome::Unknown, "{}", told(&cell));
        let witness = cell.witness.as_ref().unwrap().to_string();
        assert!(witness.starts_with(why), "{}", told(&cell));
    }
    lab.close().await.unwrap();
}

/// Nobody can say what became of an actor whose database is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_cannot_be_played_is_neither_kept_nor_broken() {
    let lab = lab().await;
    let fails: &'static Rung = Box::leak(Box::new(Rung {
        // A row of the registry for a rung that no node knows.
        id: "r99_nobody",
        ..*ladder::find("r01_naive").unwrap()
    }));
    let cell = replay(&lab, fails, Scenario::LastOne).await;
    lab.close().await.unwrap();
    assert_eq!(cell.observed, Outcome::Unknown, "{}", told(&cell));
    assert!(!cell.is_as_claimed());
}

#[test]
fn what_a_rung_claims_and_where_it_breaks_do_not_contradict_each_other() {
    let mut wrong = Vec::new();
    for rung in RUNGS {
        let played: Vec<Scenario> = cells()
            .filter(|(known, _)| known.id == rung.id)
            .map(|(_, scenario)| scenario)
            .collect();
        for invariant in Invariant::ALL {
            let puts_at_stake = |scenario: &Scenario| scenario.invariant() == *invariant;
            let is_played = played.iter().any(puts_at_stake);
            let says = (rung.claims.contains(invariant), rung.breaks.iter().any(puts_at_stake));
            // One of the two about what is played, and nothing about what is not.
            if says.0 == says.1 && is_played || (says.0 || says.1) && !is_played {
                wrong.push(format!("{} {invariant}: keeps, breaks {says:?}", rung.id));
            }
        }
        for scenario in rung.breaks {
            if !played.contains(scenario) {
                wrong.push(format!("{} cannot break in {scenario}: it is absent", rung.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The four lines that the lab and the report quote.
#[test]
fn every_rung_says_what_it_is() {
    for rung in RUNGS {
        for line in ["Idea", "Holds", "Breaks when", "Next"] {
            assert!(rung.line(line).len() > 10, "{}: no line {line:?}", rung.id);
        }
    }
}

/// A consumer that was only slow writes an order that another one has given up: its buyer hears of it for
/// good, and the voucher that was given back is taken again.
#[tokio::test]
async fn r22_tells_of_an_order_that_was_given_up_and_then_written() {
    let world = world::World::new().await;
    let run = uuid::Uuid::new_v4();
    let names = ["{1}stream", "{1}told", "{1}stock"].map(|name| format!("{run}:{name}"));
    let [stream, told, stock] = names.each_ref().map(String::as_str);
    let say = async |words: &[&str]| {
        let mut command = redis::cmd(words[0]);
        world.redis.query::<redis::Value>(command.arg(&words[1..])).await.unwrap()
    };
    say(&["SET", stock, "0"]).await;
    say(&["XADD", stream, "1-1", "user", "7"]).await;
    say(&["XGROUP", "CREATE", stream, "g", "0"]).await;
    say(&["XREADGROUP", "GROUP", "g", "c", "STREAMS", stream, ">"]).await;
    let script = include_str!("../../ladder/lua/settle.lua");
    for (word, gives_back, heard, left) in [
        ("order_failed", "1", "order_failed", "1"),
        ("order_failed", "1", "order_failed", "1"),
        ("17", "0", "17", "0"),
        ("already_bought", "0", "17", "0"),
    ] {
        say(&["EVAL", script, "3", stream, told, stock, "g", "1-1", "7", word, gives_back]).await;
        let text = |text: &str| redis::Value::BulkString(text.into());
        assert_eq!(say(&["HGET", told, "7"]).await, text(heard), "{word}");
        assert_eq!(say(&["GET", stock]).await, text(left), "{word}");
    }
}
