//! Places in a line: how they are counted, what leaving and coming back costs, and who cannot hold up the others.

use chrono::TimeDelta;
use seckill::orders::line::LineWork;
use serde_json::json;

use testkit::shop::till::Till;
use testkit::wait::eventually;

/// The only number that a statement selects.
async fn number(till: &Till, select: &'static str) -> i64 {
    sqlx::query_scalar(select).fetch_one(till.world.database.pool()).await.unwrap()
}

/// Somebody is counted within a block of 64 places, and those before it once a second.
#[tokio::test]
async fn a_place_is_read_from_a_count_of_the_line() {
    let till = Till::with_line(0, 9).await;
    let place = async |user| till.entry(user).await["place"].as_i64().unwrap();
    for (user, ahead) in [(1, 62), (2, 63), (3, 64), (4, 127), (5, 128), (6, 1_000)] {
        let others = format!(
            "insert into entries (voucher_id, id, user_id, entered_at, place)
             select $1, gen_random_uuid(), 1000 + n, sale_time(), n
             from generate_series((select coalesce(max(place), 0) + 1 from entries), {ahead}) n"
        );
        till.sql(&others).await;
        till.enter(user).await.is(201);
        eventually("the whole line is counted", async || place(user).await == ahead + 1).await;
    }
    // Somebody far ahead leaves. A machine that is busy may take longer than the count lasts: then once more.
    eventually("no look counts the line", async || {
        let before = place(6).await;
        till.sql(
            "update entries set status = 3, ended_at = sale_time()
             where place = (select min(place) from entries where status = 1)",
        )
        .await;
        place(6).await == before
    })
    .await;
    let ahead = number(&till, "select count(*) from entries where status = 1").await - 1;
    eventually("it is counted again", async || place(6).await == ahead + 1).await;
    assert_eq!(till.entry(6).await["offered_in_the_last_hour"], 0);
}

/// Administrators look every few seconds, each of them.
#[tokio::test]
async fn a_line_is_counted_for_administrators_once_a_second() {
    let till = Till::with_line(0, 1).await;
    let path = format!("/api/vouchers/{}/line", till.voucher.id);
    let in_line = async || till.as_admin("GET", &path).await.is(200).body["in_line"].as_i64();
    let mut waiting = 0;
    // A machine that is busy may take longer than the count lasts: then once more.
    eventually("no look counts the line", async || {
        let before = in_line().await;
        waiting += 1;
        till.sql(
            "insert into entries (voucher_id, id, user_id, entered_at, place)
             select $1, gen_random_uuid(), 1000 + count(*), sale_time(), 1 + count(*) from entries",
        )
        .await;
        in_line().await == before
    })
    .await;
    eventually("it is counted again", async || in_line().await == Some(waiting)).await;
    till.as_admin("GET", "/api/vouchers/777/line").await.problem(404, "voucher_not_found");
}

/// A buyer who does so all the time does not fill the table, and moves no revision: what servers remember stays true.
#[tokio::test]
async fn whoever_leaves_and_comes_back_waits_longer_each_time_and_has_one_row() {
    let till = Till::with_line(1, 9).await;
    till.buy(1).await;
    let revision = async || number(&till, "select revision from seckill_vouchers").await;
    let before = revision().await;
    for times in 0..6 {
        till.enter(2).await.is(201);
        till.entries("DELETE", 2).await.is(204);
        // Below the pause, and at its end.
        till.after(TimeDelta::seconds(1 << times) - TimeDelta::milliseconds(1)).await;
        till.enter(2).await.problem(429, "too_many_requests");
        till.after(TimeDelta::milliseconds(1)).await;
    }
    till.enter(3).await.is(201);
    assert_eq!(till.enter(2).await.is(201).body["place"], 2);
    assert_eq!(number(&till, "select count(*) from entries").await, 2);
    assert_eq!(revision().await, before);
    till.holds().await;
}

/// A crowd that is refused is no load of writes.
#[tokio::test]
async fn who_is_refused_by_a_line_writes_nothing() {
    let till = Till::with_line(1, 9).await;
    let written = async || number(&till, "select xmin::text::bigint from vouchers").await;
    let before = written().await;
    till.enter(1).await.problem(409, "line_closed");
    till.entries("DELETE", 1).await.is(204);
    assert_eq!(written().await, before);
    till.buy(1).await;
    till.enter(2).await.is(201);
    assert_ne!(written().await, before);
}

#[tokio::test]
async fn an_entry_that_was_drawn_stays_whatever_its_buyer_does_afterwards() {
    let till = Till::with_draw(1, 0, "", 3).await;
    till.all_enter(2).await;
    till.after(TimeDelta::hours(1)).await;
    till.serve().await;
    let drawn = till.draw().await;
    let user = if till.entry(1).await["status"] == "in_line" { 1 } else { 2 };
    for times in 0..3 {
        till.entries("DELETE", user).await.is(204);
        till.after(TimeDelta::seconds(1 << times)).await;
        till.enter(user).await.is(201);
    }
    assert_eq!(number(&till, "select count(*) from entries").await, 3);
    tokio::time::sleep(seckill::store::FRESH_FOR).await;
    assert_eq!(till.draw().await["entries"], drawn["entries"]);
    till.holds().await;
}

/// User 2 gives seven orders up, waits for a minute in the last pause, and enters once user 1 has the only voucher. The order of user 1.
async fn first_in_line_after_seven_pauses(till: &Till) -> String {
    for times in 0..7 {
        let order = till.buy(2).await;
        till.own_step(2, &order, "cancellation").await.is(200);
        till.after(TimeDelta::seconds(1 << times)).await;
    }
    let order = till.buy(1).await;
    till.enter(2).await.is(201);
    order
}

/// Its pause was over when the buyer entered; then the clock of the database went back.
#[tokio::test]
async fn a_buyer_in_line_who_cannot_have_it_now_is_passed_after_a_while() {
    let till = Till::with_line(1, 9).await;
    let order = first_in_line_after_seven_pauses(&till).await;
    till.enter(3).await.is(201);
    till.after(TimeDelta::seconds(-30)).await;
    till.own_step(1, &order, "cancellation").await.is(200);
    let world = till.world.another_process();
    let mut work = LineWork::new(world.database.clone(), world.shop().await);
    let mut looks = 0;
    while till.entry(3).await["status"] == "in_line" {
        while work.step().await.unwrap() {}
        looks += 1;
        assert!(looks < 100, "nobody is offered it");
    }
    assert!(looks > 1, "the first one was passed at once");
    assert_eq!(till.entry(3).await["status"], "offered");
    let passed = till.entry(2).await;
    assert_eq!((&passed["status"], &passed["place"]), (&json!("in_line"), &json!(1)));
    till.holds().await;
}

/// Nobody would be served by it.
#[tokio::test]
async fn a_buyer_who_waits_alone_keeps_the_place() {
    let till = Till::with_line(1, 9).await;
    let order = first_in_line_after_seven_pauses(&till).await;
    till.after(TimeDelta::seconds(-30)).await;
    till.own_step(1, &order, "cancellation").await.is(200);
    let world = till.world.another_process();
    let mut work = LineWork::new(world.database.clone(), world.shop().await);
    for _ in 0..30 {
        while work.step().await.unwrap() {}
    }
    assert_eq!(number(&till, "select place from entries").await, 1);
    till.after(TimeDelta::seconds(30)).await;
    while work.step().await.unwrap() {}
    assert_eq!(till.entry(2).await["status"], "offered");
    till.holds().await;
}

/// A pause is never longer than it is, whatever the clock of the database does.
#[tokio::test]
async fn a_pause_does_not_rest_until_a_clock_that_went_back_is_there_again() {
    let till = Till::with_line(1, 9).await;
    let order = till.buy(2).await;
    till.own_step(2, &order, "cancellation").await.is(200);
    till.buy(1).await;
    till.after(TimeDelta::minutes(-30)).await;
    till.enter(2).await.is(201);
    till.entries("DELETE", 2).await.is(204);
    till.after(TimeDelta::seconds(-1)).await;
    till.enter(2).await.is(201);
}

/// Each order against each entry would take minutes.
#[tokio::test]
async fn an_audit_of_many_orders_beside_many_entries_ends_in_time() {
    let till = Till::with_line(0, 1).await;
    till.sql(
        "insert into entries (voucher_id, id, user_id, entered_at, place, status, ended_at)
         select $1, gen_random_uuid(), n % 5, at, n, 3, at + interval '400 ms'
         from (select n, sale_time() + n * interval '100 ms' as at from generate_series(1, 80000) n) entered;
         insert into orders (id, user_id, voucher_id, created_at)
         select n, n, $1, sale_time() + n * interval '1 s' from generate_series(1, 8000) n;
         analyze entries, orders",
    )
    .await;
    till.as_admin("POST", &format!("/api/vouchers/{}/audit", till.voucher.id)).await.is(200);
}
