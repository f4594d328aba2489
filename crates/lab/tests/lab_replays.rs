//! Every cell of the lab's matrix, played.

use futures_util::{StreamExt, stream};
use ladder::{Invariant, LockKind, RUNGS, Rung, Scenario};
use seckill::http::Language;
use seckill_lab::{Cell, Outcome, cells, replay};

use crate::course::timeline;
use crate::kept::{has_lock_of, lab, played};
use testkit::shop::world;

fn told(cell: &Cell) -> String {
    timeline::printed(cell, Language::English).join("\n")
}

/// Words that are the names of something: the codes of answers, settings of Redis.
const NAMES: [&str; 8] =
    ["ordered", "accepted", "refused", "entered", "appendfsync", "everysec", "fsync", "ms"];

/// The first English word of a Chinese line that is nothing's name. The words of an operating system for a
/// server that is gone stay as they are.
fn english_word(line: &str) -> Option<&str> {
    let line = line.split("没有得到响应：").next().unwrap_or(line);
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_name = |word: &str| {
        word.contains('_')
            || NAMES.contains(&word)
            || RUNGS.iter().any(|rung| rung.id == word)
            || Scenario::ALL.iter().any(|scenario| scenario.as_str() == word)
            || Invariant::ALL.iter().any(|invariant| invariant.as_str() == word)
    };
    let mut words =
        words.filter(|word| word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase()));
    words.find(|word| !is_name(word))
}

#[test]
fn an_english_word_is_found_and_a_name_is_none() {
    assert_eq!(english_word("    A      is told: 售罄（sold_out）"), Some("is"));
    for line in
        ["得到响应：买到了（ordered）", "r03_version_cas  herd：许多买家", "SET NX PX 300 毫秒"]
    {
        assert_eq!(english_word(line), None);
    }
}

/// Cells that are played at once.
const AT_ONCE: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn every_cell_is_as_claimed_and_told_in_chinese() {
    let left_out = RUNGS.iter().filter(|rung| !has_lock_of(rung)).map(|rung| rung.id);
    let left_out: Vec<&str> = left_out.collect();
    let cells = cells().filter(|(rung, _)| !left_out.contains(&rung.id));
    let otherwise = stream::iter(cells).map(|(rung, scenario)| async move {
        let cell = played(rung, scenario).await;
        let chinese = timeline::printed(&cell, Language::Chinese);
        let english = chinese.iter().filter(|line| english_word(line).is_some());
        let mut wrong: Vec<String> =
            english.map(|line| format!("{} {scenario}: no Chinese for: {line}", rung.id)).collect();
        wrong.extend(cell.is_wrong().then(|| told(&cell)));
        wrong
    });
    let otherwise: Vec<_> = otherwise.buffer_unordered(AT_ONCE).concat().await;
    assert!(otherwise.is_empty(), "{}", otherwise.join("\n"));
}

/// What the row of a rung says is held against the code of another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_its_code_belies_is_found_out() {
    use Scenario::*;
    let rows = [
        // The naive rung with the guard of r04; r11 without the script in its release.
        ("r04_stock_guard", "r01_naive", LastOne, SAID_TO_BREAK),
        ("r10_owner_check", "r11_lua_release", StalledRelease, SAID_TO_HOLD),
        // A release that cannot be sent again; a fixed lease without the fence; no lock at all.
        ("r13b_wakeup", "r13c_resent_release", ResentRelease, SAID_TO_HOLD),
        ("r12_reentrant", "r16_fencing", PausedHolder, SAID_TO_HOLD),
        ("r05a_check_then_insert", "r05b_advisory_lock", TwoNodes, SAID_TO_HOLD),
        // All servers of the lock, where a majority is claimed to be enough.
        ("r14_multi_lock", "r15_redlock", NodeDown, SAID_TO_HOLD),
        ("r24_expire_by_timer", "r25_expire_by_condition", LatePayment, SAID_TO_HOLD),
        ("r24_expire_by_timer", "r25_expire_by_condition", PayAndExpire, SAID_TO_HOLD),
        ("r24_expire_by_timer", "r25_expire_by_condition", UnknownOrder, SAID_TO_HOLD),
        ("r21a_lua_and_stream", "r22_stream_done_right", PoisonWithLast, SAID_TO_HOLD),
        // Judged by what is left at the end, r26c would keep what it breaks.
        ("r26c_sold_out_for_a_second", "r26e_versioned_fill", JustRestocked, SAID_TO_HOLD),
        ("r26e_versioned_fill", "r26d_write_then_delete", JustRestocked, SAID_TO_BREAK),
        ("r26b_delayed_double_delete", "r26d_write_then_delete", LateRefill, SAID_TO_HOLD),
        ("r18c_all_segments", "r18b_stock_segments", GivenBackTogether, SAID_TO_HOLD),
        ("r25_expire_by_condition", "r24_expire_by_timer", PayAndExpire, SAID_TO_BREAK),
        ("r25_expire_by_condition", "r24_expire_by_timer", ForgottenTimer, SAID_TO_BREAK),
        // A consumer that looks at no update, or dies between the entry and its order.
        ("r21c_unchecked_consumer", "r21d_batched_consumer", UpdateIgnored, SAID_TO_HOLD),
        ("r21d_batched_consumer", "r21a_lua_and_stream", DiesWithLast, SAID_TO_BREAK),
        // A client that sends again without a key.
        ("r27a_retry", "r27b_request_key", AnswerLost, SAID_TO_HOLD),
        ("r27b_request_key", "r27a_retry", AnswerLost, SAID_TO_BREAK),
        // A window for a bucket, a process's clock for that of Redis, and a token that is not spent.
        ("r28a_fixed_window", "r28b_token_bucket", WindowEdge, SAID_TO_HOLD),
        ("r28b_token_bucket", "r28a_fixed_window", WindowEdge, SAID_TO_BREAK),
        ("r28b_token_bucket", "r28c_redis_time", ClockAhead, SAID_TO_HOLD),
        ("r28c_redis_time", "r28b_token_bucket", ClockAhead, SAID_TO_BREAK),
        ("r29a_admission_token", "r29b_spent_token", TokenTwice, SAID_TO_HOLD),
        ("r29b_spent_token", "r29a_admission_token", TokenTwice, SAID_TO_BREAK),
        ("r29b_spent_token", "r29a_admission_token", DiesLetIn, SAID_TO_HOLD),
        // First come for a draw, and a line that is looked at before the offer.
        ("r30a_first_come", "r30b_draw", OtherOrder, SAID_TO_HOLD),
        ("r30b_draw", "r30a_first_come", OtherOrder, SAID_TO_BREAK),
        ("r31a_line_by_check", "r31b_line_by_condition", PassedInLine, SAID_TO_HOLD),
        ("r31b_line_by_condition", "r31a_line_by_check", PassedInLine, SAID_TO_BREAK),
    ];
    let modest = find("r05a_check_then_insert");
    let too_much = Rung { claims: &[Invariant::NoOversell, Invariant::OnePerUser], ..*modest };
    let of_others = rows.map(|(built, said, scenario, verdict)| {
        let Rung { claims, breaks, .. } = *find(said);
        (Rung { claims, breaks, ..*find(built) }, scenario, verdict)
    });
    let of_its_own = [DoubleClick, TwoNodes].map(|scenario| (too_much, scenario, SAID_TO_HOLD));
    let lab = lab().await;
    for (row, scenario, verdict) in of_others.into_iter().chain(of_its_own) {
        let cell = replay(&lab, Box::leak(Box::new(row)), scenario).await;
        assert_eq!((cell.claimed, cell.observed), verdict, "{}", told(&cell));
        assert!(!cell.is_as_claimed());
    }
}

fn find(id: &str) -> &'static Rung {
    ladder::find(id).unwrap()
}

const SAID_TO_BREAK: (Outcome, Outcome) = (Outcome::Breaks, Outcome::Holds);
const SAID_TO_HOLD: (Outcome, Outcome) = (Outcome::Holds, Outcome::Breaks);

/// A buyer who was told of an order has one, whatever promise the scenario is about; and nobody can say what became of
/// an actor whose database is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_order_or_a_failed_replay_is_neither_kept_nor_broken() {
    let queue = *find("r20_lua_and_queue");
    // The lab takes it for a rung that writes before it answers, and so has nothing left to write.
    let at_once = Rung { lock: LockKind::Redis(1), ..queue };
    let keeps_promises = Rung { claims: &[Invariant::NoBrokenPromise], ..queue };
    // A row of the registry for a rung that no node knows.
    let fails = Rung { id: "r99_nobody", ..*find("r01_naive") };
    let lab = lab().await;
    for (row, scenario, why) in [
        (at_once, Scenario::LastOne, "no_lost_order: A was told of order "),
        (keeps_promises, Scenario::DiesWithLast, "no_broken_promise: A was told yes"),
        (fails, Scenario::LastOne, ""),
    ] {
        let cell = replay(&lab, Box::leak(Box::new(row)), scenario).await;
        assert_eq!(cell.observed, Outcome::Unknown, "{}", told(&cell));
        assert!(!cell.is_as_claimed());
        let witness = cell.witness.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(witness.starts_with(why), "{}", told(&cell));
    }
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

/// A consumer that was only slow writes an order that another one has given up: its buyer is told of it for
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
