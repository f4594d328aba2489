//! Readers take nothing from buyers.

use std::sync::Arc;

use futures_util::future::join_all;
use seckill::http::server::ServerLimits;
use seckill::http::{App, router};
use seckill::model::VoucherId;
use seckill::purchase::sales::Sales;
use seckill::store::{DatabaseClock, StoreError};
use serde_json::json;
use sqlx::Connection;

use testkit::shop::api_client::Api;
use testkit::shop::served::Served;
use testkit::shop::world::World;
use testkit::wait::eventually;

/// A server whose permits the test holds.
async fn api_of_app() -> (Api, App) {
    let world = World::new().await;
    let app = world.app().await;
    let address = Served::new(router(app.clone()), ServerLimits::of(100)).address;
    (Api::at(world, address), app)
}

/// Every connection of the readers is taken, and a buyer buys.
#[tokio::test]
async fn purchases_have_connections_of_their_own() {
    let (api, voucher) = Api::with_sale(1, 1).await;
    let pool = api.world.database.pool();
    let mut held = Vec::new();
    for _ in 0..pool.options().get_max_connections() {
        held.push(pool.acquire().await.unwrap());
    }
    api.get_as(1, "/api/orders").await.problem(503, "unavailable");
    api.buy(1, voucher).await.is(201);
    api.get(&format!("/api/vouchers/{voucher}")).await.is(200);
    drop(held);
    api.get_as(1, "/api/orders").await.is(200);
}

/// Beyond the limit of reads a reader is refused at once; a buyer buys.
#[tokio::test]
async fn one_read_too_many_is_refused() {
    let (api, app) = api_of_app().await;
    api.world.users(1).await;
    let voucher = api.world.voucher(1).await.id;
    let reads = &app.memory().reads;
    let all = reads.acquire_many(reads.available_permits() as u32).await.unwrap();
    for path in ["/api/me", "/api/orders", "/api/orders/1"] {
        let refused = api.get_as(1, path).await;
        assert_eq!(refused.problem(503, "unavailable").header("retry-after"), Some("1"));
    }
    api.buy(1, voucher).await.is(201);
    for path in ["/api/vouchers", "/readyz", "/metrics"] {
        api.get(path).await.is(200);
    }
    drop(all);
    api.get_as(1, "/api/me").await.is(200);
}

/// Who is known as an administrator has other permits than buyers, and neither takes those of the other.
#[tokio::test]
async fn administrators_and_buyers_take_no_permits_of_each_other() {
    let (api, app) = api_of_app().await;
    api.world.users(1).await;
    api.world.admin_token(2).await;
    api.get_as(2, "/api/nodes").await.is(200);
    let memory = app.memory();
    for (permits, refused, served) in [(&memory.administration, 2, 1), (&memory.reads, 1, 2)] {
        let all_but_one = permits.available_permits() as u32 - 1;
        let most = permits.acquire_many(all_but_one).await.unwrap();
        api.get_as(refused, "/api/me").await.is(200);
        let last = permits.acquire().await.unwrap();
        api.get_as(refused, "/api/me").await.problem(503, "unavailable");
        api.get_as(served, "/api/me").await.is(200);
        drop((most, last));
        api.get_as(refused, "/api/me").await.is(200);
    }
}

/// Logins and login codes have permits of their own: those that are held cost nobody else anything.
#[tokio::test]
async fn one_login_too_many_is_refused_and_takes_nothing_from_others() {
    let (api, app) = api_of_app().await;
    api.world.users(1).await;
    let asking = json!({ "phone": "13800138000" });
    let logging_in = json!({ "phone": "13800138000", "code": "000000" });
    let memory = app.memory();
    for (permits, path, body, status) in [
        (&memory.logins.all, "/api/sessions", &logging_in, 401),
        (&memory.login_codes.all, "/api/login-codes", &asking, 202),
    ] {
        let all_but_one = permits.available_permits() as u32 - 1;
        let held = permits.acquire_many(all_but_one).await.unwrap();
        api.post("/api/sessions", &logging_in).await.is(401);
        let last = permits.acquire().await.unwrap();
        let refused = api.post(path, body).await;
        assert_eq!(refused.problem(503, "unavailable").header("retry-after"), Some("1"));
        api.get_as(1, "/api/orders").await.is(200);
        drop((held, last));
        api.post(path, body).await.is(status);
    }
}

/// Buyers who enter have permits of their own: those that are held cost nobody else anything.
#[tokio::test]
async fn one_entry_too_many_is_refused_and_takes_nothing_from_others() {
    let (api, app) = api_of_app().await;
    api.world.users(2).await;
    let path = format!("/api/vouchers/{}/entries", api.world.voucher_with_line(0).await.id);
    let enter = |user| api.call_as(user, "POST", &path);
    let entering = &app.memory().entering;
    let all_but_one = entering.available_permits() as u32 - 1;
    let held = entering.acquire_many(all_but_one).await.unwrap();
    enter(1).await.is(201);
    let last = entering.acquire().await.unwrap();
    enter(2).await.problem(503, "unavailable");
    api.get_as(1, &path).await.is(200);
    drop((held, last));
    enter(2).await.is(201);
}

/// Nobody can read the tables, and yet all read the list and a voucher: from memory.
#[tokio::test]
async fn the_list_and_a_voucher_come_from_memory() {
    let (api, voucher) = Api::with_sale(0, 3).await;
    let one = format!("/api/vouchers/{voucher}");
    // A machine that is busy may take longer than the memory lasts: then once more.
    eventually("all is read from memory", async || {
        for path in ["/api/vouchers", one.as_str()] {
            api.get(path).await.is(200);
        }
        let locked = "lock table vouchers, seckill_vouchers in access exclusive mode";
        let holder = api.world.begin(locked).await;
        let answers = join_all(
            (0..50).map(|number| api.get(if number % 2 == 0 { "/api/vouchers" } else { &one })),
        );
        let all = answers.await.iter().all(|answer| answer.status == 200);
        holder.close().await.unwrap();
        all
    })
    .await;
    // And not for longer than a second.
    api.world.voucher(1).await;
    eventually("the new voucher is in the list", async || {
        api.get("/api/vouchers").await.body.as_array().is_some_and(|list| list.len() == 2)
    })
    .await;
}

/// A flood of ids without a voucher is bounded before the database is asked, and keeps nobody from a
/// voucher that memory has.
#[tokio::test]
async fn made_up_ids_are_limited_and_do_not_hold_up_a_voucher() {
    let world = World::new().await;
    let known = world.voucher(3).await.id;
    let clock = Arc::new(DatabaseClock::new(world.clock.clone()));
    let sales = Sales::new(&world.database, &clock);
    eventually("the flood met a voucher in memory", async || {
        sales.find(known).await.unwrap();
        let holder = world.begin("lock table vouchers in access exclusive mode").await;
        let flood = (1_000..21_000).map(|id| sales.find(VoucherId::new(id).unwrap()));
        let (flood, from_memory) = tokio::join!(join_all(flood), sales.find(known));
        holder.close().await.unwrap();
        let refused = |answer: &&Result<_, StoreError>| {
            answer.as_ref().is_err_and(StoreError::retry_may_help)
        };
        assert!(flood.iter().filter(refused).count() > 3_000);
        from_memory.is_ok_and(|sale| sale.is_some())
    })
    .await;
    // A voucher is there for all as soon as it is there.
    let new = world.voucher(1).await.id;
    assert!(sales.find(new).await.unwrap().is_some());
}
