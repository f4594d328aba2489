//! Draws, and lines for vouchers that come back.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::join_all;
use seckill::model::{Clock, Draw, Voucher};
use seckill::orders::expiry::Expiry;
use seckill::orders::line::LineWork;
use seckill::store::entries;
use seckill::store::vouchers::{NewDraw, NewVoucher};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use testkit::shop::api_client::{Answer, Api};
use testkit::shop::held_rows::waiting;
use testkit::shop::world::{PRICE, World};
use testkit::wait::eventually;

use crate::purchase::strategies::PurchaseWorld;

/// A shop with one sale, and what its servers do by themselves.
pub struct Shop {
    pub api: Api,
    pub voucher: Voucher,
}

impl Shop {
    pub async fn with_line(stock: i32, users: u32) -> Self {
        let world = World::new().await;
        world.users(users).await;
        let voucher = world.voucher_with_line(stock).await;
        Self::of(world, voucher).await
    }

    /// A sale since an hour ago, whose entries close in an hour.
    pub async fn with_draw(stock: i32, price: i64, beacon: &str, users: u32) -> Self {
        Self::drawn_in(TimeDelta::hours(1), stock, price, beacon, users).await
    }

    pub async fn drawn_in(
        closes: TimeDelta,
        stock: i32,
        price: i64,
        beacon: &str,
        users: u32,
    ) -> Self {
        let world = World::new().await;
        world.users(users).await;
        let now = world.clock.now();
        let (begin, end) = (now - TimeDelta::hours(1), now + TimeDelta::days(1));
        let draw = NewDraw { time: now + closes, beacon: beacon.to_owned() };
        let free = NewVoucher::free("100 for 80", stock, begin, end);
        let voucher = world.new_voucher(&NewVoucher { price, draw: Some(draw), ..free }).await;
        Self::of(world, voucher).await
    }

    async fn of(world: World, voucher: Voucher) -> Self {
        let address = world.serve().await;
        Self { api: Api::at(world, address), voucher }
    }

    /// The same sale by another server.
    pub async fn another_server(&self) -> Self {
        let world = self.world().another_process();
        let address = world.serve().await;
        Self { api: Api::at(world, address), voucher: self.voucher.clone() }
    }

    pub fn world(&self) -> &World {
        &self.api.world
    }

    pub async fn entries(&self, method: &str, user: i64) -> Answer {
        let path = format!("/api/vouchers/{}/entries", self.voucher.id);
        let request = self.api.request(method, &path).bearer_auth(self.world().token(user));
        self.api.send(request).await
    }

    pub async fn enter(&self, user: i64) -> Answer {
        self.entries("POST", user).await
    }

    pub async fn entry(&self, user: i64) -> Value {
        self.entries("GET", user).await.is(200).body.clone()
    }

    pub async fn buy(&self, user: i64) -> Answer {
        self.api.buy(user, self.voucher.id).await
    }

    pub async fn cancel(&self, user: i64, order: &str) {
        let path = format!("/api/orders/{order}/cancellation");
        let request = self.api.request("POST", &path).bearer_auth(self.world().token(user));
        self.api.send(request).await.is(200);
    }

    /// What every server does for lines, until there is nothing to do.
    pub async fn serve(&self) {
        serve(self.world()).await;
    }

    pub async fn expire(&self) {
        let world = self.world().another_process();
        Expiry::new(world.database.clone(), world.shop().await).step().await.unwrap();
    }

    pub async fn draw(&self) -> Value {
        let mut draw = Value::Null;
        // What is kept is of less than a second ago.
        let path = format!("/api/vouchers/{}/draw", self.voucher.id);
        let is_closed = self.world().clock.now() >= self.voucher.draw_time.unwrap();
        eventually("the draw is what it is now", async || {
            draw = self.api.get(&path).await.is(200).body.clone();
            draw["entries"].is_array() == is_closed
        })
        .await;
        draw
    }

    pub async fn after(&self, time: TimeDelta) {
        self.world().set_time(self.world().clock.now() + time).await;
    }

    pub async fn sql(&self, statement: &str) {
        let mut connection = PgConnection::connect(&self.world().database_url).await.unwrap();
        let statement = statement.replace("$1", &self.voucher.id.to_string());
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
    }

    pub async fn holds(&self) {
        let audit = self.world().audit().await;
        assert!(audit.holds, "{audit:?}");
    }

    pub async fn is_broken(&self, what: &str) {
        let audit = self.world().audit().await;
        let told: Vec<String> = audit.violations.iter().map(ToString::to_string).collect();
        assert!(told.iter().any(|violation| violation.contains(what)), "{what}: {told:?}");
    }
}

/// What every server does for lines, until there is nothing to do.
pub async fn serve(world: &World) {
    let world = world.another_process();
    let mut work = LineWork::new(world.database.clone(), world.shop().await);
    while work.step().await.unwrap() {}
}

#[tokio::test]
async fn a_draw_serves_those_whom_its_seed_says_and_the_others_stand_in_line_behind() {
    let shop = Shop::with_draw(3, PRICE, "", 20).await;
    let before = shop.draw().await;
    assert_eq!((&before["seed"], &before["entries"]), (&Value::Null, &Value::Null));
    shop.buy(1).await.problem(409, "draw_open");
    let mut ids = BTreeMap::new();
    for user in 1..=10 {
        let entered = shop.enter(user).await;
        assert_eq!(entered.is(201).body["status"], "entered");
        assert_eq!(entered.body["place"], Value::Null);
        ids.insert(entered.text_of("entry_id").to_owned(), user);
        assert_eq!(shop.enter(user).await.is(200).body, entered.body);
    }
    // A buyer who comes back has the id of before: ids cannot be tried one after the other.
    let before_id = shop.entry(9).await["entry_id"].clone();
    shop.entries("DELETE", 9).await.is(204);
    assert_eq!(shop.enter(9).await.is(201).body["entry_id"], before_id);
    // A buyer who leaves is not drawn, and may come again.
    shop.entries("DELETE", 10).await.is(204);
    shop.entries("DELETE", 10).await.is(204);
    assert_eq!(shop.entry(10).await["status"], "left");
    shop.entries("GET", 11).await.problem(404, "entry_not_found");
    ids.retain(|_, user| *user != 10);
    shop.serve().await;
    assert_eq!(shop.entry(1).await["status"], "entered", "it is not time");

    shop.after(TimeDelta::hours(1)).await;
    // Closed, and not drawn.
    shop.enter(10).await.problem(409, "draw_closed");
    shop.entries("DELETE", 1).await.problem(409, "draw_closed");
    let closed = shop.draw().await;
    assert_eq!(closed["entries"], json!(ids.keys().collect::<Vec<_>>()));
    assert_eq!(closed["seed"], Value::Null);
    serde_json::from_value::<Draw>(closed.clone()).unwrap().verify().unwrap_err();

    shop.serve().await;
    tokio::time::sleep(seckill::store::FRESH_FOR).await;
    let drawn = shop.draw().await;
    for same in ["entries", "entries_hash", "seed_hash"] {
        assert_eq!(drawn[same], closed[same], "{same}");
    }
    assert_eq!(drawn["seed_hash"], before["seed_hash"]);
    let order = serde_json::from_value::<Draw>(drawn).unwrap().verify().unwrap();
    let order: Vec<i64> = order.iter().map(|id| ids[&id.to_string()]).collect();
    for (at, user) in order.iter().enumerate() {
        let entry = shop.entry(*user).await;
        match at {
            0..3 => assert_eq!(
                (&entry["status"], entry["order_id"].is_string()),
                (&json!("offered"), true)
            ),
            _ => {
                assert_eq!((&entry["status"], &entry["place"]), (&json!("in_line"), &json!(at - 2)))
            }
        }
        assert_eq!(entry["offered_in_the_last_hour"], 3);
    }
    shop.buy(order[5]).await.problem(409, "line_open");
    shop.buy(order[0]).await.problem(409, "already_bought");
    shop.holds().await;

    // Nobody pays in time: the next three are offered, and those who missed it may stand in line again.
    shop.after(TimeDelta::minutes(15)).await;
    shop.expire().await;
    shop.buy(20).await.problem(409, "line_open");
    shop.serve().await;
    assert_eq!(shop.entry(order[0]).await["status"], "missed");
    assert_eq!(shop.entry(order[3]).await["status"], "offered");
    assert_eq!(shop.enter(order[0]).await.is(201).body["place"], 4);
    shop.holds().await;
}

/// A history that is not fair is found: each kind by itself.
#[tokio::test]
async fn an_audit_finds_who_was_passed_and_a_draw_that_is_not_what_its_seed_says() {
    let shop = Shop::with_draw(2, 0, "", 9).await;
    for user in 1..=6 {
        shop.enter(user).await.is(201);
    }
    shop.after(TimeDelta::hours(1)).await;
    shop.serve().await;
    shop.holds().await;
    let swap = "update entries set place = 7 - place where voucher_id = $1";
    shop.sql(swap).await;
    shop.is_broken("fair_order: 6 users have another place than the draw gave them").await;
    shop.is_broken("fair_order: 2 orders were offered past entries ahead of them").await;
    shop.sql(swap).await;
    shop.sql("update vouchers set draw_seed = repeat('0', 64) where id = $1").await;
    shop.is_broken("have another place than the draw gave them").await;

    let shop = Shop::with_line(1, 9).await;
    shop.buy(1).await.is(201);
    shop.enter(2).await.is(201);
    shop.after(TimeDelta::minutes(2)).await;
    shop.sql(
        "update seckill_vouchers set initial_stock = 2 where voucher_id = $1;
              insert into orders (id, user_id, voucher_id, status, amount, pay_by, created_at)
              values (99, 3, $1, 1, 8000, sale_time() + interval '9 minutes', sale_time())",
    )
    .await;
    shop.is_broken("fair_order: 1 orders were placed past those who waited: 99").await;
    shop.sql(
        "delete from orders where id = 99; update seckill_vouchers set stock = 1 where voucher_id = $1;
              update orders set updated_at = sale_time()",
    )
    .await;
    shop.holds().await;
    shop.after(TimeDelta::seconds(2)).await;
    shop.enter(4).await.is(201);
    let swap = "update entries set place = 3 - place where voucher_id = $1";
    shop.sql(swap).await;
    shop.is_broken("fair_order: 1 users stand in line behind others who came later: 2").await;
    shop.sql(swap).await;
    shop.sql("update orders set updated_at = sale_time() - interval '2 minutes'").await;
    shop.is_broken("no_stuck_stock: 1 users stand in line for what has been there for a minute: 2")
        .await;
}

/// An entry that commits after the close, but came before it, is in what is published from the first moment.
#[tokio::test]
async fn what_is_published_of_a_draw_waits_for_entries_that_came_before_the_close() {
    let shop = Shop::with_draw(1, 0, "", 2).await;
    let pool = shop.world().database.pool();
    let mut session = PgConnection::connect(&shop.world().database_url).await.unwrap();
    let id = uuid::Uuid::new_v4();
    let enters =
        format!("begin; select enter_line({}, array[1], array['{id}'::uuid])", shop.voucher.id);
    sqlx::raw_sql(AssertSqlSafe(enters)).execute(&mut session).await.unwrap();
    shop.after(TimeDelta::hours(1)).await;
    // On a busy machine the row may be held for longer than a reader waits.
    let reads = async {
        loop {
            match entries::draw(pool, shop.voucher.id).await {
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
    shop.enter(2).await.problem(409, "draw_closed");
}

/// One draw after the other is read. A sale whose row is held costs those who read its draw, and nobody else.
#[tokio::test]
async fn a_draw_whose_sale_is_held_keeps_nobody_from_reading_another_draw() {
    let shop = Shop::with_draw(1, 0, "", 1).await;
    let now = shop.world().clock.now();
    let draw = NewDraw { time: now + TimeDelta::hours(2), beacon: String::new() };
    let free = NewVoucher::free("100 for 80", 1, now, now + TimeDelta::days(1));
    let other = shop.world().new_voucher(&NewVoucher { draw: Some(draw), ..free }).await.id;
    let held = shop.voucher.id;
    let rows = format!("select from seckill_vouchers where voucher_id = {held} for update");
    let holder = shop.world().begin(&rows).await;
    shop.after(TimeDelta::hours(1)).await;
    let read = async |voucher| shop.api.get(&format!("/api/vouchers/{voucher}/draw")).await;
    let behind = async || {
        shop.world().until_one_waits().await;
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
    let shop = Shop::with_draw(1, 0, "", 1).await;
    let path = format!("/api/vouchers/{}/draw", shop.voucher.id);
    let lock = "lock table entries in access exclusive mode";
    let holder = shop.world().begin(lock).await;
    let meanwhile = async {
        shop.world().until_one_waits().await;
        shop.api.get("/api/vouchers").await.is(200);
    };
    let (late, ()) = tokio::join!(shop.api.get(&path), meanwhile);
    late.problem(503, "unavailable");
    holder.close().await.unwrap();
    shop.world().behind(lock, shop.api.get(&path)).await.is(200);
}

/// A session that dies in the middle of a draw leaves nothing behind, and the next one draws the same.
#[tokio::test]
async fn a_draw_that_is_broken_off_begins_again_with_the_same_result() {
    let shop = Shop::with_draw(5, 0, "", 40).await;
    for user in 1..=40 {
        shop.enter(user).await.is(201);
    }
    shop.after(TimeDelta::hours(1)).await;
    let places = async || -> Vec<(i64, Option<i64>)> {
        sqlx::query_as("select user_id, place from entries order by user_id")
            .fetch_all(shop.world().database.pool())
            .await
            .unwrap()
    };
    let mut session = PgConnection::connect(&shop.world().database_url).await.unwrap();
    let drawn = format!("begin; select serve_line({}, '{{}}')", shop.voucher.id);
    sqlx::raw_sql(AssertSqlSafe(drawn)).execute(&mut session).await.unwrap();
    let first: Vec<(i64, Option<i64>)> =
        sqlx::query_as("select user_id, place from entries order by user_id")
            .fetch_all(&mut session)
            .await
            .unwrap();
    let pid: i32 =
        sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut session).await.unwrap();
    shop.sql(&format!("select pg_terminate_backend({pid}, 60000)")).await;
    assert!(places().await.iter().all(|(_, place)| place.is_none()));
    shop.serve().await;
    assert_eq!(places().await, first);
    shop.holds().await;
}

/// More buyers than there may be other requests at once, by two servers: all of them are taken in.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_enters_by_two_servers_and_nobody_is_turned_away() {
    const CROWD: i64 = 300;
    let shop = Shop::with_draw(1, 0, "", 300).await;
    let other = shop.another_server().await;
    let servers = [&shop, &other];
    let enters =
        |user: i64| async move { _ = servers[user as usize % 2].enter(user).await.is(201) };
    join_all((1..=CROWD).map(enters)).await;
    for user in 1..=2 {
        let [one, two] = [shop.enter(user).await, other.enter(user).await];
        assert_eq!(one.is(200).body, two.is(200).body);
    }
    let entries = sqlx::query_scalar("select count(*) from entries where place is null");
    let entries: i64 = entries.fetch_one(shop.world().database.pool()).await.unwrap();
    assert_eq!(entries, CROWD);
}

/// Two servers serve at once, and buyers enter and leave meanwhile: each entry ends once.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_serve_one_line_and_nobody_is_served_twice() {
    let shop = Shop::with_line(0, 60).await;
    join_all((1..=30).map(async |user| _ = shop.enter(user).await.is(201))).await;
    shop.sql("update seckill_vouchers set initial_stock = 20, stock = 20, revision = revision + 1 where voucher_id = $1").await;
    let coming = join_all((31..=60).map(async |user| {
        shop.enter(user).await.is(201);
        if user % 2 == 0 {
            shop.entries("DELETE", user).await.is(204);
        }
    }));
    tokio::join!(shop.serve(), shop.serve(), coming);
    let served = sqlx::query_as(
        "select count(*), count(distinct user_id), max(place) from entries where status = 2",
    );
    let served: (i64, i64, i64) = served.fetch_one(shop.world().database.pool()).await.unwrap();
    assert_eq!(served, (20, 20, 20));
    shop.holds().await;
}

#[tokio::test]
async fn a_draw_that_cannot_be_is_refused_when_it_is_made() {
    let api = Api::new().await;
    let admin = api.world.admin_token(1).await;
    let (begin, end): (DateTime<Utc>, DateTime<Utc>) =
        (api.world.clock.now(), api.world.clock.now() + TimeDelta::days(1));
    let create = async |more: Value| {
        let mut body = json!({ "title": "t", "stock": 1, "begin_time": begin, "end_time": end });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let request = api.request("POST", "/api/vouchers").bearer_auth(&admin).json(&body);
        api.send(request).await
    };
    let within = begin + TimeDelta::seconds(1);
    for wrong in [
        json!({ "draw_time": begin }),
        json!({ "draw_time": end }),
        json!({ "draw_beacon": "a number" }),
        json!({ "draw_time": within, "line": false }),
        json!({ "draw_time": within, "draw_beacon": "x".repeat(201) }),
        json!({ "draw_time": within, "draw_beacon": "a\u{202e}b" }),
    ] {
        create(wrong).await.problem(422, "invalid_request");
    }
    let created = create(json!({ "draw_time": within, "draw_beacon": "x".repeat(200) })).await;
    assert_eq!(
        (&created.is(201).body["status"], &created.body["line"]),
        (&json!("draw_open"), &json!(true))
    );
    let path = format!("/api/vouchers/{}", created.text_of("id"));
    api.get(&format!("{path}/draw")).await.is(200);
    for (member, at, status) in [
        ("end_time", within, 422),
        ("begin_time", within, 422),
        ("end_time", within + TimeDelta::milliseconds(1), 200),
    ] {
        let change = api.request("PATCH", &path).bearer_auth(&admin).json(&json!({ member: at }));
        assert_eq!(api.send(change).await.status, status, "{member} {at}");
    }
    let none = create(json!({})).await;
    let path = format!("/api/vouchers/{}/draw", none.is(201).text_of("id"));
    api.get(&path).await.problem(404, "not_found");
    let told = api.request("PUT", &path).bearer_auth(&admin).json(&json!({ "number": "7" }));
    api.send(told).await.problem(404, "not_found");
}
