//! Each row of the table of routes, played: every code that a row names is an answer of its route. And every answer of every test
//! is held against the description, which is made of the rows (`testkit::shop::api_client`).

use std::collections::BTreeSet;
use std::fmt::Display;
use std::iter::from_fn;

use chrono::TimeDelta;
use reqwest::RequestBuilder;
use seckill::http::problem::Code;
use seckill::http::server::ServerLimits;
use seckill::http::{ROUTES, Route, Who, router};
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{Clock, VoucherId};
use seckill::store::cancelled_sales;
use serde_json::{Value, json};

use testkit::shop::api_client::{Api, DOCUMENT};
use testkit::shop::payment_service::PaymentService;
use testkit::shop::served::Served;
use testkit::shop::till::{beacon_at, succeeded};
use testkit::shop::world::{World, midnight, run_sql, user};

const ADMINISTRATOR: i64 = 1;
const BUYER: i64 = 2;
/// Has bought nothing, and waits for nothing.
const OTHER: i64 = 3;
/// Somebody else holds the lock of this buyer.
const LOCKED: i64 = 4;
/// What Redis has under the name of this buyer's lock is no lock.
const WITHOUT_LOCK: i64 = 5;
/// No voucher and no order has it.
const NO_ID: &str = "777";
const NO_ENTRY: &str = "00000000-0000-4000-8000-000000000000";
const BUY: &str = "POST /api/vouchers/{id}/orders";
const ENTER: &str = "POST /api/vouchers/{id}/entries";
const LEAVE: &str = "DELETE /api/vouchers/{id}/entries";
const REMOVE: &str = "DELETE /api/vouchers/{id}/entries/{entry_id}";
const TELL: &str = "PUT /api/vouchers/{id}/draw";
const CHANGE: &str = "PATCH /api/vouchers/{id}";
/// The address of the client, before the proxy.
const ADDRESS: &str = "192.0.2.1";

fn name(row: &Route) -> String {
    format!("{} {}", row.method, row.path)
}

fn description(row: &Route) -> &'static Value {
    &DOCUMENT["paths"][row.path][row.method.as_str().to_lowercase()]
}

fn has_parameter(row: &Route, name: &str) -> bool {
    description(row)["parameters"]
        .as_array()
        .is_some_and(|all| all.iter().any(|it| it["name"] == name))
}

/// A request that only `user`, and what there is, keep the route from doing.
fn asking(api: &Api, row: &Route, user: Option<i64>) -> RequestBuilder {
    let queries = [("before", "?before=7"), ("reason", "?reason=x")];
    let query = queries.into_iter().find(|(name, _)| has_parameter(row, name));
    asking_with(api, row, user, query.map_or("", |(_, query)| query))
}

fn asking_with(api: &Api, row: &Route, user: Option<i64>, query: &str) -> RequestBuilder {
    let path = row.path.replace("{id}", NO_ID).replace("{entry_id}", NO_ENTRY) + query;
    let request = api.request(row.method.as_str(), &path).header("x-forwarded-for", ADDRESS);
    let request = match user {
        Some(user) => request.bearer_auth(api.world.token(user)),
        None => request,
    };
    match (row.method.as_str(), row.path) {
        ("POST", "/api/login-codes") => request.json(&json!({ "phone": "13800138000" })),
        ("POST", "/api/sessions") => {
            request.json(&json!({ "phone": "13800138000", "code": "000000" }))
        }
        ("POST", "/api/vouchers") => request.json(&json!({ "title": "voucher", "stock": 1 })),
        ("PATCH", _) => request.json(&json!({})),
        ("PUT", _) => request.json(&json!({ "number": "1" })),
        _ => request,
    }
}

/// A message of the payment gateway.
fn signed(api: &Api, notice: &Value) -> RequestBuilder {
    let notice = notice.to_string();
    let signature = api.world.payment_key().sign(1, notice.as_bytes());
    api.noticing(notice.as_bytes(), &signature)
}

/// A request that is refused with `code`; `None`: it takes more than a request alone.
fn provoking(api: &Api, row: &Route, code: Code) -> Option<RequestBuilder> {
    let first_missing = row.own.iter().copied().find(|code| code.kind().status == 404);
    Some(match code {
        Code::Unauthenticated => asking(api, row, None),
        Code::Forbidden if row.who == Who::Gateway => asking(api, row, None),
        Code::Forbidden if row.who == Who::Administrator => asking(api, row, Some(BUYER)),
        Code::Forbidden if name(row) == BUY => {
            asking(api, row, Some(BUYER)).json(&json!({ "user_id": "9" }))
        }
        Code::InvalidRequest if row.who == Who::Gateway => signed(api, &json!({})),
        Code::InvalidRequest if description(row)["requestBody"].is_object() => {
            asking(api, row, Some(ADMINISTRATOR)).body("no JSON")
        }
        Code::InvalidRequest if has_parameter(row, "limit") => {
            asking_with(api, row, Some(ADMINISTRATOR), "?limit=0")
        }
        Code::InvalidRequest if row.path.contains("{id}") => api
            .request(row.method.as_str(), &row.path.replace("{id}", "0"))
            .bearer_auth(api.world.token(ADMINISTRATOR)),
        code if Some(code) == first_missing => asking(api, row, Some(ADMINISTRATOR)),
        _ => return None,
    })
}

/// What was seen of the table: the method and path of a row, and a code of it.
struct Played {
    api: Api,
    seen: BTreeSet<(String, &'static str)>,
}

impl Played {
    /// Asks as `user` for what `operation`, of the thing with this id, refuses with `code`.
    async fn refuses(
        &mut self,
        code: Code,
        user: i64,
        operation: &str,
        id: impl Display,
        body: Value,
    ) {
        let (method, path) = operation.split_once(' ').unwrap();
        let request = self.api.request(method, &path.replace("{id}", &id.to_string()));
        let request = request.bearer_auth(self.api.world.token(user));
        let request = if body.is_null() { request } else { request.json(&body) };
        let answer = self.api.send(request).await;
        assert_eq!(answer.body["code"], code.as_str(), "{operation}: {answer:?}");
        answer.problem(code.kind().status, code.as_str());
        self.seen.insert((operation.to_owned(), code.as_str()));
    }

    /// The same of the removal of an entry.
    async fn refuses_removal(&mut self, code: Code, voucher: VoucherId, entry: &str) {
        let path = format!("/api/vouchers/{voucher}/entries/{entry}?reason=x");
        let answer = self.api.call_as(ADMINISTRATOR, "DELETE", &path).await;
        answer.problem(code.kind().status, code.as_str());
        self.seen.insert((REMOVE.to_owned(), code.as_str()));
    }

    /// What an administrator does with a voucher.
    async fn administer(&self, method: &str, path: &str, body: Value) {
        let token = self.api.world.token(ADMINISTRATOR);
        let answer = self.api.call_with(method, path, &token, &body).await;
        assert!(answer.status < 300, "{answer:?}");
    }

    /// A voucher whose sale began an hour ago, and whose entries close a minute after [`midnight`].
    async fn drawn_until(&self, end: TimeDelta) -> VoucherId {
        let now = midnight();
        let new = NewVoucher {
            draw_time: Some(now + TimeDelta::minutes(1)),
            draw_beacon: Some(beacon_at("the lottery", now + TimeDelta::seconds(90))),
            ..NewVoucher::free("100 for 80", 1, now - TimeDelta::hours(1), now + end)
        };
        self.api.world.new_voucher(&new).await.id
    }

    /// The entry of the buyer.
    async fn enter(&self, voucher: VoucherId) -> String {
        let path = format!("/api/vouchers/{voucher}/entries");
        self.api.call_as(BUYER, "POST", &path).await.is(201).text_of("entry_id").to_owned()
    }
}

/// While the entries of a draw are open.
async fn before_the_close(played: &mut Played) {
    let draw = played.drawn_until(TimeDelta::hours(1)).await;
    played.refuses(Code::DrawOpen, OTHER, BUY, draw, Value::Null).await;
    played.refuses(Code::DrawOpen, ADMINISTRATOR, TELL, draw, json!({ "number": "7" })).await;
}

async fn purchases_and_entries(played: &mut Played) {
    let (world, hour) = (played.api.world.clone(), TimeDelta::hours(1));
    let now = world.clock.now();
    let on_sale = world.voucher(5).await.id;
    let sold_out = world.voucher(0).await.id;
    let upcoming = world.voucher_between(1, now + hour, now + hour * 2).await.id;
    let ended = world.voucher_between(1, now - hour * 2, now - hour).await.id;
    let paused = world.voucher(1).await.id;
    played.administer("PATCH", &format!("/api/vouchers/{paused}"), json!({ "paused": true })).await;
    let in_line = world.voucher_with_line(0).await.id;
    let with_line =
        NewVoucher { line: Some(true), ..NewVoucher::free("full", 0, now - hour, now + hour) };
    played.enter(in_line).await;
    let full = NewVoucher { max_entries: Some(1), ..with_line };
    let full = world.new_voucher(&full).await.id;
    played.enter(full).await;
    played.api.buy(BUYER, on_sale).await.is(201);
    let [offered, removed] =
        [world.voucher_with_line(0).await.id, world.voucher_with_line(0).await.id];
    let entry = played.enter(offered).await;
    let offer = format!(
        "update seckill_vouchers set initial_stock = 1, stock = 1 where voucher_id = {offered};
         select offer_to_line({offered}, array[78], false)"
    );
    run_sql(&world.database_url, &offer).await;
    played.refuses_removal(Code::AlreadyBought, offered, &entry).await;
    played.refuses_removal(Code::EntryNotFound, offered, NO_ENTRY).await;
    let entry = played.enter(removed).await;
    let path = format!("/api/vouchers/{removed}/entries/{entry}?reason=x");
    played.api.call_as(ADMINISTRATOR, "DELETE", &path).await.is(204);
    for set in [
        redis::cmd("HSET").arg(world.keys.order_lock(user(LOCKED))).arg("somebody:1").arg(1),
        redis::cmd("SET").arg(world.keys.order_lock(user(WITHOUT_LOCK))).arg("no lock"),
    ] {
        world.redis.query::<()>(set).await.unwrap();
    }
    for (code, user, operation, voucher) in [
        (Code::SoldOut, OTHER, BUY, sold_out),
        (Code::AlreadyBought, BUYER, BUY, on_sale),
        (Code::OrderInProgress, LOCKED, BUY, on_sale),
        (Code::Internal, WITHOUT_LOCK, BUY, on_sale),
        (Code::SaleNotStarted, OTHER, BUY, upcoming),
        (Code::SaleEnded, OTHER, BUY, ended),
        (Code::SalePaused, OTHER, BUY, paused),
        (Code::LineOpen, OTHER, BUY, in_line),
        (Code::AlreadyBought, BUYER, ENTER, on_sale),
        (Code::LineClosed, OTHER, ENTER, on_sale),
        (Code::EntriesFull, OTHER, ENTER, full),
        (Code::Forbidden, BUYER, ENTER, removed),
        (Code::SaleNotStarted, OTHER, ENTER, upcoming),
        (Code::SaleEnded, OTHER, ENTER, ended),
        (Code::SalePaused, OTHER, ENTER, paused),
        (Code::AlreadyBought, BUYER, LEAVE, on_sale),
    ] {
        played.refuses(code, user, operation, voucher, Value::Null).await;
    }
    let none = json!({ "initial_stock": 0 });
    played.refuses(Code::StockIsSold, ADMINISTRATOR, CHANGE, on_sale, none).await;
    assert!(cancelled_sales::cancel(world.database.pool(), paused).await.unwrap());
    let goes_on = json!({ "paused": false });
    played.refuses(Code::SaleCancelled, ADMINISTRATOR, CHANGE, paused, goes_on).await;
    let pruned = format!("update seckill_vouchers set pruned = 1 where voucher_id = {ended}");
    run_sql(&world.database_url, &pruned).await;
    let longer = json!({ "end_time": midnight() + TimeDelta::hours(1) });
    played.refuses(Code::SaleEnded, ADMINISTRATOR, CHANGE, ended, longer).await;
}

/// From the close of their entries on.
async fn draws(played: &mut Played) {
    let told = played.drawn_until(TimeDelta::hours(1)).await;
    let paused = played.drawn_until(TimeDelta::hours(1)).await;
    let ended = played.drawn_until(TimeDelta::minutes(2)).await;
    let entry = played.enter(told).await;
    played.api.world.set_time(midnight() + TimeDelta::minutes(2)).await;
    let (number, pause) = (json!({ "number": "7" }), json!({ "paused": true }));
    played.administer("PUT", &format!("/api/vouchers/{told}/draw"), number.clone()).await;
    played.administer("PATCH", &format!("/api/vouchers/{paused}"), pause.clone()).await;
    for (code, user, operation, voucher, body) in [
        (Code::DrawClosed, OTHER, ENTER, told, Value::Null),
        (Code::DrawClosed, BUYER, LEAVE, told, Value::Null),
        (Code::DrawClosed, ADMINISTRATOR, TELL, told, json!({ "number": "8" })),
        (Code::SalePaused, ADMINISTRATOR, TELL, paused, number.clone()),
        (Code::SaleEnded, ADMINISTRATOR, TELL, ended, number),
        (Code::DrawClosed, ADMINISTRATOR, CHANGE, told, pause),
    ] {
        played.refuses(code, user, operation, voucher, body).await;
    }
    played.refuses_removal(Code::DrawClosed, told, &entry).await;
}

async fn orders(played: &mut Played) {
    let world = played.api.world.clone();
    let [free, priced] = [world.voucher(1).await.id, world.priced_voucher(1).await.id];
    let paid = played.api.buy(BUYER, free).await.is(201).text_of("order_id").to_owned();
    let unpaid = played.api.buy(BUYER, priced).await.is(201).text_of("order_id").to_owned();
    let two = "77";
    for voucher in [world.voucher(1).await.id, world.voucher(1).await.id] {
        let sell =
            format!("select sell({voucher}, array[{two}], array[{BUYER}], array[sale_time()])");
        run_sql(&world.database_url, &sell).await;
    }
    for (user, step, order) in [
        (BUYER, "payments", &paid),
        (BUYER, "cancellation", &paid),
        (ADMINISTRATOR, "refund", &unpaid),
        (ADMINISTRATOR, "redemption", &unpaid),
        (ADMINISTRATOR, "settlement", &paid),
    ] {
        let operation = format!("POST /api/orders/{{id}}/{step}");
        played.refuses(Code::OrderState, user, &operation, order, Value::Null).await;
        played.refuses(Code::OrderAmbiguous, user, &operation, two, Value::Null).await;
    }
    let service = PaymentService::default();
    service.sends_to("javascript:alert(1)");
    let paying = Api::of(world.another_process().paying_at(&service)).await;
    let api = std::mem::replace(&mut played.api, paying);
    let pay = "POST /api/orders/{id}/payments";
    played.refuses(Code::PayUrlRefused, BUYER, pay, &unpaid, Value::Null).await;
    played.api = api;
    for (user, operation) in
        [(BUYER, "GET /api/orders/{id}"), (ADMINISTRATOR, "GET /api/orders/{id}/steps")]
    {
        played.refuses(Code::OrderAmbiguous, user, operation, two, Value::Null).await;
    }
}

/// The tests below play `too_many_requests` and `unavailable`, of every row that names them.
#[tokio::test]
async fn each_route_refuses_what_its_row_says() {
    let mut played = Played { api: Api::with_users(5).await, seen: BTreeSet::new() };
    played.api.world.admin_token(ADMINISTRATOR).await;
    for row in ROUTES {
        // Some routes read nothing of a request: of them this alone is invalid.
        let too_large = asking(&played.api, row, None).body("x".repeat(17 * 1024));
        played.api.send(too_large).await.problem(413, "invalid_request");
        played.seen.insert((name(row), "invalid_request"));
        for code in row.refusals() {
            let Some(request) = provoking(&played.api, row, code) else { continue };
            let answer = played.api.send(request).await;
            assert_eq!(answer.body["code"], code.as_str(), "{row:?}: {answer:?}");
            answer.problem(code.kind().status, code.as_str());
            played.seen.insert((name(row), code.as_str()));
        }
    }
    before_the_close(&mut played).await;
    purchases_and_entries(&mut played).await;
    orders(&mut played).await;
    draws(&mut played).await;
    for row in ROUTES {
        for code in row.refusals() {
            let is_played_below = [Code::TooManyRequests, Code::Unavailable].contains(&code);
            let is_seen = played.seen.contains(&(name(row), code.as_str()));
            assert!(is_seen || is_played_below, "nobody provokes {}: {row:?}", code.as_str());
        }
    }
}

fn refuses(row: &&Route, code: Code) -> bool {
    row.refusals().any(|refused| refused == code)
}

/// A token's user and an address have asked as often as they may.
#[tokio::test]
async fn each_route_with_a_rate_refuses_who_has_used_it_up() {
    let world = World::with(|settings| {
        settings.buyer_rate = "1/1h".parse().unwrap();
        settings.address_rate = "1/1h".parse().unwrap();
    });
    let api = Api::behind_proxy(world.await).await;
    api.world.users(2).await;
    api.get_as(BUYER, "/api/me").await.is(200);
    let stranger = api.request("GET", "/api/me").header("x-forwarded-for", ADDRESS);
    api.send(stranger).await.problem(401, "unauthenticated");
    for row in ROUTES.iter().filter(|row| refuses(row, Code::TooManyRequests)) {
        let answer = api.send(asking(&api, row, Some(BUYER))).await;
        assert_eq!(answer.status, 429, "{row:?}: {answer:?}");
        answer.problem(429, "too_many_requests").retry_after_s();
    }
}

#[tokio::test]
async fn each_route_with_a_permit_refuses_when_all_are_taken() {
    let world = World::new().await;
    let app = world.app().await;
    let address = Served::new(router(app.clone()), ServerLimits::of(100)).address;
    let api = Api::at(world, address);
    api.world.users(2).await;
    for row in ROUTES {
        let Some(which) = row.permit else { continue };
        let permits = which(&app.memory().limits);
        let held: Vec<_> = from_fn(|| permits.take(None).ok()).collect();
        assert!(!held.is_empty(), "{row:?}");
        let answer = api.send(asking(&api, row, Some(BUYER))).await;
        assert_eq!(answer.status, 503, "{row:?}: {answer:?}");
        answer.problem(503, "unavailable").retry_after_s();
    }
}

/// No connection to the database is left. (`GET /api/events` may be answered from memory: `one_address_has_its_share_of_the_streams`
/// in events.rs plays its 503.)
#[tokio::test]
async fn each_route_without_a_permit_refuses_when_the_database_does_not_answer() {
    let api = Api::with_users(2).await;
    let mut held = Vec::new();
    for pool in [api.world.database.pool(), api.world.database.purchases()] {
        for _ in 0..pool.options().get_max_connections() {
            held.push(pool.acquire().await.unwrap());
        }
    }
    let without = |row: &&Route| row.permit.is_none() && row.path != "/api/events";
    for row in ROUTES.iter().filter(without).filter(|row| refuses(row, Code::Unavailable)) {
        let request = match row.who {
            Who::Gateway => signed(&api, &succeeded("nobody's", "t1", 1)),
            _ => asking(&api, row, Some(BUYER)),
        };
        let answer = api.send(request).await;
        assert_eq!(answer.status, 503, "{row:?}: {answer:?}");
        answer.problem(503, "unavailable").retry_after_s();
    }
}
