//! The public number of a draw: nobody can choose it, nor what it draws from once the server knows it.

use chrono::TimeDelta;
use futures_util::future::join_all;
use seckill::model::Clock;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use testkit::shop::api_client::Answer;
use testkit::shop::till::Till;

use crate::orders::races::patient;

const LOTTERY: &str = "the lottery of 2026-11-12";

/// A sale of one voucher, in whose draw `users` have entered; its entries are closed, and its number is not there yet.
async fn before_its_number(users: u32) -> Till {
    let till = Till::with_draw(1, 0, LOTTERY, users).await;
    till.all_enter(users.into()).await;
    till.after(TimeDelta::hours(1)).await;
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
    till.after(TimeDelta::hours(1)).await;
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
    assert_eq!((&drawn["number"], &drawn["beacon"]), (&json!("7"), &json!(LOTTERY)));
    assert_eq!(served(&till, 3).await, 1);
    tell(&till, "7").await.is(204);
    till.holds().await;
}

/// Each spelling would draw other winners. The database does not take them either.
#[tokio::test]
async fn a_public_number_has_one_spelling() {
    let till = before_its_number(1).await;
    let too_long = "7".repeat(201);
    for wrong in ["7F3A90", "007f3a90", "00", "7:1", "", &too_long] {
        tell(&till, wrong).await.problem(422, "invalid_request");
        let write = format!("update vouchers set draw_beacon_number = '{wrong}'");
        let refused = sqlx::raw_sql(AssertSqlSafe(write)).execute(till.world.database.pool()).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("draw_number_has_one_spelling"), "{wrong}: {refused}");
    }
    tell(&till, "7f3a90").await.is(204);
}

/// A worker needs about a second to draw. A number that never draws anything would leave the choice to who knows the seed.
#[tokio::test]
async fn no_number_is_taken_in_the_last_five_seconds_of_a_sale_or_after_its_end() {
    for (left_ms, is_taken) in [(5_001, true), (5_000, false), (4_999, false), (-1, false)] {
        let till = before_its_number(1).await;
        till.after(TimeDelta::hours(23) - TimeDelta::milliseconds(left_ms)).await;
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

/// What could change who wins, or give time to find out who would.
#[tokio::test]
async fn from_its_number_to_its_draw_a_sale_changes_its_texts_and_nothing_else() {
    let till = before_its_number(2).await;
    let now = till.world.clock.now();
    let [earlier, later] = [now + TimeDelta::minutes(1), now + TimeDelta::days(2)];
    tell(&till, "7").await.is(204);
    for change in [
        json!({ "initial_stock": 2 }),
        json!({ "initial_stock": 0 }),
        json!({ "paused": true }),
        json!({ "price": 1 }),
        json!({ "pay_within_s": 1 }),
        json!({ "begin_time": till.voucher.begin_time }),
        json!({ "end_time": earlier }),
        json!({ "title": "other", "paused": true }),
    ] {
        edit(&till, &change).await.problem(409, "draw_closed");
    }
    let changed = edit(&till, &json!({ "title": "other", "end_time": later })).await;
    assert_eq!(
        (&changed.is(200).body["title"], &changed.body["stock"]),
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
async fn a_number_that_meets_a_pause_or_a_restock_comes_before_it_or_after_it() {
    for (change, code, winners) in [
        (json!({ "paused": true }), Some("sale_paused"), 0),
        (json!({ "initial_stock": 2 }), None, 2),
    ] {
        for is_told_first in [true, false] {
            let till = before_its_number(2).await;
            patient(&till.world).await;
            let other = till.another_server().await;
            let row = format!("select from vouchers where id = {} for update", till.voucher.id);
            let (tells, edits) = (tell(&till, "7"), edit(&other, &change));
            if is_told_first {
                let (told, changed) = till.world.both_behind(&row, tells, edits).await;
                told.is(204);
                changed.problem(409, "draw_closed");
            } else {
                let (changed, told) = till.world.both_behind(&row, edits, tells).await;
                changed.is(200);
                match code {
                    Some(code) => drop(told.problem(409, code)),
                    None => drop(told.is(204)),
                }
                till.serve().await;
                assert_eq!(served(&till, 2).await, winners);
                till.holds().await;
            }
        }
    }
}
