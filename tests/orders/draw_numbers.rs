//! The public number of a draw: nobody can choose it, nor what it draws from once the server knows it.

use chrono::TimeDelta;
use futures_util::future::join_all;
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{Clock, Draw, VoucherId};
use seckill::store::{cancelled_sales, draws};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use testkit::program::Program;
use testkit::shop::api_client::Answer;
use testkit::shop::till::Till;

use crate::orders::races::patient;

const LOTTERY: &str = "the lottery of 2026-11-12";
/// From the beginning of a test to the moment at which the number is published.
const PUBLISHED: TimeDelta = TimeDelta::seconds(3_601);

/// A sale of one voucher, in whose draw `users` have entered; its number is published, and nobody has told it yet.
async fn before_its_number(users: u32) -> Till {
    let till = Till::with_draw(1, 0, LOTTERY, users).await;
    till.all_enter(users.into()).await;
    till.after(PUBLISHED).await;
    till
}

async fn tell(till: &Till, number: &str) -> Answer {
    till.administer("PUT", "/draw", &json!({ "number": number })).await
}

async fn edit(till: &Till, what: &Value) -> Answer {
    till.administer("PATCH", "", what).await
}

/// How many of users 1 to `users` have the voucher.
async fn served(till: &Till, users: i64) -> usize {
    let entries = join_all((1..=users).map(|user| till.entry(user))).await;
    entries.iter().filter(|entry| entry["status"] == "bought").count()
}

#[tokio::test]
async fn a_draw_with_a_beacon_waits_for_its_number_and_takes_one() {
    let till = Till::with_draw(1, 0, LOTTERY, 3).await;
    till.all_enter(3).await;
    tell(&till, "7").await.problem(409, "draw_open");
    // The entries are closed, and the source has published nothing.
    till.after(PUBLISHED - TimeDelta::microseconds(1)).await;
    tell(&till, "7").await.problem(409, "draw_open");
    till.after(TimeDelta::microseconds(1)).await;
    till.serve().await;
    assert_eq!(till.entry(1).await["status"], "entered");
    tell(&till, "7").await.is(204);
    tell(&till, "7").await.is(204);
    tell(&till, "8").await.problem(409, "draw_closed");
    till.after(TimeDelta::seconds(59)).await;
    till.holds().await;
    till.after(TimeDelta::seconds(2)).await;
    till.is_broken("no_stuck_stock: 1 draws have been due for a minute").await;
    till.serve().await;
    let drawn = till.draw().await;
    assert_eq!(
        (&drawn["number"], &drawn["beacon"]),
        (&json!("7"), &json!(till.voucher.draw_beacon))
    );
    assert_eq!(served(&till, 3).await, 1);
    tell(&till, "7").await.is(204);
    till.holds().await;
}

/// Each spelling would draw other winners. The database does not take them either.
#[tokio::test]
async fn a_public_number_has_one_spelling() {
    let till = before_its_number(1).await;
    let too_long = "7".repeat(201);
    // The source has digits. Its number in hex would be another number.
    for wrong in ["7F3A90", "007", "00", "7:1", "", "7f3a90", &too_long] {
        tell(&till, wrong).await.problem(422, "invalid_request");
        let write = format!("update vouchers set draw_beacon_number = '{wrong}'");
        let refused = sqlx::raw_sql(AssertSqlSafe(write)).execute(till.world.database.pool()).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("draw_number_has_one_spelling"), "{wrong}: {refused}");
    }
    tell(&till, "7390").await.is(204);
}

/// A worker needs about a second to draw. A number that never draws anything would leave the choice to who knows the seed.
#[tokio::test]
async fn no_number_is_taken_in_the_last_five_seconds_of_a_sale_or_after_its_end() {
    for (left_ms, is_taken) in [(5_001, true), (5_000, false), (4_999, false), (-1, false)] {
        let till = before_its_number(1).await;
        till.after(TimeDelta::hours(24) - PUBLISHED - TimeDelta::milliseconds(left_ms)).await;
        let told = tell(&till, "7").await;
        if is_taken {
            told.is(204);
            till.serve().await;
            assert_eq!(till.draw().await["number"], "7");
        } else {
            told.problem(409, "sale_ended");
            assert_eq!(till.draw().await["number"], Value::Null);
        }
    }
}

/// What could change who wins, or give time to find out who would. Whoever has the seed knows the winners from the moment on at
/// which the source publishes the number, however late it is told.
#[tokio::test]
async fn from_its_number_to_its_draw_a_sale_changes_its_texts_and_nothing_else() {
    let till = Till::with_draw(1, 0, LOTTERY, 2).await;
    till.all_enter(2).await;
    till.after(PUBLISHED - TimeDelta::microseconds(1)).await;
    let now = till.world.clock.now();
    let [earlier, later] = [now + TimeDelta::minutes(1), now + TimeDelta::days(2)];
    edit(&till, &json!({ "end_time": now + TimeDelta::microseconds(1) }))
        .await
        .problem(422, "invalid_request");
    edit(&till, &json!({ "initial_stock": 1, "end_time": later })).await.is(200);
    till.after(TimeDelta::microseconds(1)).await;
    for paused in [true, false] {
        edit(&till, &json!({ "paused": paused })).await.is(200);
        for is_told in [false, true] {
            if is_told && paused {
                tell(&till, "7").await.problem(409, "sale_paused");
            } else if is_told {
                tell(&till, "7").await.is(204);
                edit(&till, &json!({ "paused": true })).await.problem(409, "draw_closed");
                edit(&till, &json!({ "subtitle": "other", "paused": true }))
                    .await
                    .problem(409, "draw_closed");
            }
            for change in [
                json!({ "initial_stock": 2 }),
                json!({ "initial_stock": 0 }),
                json!({ "price": 1 }),
                json!({ "pay_within_s": 1 }),
                json!({ "begin_time": till.voucher.begin_time }),
                json!({ "end_time": earlier }),
            ] {
                edit(&till, &change).await.problem(409, "draw_closed");
            }
        }
    }
    let later = later + TimeDelta::days(1);
    let changed = edit(&till, &json!({ "subtitle": "other", "end_time": later })).await;
    assert_eq!(
        (&changed.is(200).body["subtitle"], &changed.body["stock"]),
        (&json!("other"), &json!(1))
    );
    till.serve().await;
    edit(&till, &json!({ "initial_stock": 2 })).await.is(200);
    till.serve().await;
    edit(&till, &json!({ "paused": true })).await.is(200);
    till.holds().await;
}

/// Two servers: the first request has the sale, and waits for the other row of the voucher, when the second comes.
#[tokio::test]
async fn a_number_that_meets_a_pause_comes_before_it_or_after_it() {
    for is_told_first in [true, false] {
        let till = before_its_number(2).await;
        patient(&till.world).await;
        let other = till.another_server().await;
        let row = format!("select from vouchers where id = {} for update", till.voucher.id);
        let pause = json!({ "paused": true });
        let (tells, edits) = (tell(&till, "7"), edit(&other, &pause));
        if is_told_first {
            let (told, changed) = till.world.both_behind(&row, tells, edits).await;
            told.is(204);
            changed.problem(409, "draw_closed");
        } else {
            let (changed, told) = till.world.both_behind(&row, edits, tells).await;
            changed.is(200);
            told.problem(409, "sale_paused");
            till.serve().await;
            assert_eq!(served(&till, 2).await, 0);
            till.holds().await;
        }
    }
}

/// The command says what it would do, and does it if it is told so.
#[tokio::test]
async fn the_command_repeats_the_source_of_the_number_before_it_tells_it() {
    let till = before_its_number(1).await;
    let program = Program::on(&till.world);
    let id = till.voucher.id.to_string();
    let run = async |number: &str, yes: &[&str]| {
        program.run(&[&["draw", "number", &id, number], yes].concat()).await
    };
    let refused = run("7", &[]).await;
    refused.refused(
        2,
        &format!("the number of \"{}\", for good: add --yes", till.voucher.draw_beacon),
    );
    run("7f", &["--yes"]).await.refused(2, "digits of another source");
    assert_eq!(till.draw().await["number"], Value::Null);
    for _ in 0..2 {
        assert_eq!(run("7", &["--yes"]).await.status, 0);
    }
    assert_eq!(run("8", &["--yes"]).await.status, 1);
}

/// The draw says so itself, and so does the one that is made in its place.
#[tokio::test]
async fn a_draw_that_is_cancelled_shows_its_seed_and_the_next_one_names_it() {
    let till = before_its_number(3).await;
    tell(&till, "7").await.is(204);
    let pool = till.world.database.pool();
    let again = async || {
        let now = till.world.clock.now();
        let (draw_time, end) = (Some(now + TimeDelta::hours(1)), now + TimeDelta::days(1));
        let new = NewVoucher { draw_time, ..NewVoucher::free("100 for 80", 1, now, end) };
        let made = till.world.new_voucher(&new).await;
        let draw = till.get(&format!("/api/vouchers/{}/draw", made.id)).await;
        draw.is(200).body["previous_draw"].clone()
    };
    assert_eq!(again().await, Value::Null);
    assert!(cancelled_sales::cancel(pool, till.voucher.id).await.unwrap());
    assert_eq!(again().await, json!(till.voucher.id));
    let draw: Draw = serde_json::from_value(till.draw().await).unwrap();
    assert!(draw.cancelled_at.is_some() && draw.drawn_at.is_none() && draw.places.is_none());
    assert_eq!(draw.verify().unwrap().len(), 3);

    let program = Program::alone();
    let file = program.file("draw.json");
    let draw = Draw { previous_draw: VoucherId::new(9), ..draw };
    std::fs::write(&file, serde_json::to_vec(&draw).unwrap()).unwrap();
    let verified = program.run(&["draw", "verify", file.to_str().unwrap()]).await;
    assert_eq!((verified.status, verified.stdout.lines().count()), (0, 3), "{verified:?}");
    for said in [
        "cancelled at",
        "before the draw",
        "voucher 9 had a draw of the same title",
        "whether 7 is the number of \"the lottery of 2026-11-12@",
    ] {
        assert!(verified.stderr.contains(said), "{said}: {verified:?}");
    }
}

/// Nobody hides by a rename, or by draws that are made at once, that one was given up.
#[tokio::test]
async fn a_draw_names_the_one_of_its_title_that_was_given_up_before_it_was_drawn() {
    let till = Till::with_draw(1, 0, "", 1).await;
    let pool = till.world.database.pool();
    let make = async || {
        let now = till.world.clock.now();
        let (draw_time, end) = (Some(now + TimeDelta::hours(1)), now + TimeDelta::days(1));
        let new = NewVoucher { draw_time, ..NewVoucher::free("100 for 80", 1, now, end) };
        till.world.new_voucher(&new).await.id
    };
    let previous = async |voucher| {
        let version = draws::version(pool, voucher, false).await.unwrap();
        (version, draws::find(pool, voucher).await.unwrap().unwrap().previous_draw)
    };
    let (first, [one, two]) = (till.voucher.id, [make().await, make().await]);
    edit(&till, &json!({ "title": "other" })).await.problem(422, "invalid_request");
    edit(&till, &json!({ "title": till.voucher.title, "subtitle": "other" })).await.is(200);
    let before = previous(one).await;
    assert_eq!(before.1, None);
    assert!(cancelled_sales::cancel(pool, first).await.unwrap());
    let named = previous(one).await;
    assert_eq!(named.1, Some(first));
    assert_ne!(named.0, before.0, "another document, and the same version");
    till.after(TimeDelta::hours(1)).await;
    till.serve().await;
    // Whoever did not like who won; what was drawn before does not change.
    till.after(TimeDelta::seconds(1)).await;
    assert!(cancelled_sales::cancel(pool, two).await.unwrap());
    assert_eq!(previous(one).await.1, Some(first));
    assert_eq!(previous(make().await).await.1, Some(two));
}

/// As one that was cancelled. Nobody who has seen the seed gives it more time, and no clock that goes back does.
#[tokio::test]
async fn a_draw_that_did_not_come_before_the_end_shows_its_seed_and_never_comes() {
    for beacon in ["", LOTTERY] {
        let till = Till::with_draw(1, 0, beacon, 2).await;
        till.all_enter(2).await;
        let (id, end) = (till.voucher.id, till.voucher.end_time);
        let read = async || draws::find(till.world.database.pool(), id).await.unwrap().unwrap();
        for (left, is_over) in [(1, false), (0, true), (-1, true), (3_600_000_000, true)] {
            till.world.set_time(end - TimeDelta::microseconds(left)).await;
            let draw = read().await;
            let seen = (draw.seed.is_some(), draw.ended_at, draw.drawn_at);
            assert_eq!(seen, (is_over, is_over.then_some(end), None), "{left}");
        }
        let later = json!({ "end_time": end + TimeDelta::days(1) });
        edit(&till, &later).await.problem(409, "sale_ended");
        edit(&till, &json!({ "subtitle": "other" })).await.is(200);
        if !beacon.is_empty() {
            tell(&till, "7").await.problem(409, "sale_ended");
        }
        till.serve().await;
        let draw = read().await;
        assert_eq!((draw.drawn_at, draw.ended_at), (None, Some(end)));
        assert_eq!(draw.verify().is_ok(), beacon.is_empty(), "there is an order without a number");
        till.holds().await;
    }
}
