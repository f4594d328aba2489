//! Draws, and lines for vouchers that come back.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use futures_util::future::join_all;
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{Clock, Draw};
use seckill::store::draws;
use serde_json::{Value, json};
use sqlx::Connection;

use testkit::shop::api_client::Api;
use testkit::shop::held_rows::waiting;
use testkit::shop::till::{Till, beacon_at};
use testkit::shop::world::PRICE;
use testkit::wait::eventually;

#[tokio::test]
async fn a_draw_serves_those_whom_its_seed_says_and_the_others_stand_in_line_behind() {
    let till = Till::with_draw(3, PRICE, "", 11).await;
    let verified = |draw: &Value| serde_json::from_value::<Draw>(draw.clone()).unwrap().verify();
    let before = till.draw().await;
    assert_eq!((&before["seed"], &before["entries"]), (&Value::Null, &Value::Null));
    let mut ids = BTreeMap::new();
    for user in 1..=10 {
        let entered = till.enter(user).await;
        assert_eq!(entered.is(201).body["status"], "entered");
        ids.insert(entered.text_of("entry_id").to_owned(), user);
        assert_eq!(till.enter(user).await.is(200).body, entered.body);
    }
    // A buyer who comes back has the id of before: ids cannot be tried one after the other.
    for user in [9, 10] {
        till.entries("DELETE", user).await.is(204);
    }
    till.after(TimeDelta::seconds(1)).await;
    let again = till.enter(9).await;
    assert_eq!(ids[again.is(201).text_of("entry_id")], 9);
    assert_eq!(till.entry(10).await["status"], "left");
    till.entries("GET", 11).await.problem(404, "entry_not_found");
    ids.retain(|_, user| *user != 10);

    // Closed, and not drawn.
    till.after(TimeDelta::hours(1)).await;
    let closed = till.draw().await;
    assert_eq!(closed["entries"], json!(ids.keys().collect::<Vec<_>>()));
    assert_eq!(closed["seed"], Value::Null);
    verified(&closed).unwrap_err();

    till.serve().await;
    tokio::time::sleep(seckill::store::FRESH_FOR).await;
    let drawn = till.draw().await;
    for same in ["entries", "entries_hash", "seed_hash"] {
        assert_eq!(drawn[same], closed[same], "{same}");
    }
    assert_eq!(drawn["seed_hash"], before["seed_hash"]);
    let order: Vec<i64> = verified(&drawn).unwrap().iter().map(|id| ids[&id.to_string()]).collect();
    for (at, user) in order.iter().enumerate() {
        let entry = till.entry(*user).await;
        let is_offered = at < 3;
        let status = if is_offered { "offered" } else { "in_line" };
        assert_eq!((&entry["status"], entry["order_id"].is_string()), (&json!(status), is_offered));
        assert!(is_offered || entry["place"] == json!(at - 2), "{at}: {entry}");
        assert_eq!(entry["offered_in_the_last_hour"], if is_offered { 0 } else { 3 });
    }
    till.holds().await;

    // Nobody pays in time.
    till.after(TimeDelta::minutes(15)).await;
    till.expire().await;
    till.serve().await;
    assert_eq!(till.entry(order[0]).await["status"], "missed");
    assert_eq!(till.entry(order[3]).await["status"], "offered");
    till.holds().await;
}

/// A history that is not fair is found: each kind by itself.
#[tokio::test]
async fn an_audit_finds_who_was_passed_and_a_draw_that_is_not_what_its_seed_says() {
    let till = Till::with_draw(2, 0, "", 9).await;
    till.all_enter(6).await;
    till.after(TimeDelta::hours(1)).await;
    till.serve().await;
    till.holds().await;
    let swap = "update entries set place = 7 - place where voucher_id = $1";
    till.sql(swap).await;
    till.is_broken("fair_order: 6 users have another place than the draw gave them").await;
    till.is_broken("fair_order: 2 orders were offered past entries ahead of them").await;
    till.sql(swap).await;
    till.sql("update vouchers set draw_seed = repeat('0', 64) where id = $1").await;
    till.is_broken("have another place than the draw gave them").await;

    let till = Till::with_line(1, 9).await;
    till.buy(1).await;
    till.enter(2).await.is(201);
    till.after(TimeDelta::minutes(2)).await;
    let passed = "update seckill_vouchers set initial_stock = 2 where voucher_id = $1;
        insert into orders (id, user_id, voucher_id, status, amount, pay_by, created_at)
        values (99, 3, $1, 1, 8000, sale_time() + interval '9 minutes', sale_time())";
    till.sql(passed).await;
    till.is_broken("fair_order: 1 orders were placed past those who waited: 99").await;
    let comes_back = "delete from orders where id = 99; update orders set updated_at = sale_time();
        update seckill_vouchers set stock = 1 where voucher_id = $1";
    till.sql(comes_back).await;
    till.holds().await;
    till.after(TimeDelta::seconds(2)).await;
    till.enter(4).await.is(201);
    let swap = "update entries set place = 3 - place where voucher_id = $1";
    till.sql(swap).await;
    till.is_broken("fair_order: 1 users stand in line behind others who came later: 2").await;
    till.sql(swap).await;
    till.sql("update orders set updated_at = sale_time() - interval '2 minutes'").await;
    till.is_broken("no_stuck_stock: 1 users stand in line for what has been there for a minute: 2")
        .await;
}

/// An entry that commits after the close, but came before it, is in what is published from the first moment.
#[tokio::test]
async fn what_is_published_of_a_draw_waits_for_entries_that_came_before_the_close() {
    let till = Till::with_draw(1, 0, "", 2).await;
    let pool = till.world.database.pool();
    let id = uuid::Uuid::new_v4();
    let enters = format!("select enter_line({}, array[1], array['{id}'::uuid])", till.voucher.id);
    let mut session = till.world.begin(&enters).await;
    till.after(TimeDelta::hours(1)).await;
    // On a busy machine the row may be held for longer than a reader waits.
    let reads = async {
        loop {
            match draws::find(pool, till.voucher.id).await {
                Ok(draw) => break draw.unwrap(),
                Err(error) => assert!(error.retry_may_help(), "{error}"),
            }
        }
    };
    let commits = async {
        eventually("the reader waits for the sale's row", async || waiting(pool).await == 1).await;
        sqlx::raw_sql("commit").execute(&mut session).await.unwrap();
    };
    let (published, ()) = tokio::join!(reads, commits);
    assert_eq!(published.entries, Some(vec![id]));
    till.enter(2).await.problem(409, "draw_closed");
}

/// The close was told to a buyer, or published. Whoever enters or leaves afterwards, while the clock is back, changes nothing of it.
#[tokio::test]
async fn a_draw_holds_if_the_clock_goes_back_across_its_close() {
    for is_published in [false, true] {
        let till = Till::with_draw(1, 0, "", 4).await;
        let pool = till.world.database.pool();
        let read = async || draws::find(pool, till.voucher.id).await.unwrap().unwrap();
        till.all_enter(3).await;
        till.after(TimeDelta::hours(1)).await;
        let published = if is_published {
            Some(read().await)
        } else {
            till.enter(4).await.problem(409, "draw_closed");
            None
        };
        till.after(TimeDelta::seconds(-2)).await;
        let met = [till.enter(4).await, till.entries("DELETE", 1).await];
        if let Some(published) = &published {
            assert!(met.iter().all(|answer| answer.status == 409), "{met:?}");
            assert_eq!(read().await, *published);
        }
        till.after(TimeDelta::seconds(2)).await;
        till.serve().await;
        let drawn = read().await;
        drawn.verify().unwrap();
        assert!(published.is_none_or(|published| drawn.entries == published.entries));
        assert_eq!(till.draw().await["places"], json!(drawn.places));
        till.holds().await;
    }
}

/// One draw after the other is read. A sale whose row is held costs those who read its draw, and nobody else.
#[tokio::test]
async fn a_draw_whose_sale_is_held_keeps_nobody_from_reading_another_draw() {
    let till = Till::with_draw(1, 0, "", 1).await;
    let now = till.world.clock.now();
    let draw_time = Some(now + TimeDelta::hours(2));
    let free = NewVoucher::free("100 for 80", 1, now, now + TimeDelta::days(1));
    let other = till.world.new_voucher(&NewVoucher { draw_time, ..free }).await.id;
    let held = till.voucher.id;
    let holder = till.hold_the_sale().await;
    till.after(TimeDelta::hours(1)).await;
    let read = async |voucher| till.get(&format!("/api/vouchers/{voucher}/draw")).await;
    let behind = async || {
        till.world.until_one_waits().await;
        tokio::join!(read(held), read(other))
    };
    let mut answers = Vec::new();
    // A busy machine may be late with all of them.
    for _ in 0..3 {
        let (first, (second, other)) = tokio::join!(read(held), behind());
        first.problem(503, "unavailable");
        second.problem(503, "unavailable");
        answers.push(other.status);
    }
    assert!(answers.contains(&200), "{answers:?}");
    holder.close().await.unwrap();
}

/// Beyond the time that a read of a draw may take, and below it: nobody may read the entries. The shop is there meanwhile.
#[tokio::test]
async fn a_draw_is_read_however_slowly_until_its_time_is_over() {
    let till = Till::with_draw(1, 0, "", 1).await;
    let path = format!("/api/vouchers/{}/draw", till.voucher.id);
    let lock = "lock table entries in access exclusive mode";
    let holder = till.world.begin(lock).await;
    let meanwhile = async {
        till.world.until_one_waits().await;
        till.get("/api/vouchers").await.is(200);
    };
    let (late, ()) = tokio::join!(till.get(&path), meanwhile);
    late.problem(503, "unavailable");
    holder.close().await.unwrap();
    till.world.behind(lock, till.get(&path)).await.is(200);
}

/// A session that dies in the middle of a draw leaves nothing behind, and the next one draws the same.
#[tokio::test]
async fn a_draw_that_is_broken_off_begins_again_with_the_same_result() {
    type Places = Vec<(i64, Option<i64>)>;
    let till = Till::with_draw(5, 0, "", 40).await;
    till.all_enter(40).await;
    till.after(TimeDelta::hours(1)).await;
    let select = "select user_id, place from entries order by user_id";
    let pool = till.world.database.pool();
    let places = async || -> Places { sqlx::query_as(select).fetch_all(pool).await.unwrap() };
    let drawn = format!("select draw_entries({})", till.voucher.id);
    let mut session = till.world.begin(&drawn).await;
    let first: Places = sqlx::query_as(select).fetch_all(&mut session).await.unwrap();
    let pid: i32 =
        sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut session).await.unwrap();
    till.sql(&format!("select pg_terminate_backend({pid}, 60000)")).await;
    assert!(places().await.iter().all(|(_, place)| place.is_none()));
    till.serve().await;
    assert_eq!(places().await, first);
    till.holds().await;
}

/// More buyers than there may be other requests at once, by two servers: all of them are taken in.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_enters_by_two_servers_and_nobody_is_turned_away() {
    let till = Till::with_draw(1, 0, "", 300).await;
    let other = till.another_server().await;
    let servers = [&till, &other];
    let enters = async |user: i64| _ = servers[user as usize % 2].enter(user).await.is(201);
    join_all((1..=300).map(enters)).await;
    for user in 1..=2 {
        let [one, two] = [till.enter(user).await, other.enter(user).await];
        assert_eq!(one.is(200).body, two.is(200).body);
    }
    let entries = sqlx::query_scalar::<_, i64>("select count(*) from entries where place is null");
    assert_eq!(entries.fetch_one(till.world.database.pool()).await.unwrap(), 300);
}

#[tokio::test]
async fn a_draw_that_cannot_be_is_refused_when_it_is_made() {
    let api = Api::new().await;
    let admin = api.world.admin_token(1).await;
    let begin = api.world.clock.now();
    let end = begin + TimeDelta::days(1);
    let create = async |more: Value| {
        let mut body = json!({ "title": "t", "stock": 1, "begin_time": begin, "end_time": end });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        api.call_with("POST", "/api/vouchers", &admin, &body).await
    };
    let within = begin + TimeDelta::seconds(1);
    let after = within + TimeDelta::milliseconds(1);
    let longest = beacon_at(&"x".repeat(199 - after.to_rfc3339().len()), after);
    for wrong in [
        json!({ "draw_time": begin }),
        json!({ "draw_time": end }),
        json!({ "draw_beacon": "a number" }),
        json!({ "draw_time": within, "line": false }),
        json!({ "draw_time": within, "draw_beacon": "a number" }),
        json!({ "draw_time": within, "draw_beacon": beacon_at("l", within) }),
        json!({ "draw_time": within, "draw_beacon": beacon_at("l", end) }),
        json!({ "draw_time": within, "draw_beacon": format!("x{longest}") }),
        json!({ "draw_time": within, "draw_beacon": beacon_at("a\u{202e}b", after) }),
        json!({ "draw_time": within, "draw_beacon": "drand:quicknet:1" }),
        json!({ "draw_time": within, "max_entries": 0 }),
        json!({ "draw_time": within, "max_entries": 1_000_001 }),
    ] {
        create(wrong).await.problem(422, "invalid_request");
    }
    // Round 33850613 of drand is at 2026-11-11T00:00:03Z.
    let drand = "drand:quicknet:33850613";
    create(json!({ "draw_time": within, "draw_beacon": drand })).await.is(201);
    let created = create(json!({ "draw_time": within, "draw_beacon": longest })).await;
    assert_eq!(
        (&created.is(201).body["status"], &created.body["line"]),
        (&json!("draw_open"), &json!(true))
    );
    let path = format!("/api/vouchers/{}", created.text_of("id"));
    api.get(&format!("{path}/draw")).await.is(200);
    for (member, at, status) in [
        ("end_time", within, 422),
        ("begin_time", within, 422),
        ("end_time", after, 422),
        ("end_time", after + TimeDelta::milliseconds(1), 200),
    ] {
        let changed = api.call_with("PATCH", &path, &admin, &json!({ member: at })).await;
        assert_eq!(changed.status, status, "{member} {at}");
    }
    let none = create(json!({})).await;
    let path = format!("/api/vouchers/{}/draw", none.is(201).text_of("id"));
    api.get(&path).await.problem(404, "not_found");
    let told = api.call_with("PUT", &path, &admin, &json!({ "number": "7" })).await;
    told.problem(404, "not_found");
}

/// The time to pay begins with the offer, so nobody is offered an order by night. These hours go past midnight.
#[tokio::test]
async fn what_comes_back_at_night_waits_for_the_morning() {
    let till = Till::with_line(1, 3).await; // at midnight, UTC
    let hours = "update vouchers set offer_between = '04:00-03:00+02:00' where id = $1";
    till.sql(hours).await;
    let order = till.buy(1).await;
    till.enter(2).await.is(201);
    // At one o'clock in UTC, which is three o'clock there, the night begins.
    till.after(TimeDelta::hours(1)).await;
    till.own_step(1, &order, "cancellation").await.is(200);
    for wait_s in [0, 300, 3_299] {
        till.after(TimeDelta::seconds(wait_s)).await;
        till.serve().await;
        assert_eq!(till.entry(2).await["status"], "in_line", "{wait_s}");
        till.holds().await;
    }
    till.after(TimeDelta::seconds(1)).await;
    till.serve().await;
    assert_eq!(till.entry(2).await["status"], "offered");
    till.holds().await;
    let pay_by = "select pay_by = sale_time() + make_interval(secs => pay_within_s)
                  from orders join seckill_vouchers using (voucher_id) where user_id = 2";
    let pays_in_full: bool =
        sqlx::query_scalar(pay_by).fetch_one(till.world.database.pool()).await.unwrap();
    assert!(pays_in_full, "the time to pay begins with the offer");
}
