//! No buyer takes from the others by being loud.

use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::TimeDelta;
use futures_util::future::join_all;
use seckill::model::{BucketRate, Clock, VoucherId};
use seckill::purchase::DEFAULT_BUYER_RATE;
use sqlx::Connection;

use testkit::flood::flood;
use testkit::shop::api_client::Api;
use testkit::shop::world::{World, run_sql};
use testkit::wait::eventually;

/// How many requests of one buyer may be under way, beside purchases.
const SHARE: usize = 8;

fn rate(text: &str) -> BucketRate {
    text.parse().unwrap()
}

/// An API in which a buyer has so many requests an hour.
async fn api_with(buyer_rate: &str) -> Api {
    let world = World::with(|settings| settings.buyer_rate = rate(buyer_rate)).await;
    world.users(12).await;
    Api::of(world).await
}

#[tokio::test]
async fn a_buyer_has_so_many_requests_and_another_buyer_as_many() {
    let api = api_with("5/1h").await;
    let voucher = api.world.voucher(9).await.id;
    // A purchase costs one, each read one; what memory answers costs none.
    let order = api.buy(1, voucher).await.is(201).text_of("order_id").to_owned();
    for path in ["/api/me", "/api/orders", "/api/orders"] {
        api.get_as(1, path).await.is(200);
    }
    api.get_as(1, &format!("/api/orders/{order}")).await.is(200);
    let other = api.world.voucher(9).await.id;
    for refused in [api.get_as(1, "/api/orders").await, api.buy(1, other).await] {
        let wait = refused.problem(429, "too_many_requests").retry_after_s();
        assert!((600..=720).contains(&wait), "{wait}");
    }
    // Refusals from memory come first.
    api.buy(1, voucher).await.problem(409, "already_bought");
    // A voucher that memory does not have costs one before the database looks for it.
    let nowhere = VoucherId::new(777).unwrap();
    api.buy(1, nowhere).await.problem(429, "too_many_requests");
    api.get_as(2, "/api/orders").await.is(200);
    api.buy(2, other).await.is(201);
    for _ in 0..3 {
        api.buy(2, nowhere).await.problem(404, "voucher_not_found");
    }
    api.buy(2, nowhere).await.problem(429, "too_many_requests");
}

#[tokio::test]
async fn an_administrator_is_not_limited_and_who_is_none_has_no_way_around() {
    let api = api_with("5/1h").await;
    let admin = api.world.admin_token(3).await;
    for _ in 0..20 {
        api.call("GET", "/api/refunds", &admin).await.is(200);
    }
    for _ in 0..5 {
        api.get_as(1, "/api/refunds").await.problem(403, "forbidden");
    }
    api.get_as(1, "/api/refunds").await.problem(429, "too_many_requests");
}

/// Nine requests of one buyer wait for a row: the ninth is refused, and others are served.
#[tokio::test(flavor = "multi_thread")]
async fn one_buyer_has_so_many_requests_under_way() {
    let api = api_with("off").await;
    let voucher = api.world.priced_voucher(9).await.id;
    let order = api.buy(1, voucher).await.is(201).text_of("order_id").to_owned();
    let row = api.world.hold_the_row().await;
    let flood = join_all((0..=SHARE).map(|_| api.own_step(1, &order, "cancellation")));
    let others = async {
        api.world.until_one_waits().await;
        for user in 2..=12 {
            api.get_as(user, "/api/orders").await.is(200);
        }
        row.close().await.unwrap();
    };
    let (flood, ()) = tokio::join!(flood, others);
    let refused: Vec<_> = flood.iter().filter(|answer| answer.status == 429).collect();
    assert_eq!(refused.len(), 1, "{flood:?}");
    assert_eq!(refused[0].header("retry-after"), Some("1"));
    // One cancels it, unless the row was held for longer than a step waits.
    assert!(flood.iter().filter(|answer| answer.status == 200).count() <= 1, "{flood:?}");
    api.get_as(1, "/api/orders").await.is(200);
}

/// The row of the sale is held: a step that the order's state refuses does not wait for it.
#[tokio::test]
async fn a_step_that_the_state_refuses_locks_no_row() {
    let api = api_with("off").await;
    let voucher = api.world.voucher(9).await.id;
    let order = api.buy(1, voucher).await.is(201).text_of("order_id").to_owned();
    let admin = api.world.admin_token(11).await;
    let held = "select from seckill_vouchers for update; select from orders for update";
    let holder = api.world.begin(held).await;
    api.own_step(1, &order, "cancellation").await.problem(409, "order_state");
    let settled = api.step(&admin, &order, "settlement").await;
    assert_eq!(settled.problem(409, "order_state").body["order_status"], "paid");
    holder.close().await.unwrap();
}

/// Twenty connections repeat the cancellation of one's own paid order: all others get through.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_buyer_leaves_the_others_what_they_need() {
    let api = api_with(&DEFAULT_BUYER_RATE.to_string()).await;
    let voucher = api.world.voucher(9).await.id;
    let order = api.buy(1, voucher).await.is(201).text_of("order_id").to_owned();
    let admin = api.world.admin_token(11).await;
    let refused = AtomicUsize::new(0);
    let cancel = async |_| {
        let answer = api.own_step(1, &order, "cancellation").await;
        assert!([409, 429].contains(&answer.status), "{answer:?}");
        refused.fetch_add(usize::from(answer.status == 429), Ordering::Relaxed);
    };
    let others = async {
        for number in 0..40 {
            api.get_as(2 + number % 8, "/api/orders").await.is(200);
            api.call("GET", "/api/refunds", &admin).await.is(200);
        }
    };
    flood(20, cancel, others).await;
    assert!(refused.into_inner() > 0);
}

/// Behind a proxy that says for whom it asks.
#[tokio::test]
async fn an_address_shows_so_many_bad_tokens_and_a_good_one_is_served() {
    let world = World::with(|settings| settings.address_rate = rate("3/1h")).await;
    world.users(2).await;
    let voucher = world.voucher(3).await.id;
    let api = Api::behind_proxy(world).await;
    let ask = async |from: &str, path: &str, token: &str| {
        let request = api.request("GET", path).header("x-forwarded-for", from);
        api.send(request.bearer_auth(token)).await
    };
    let good = api.world.token(1);
    // From here on memory has it.
    ask("127.0.0.1", &format!("/api/vouchers/{voucher}"), "bad").await.is(200);
    ask("192.0.2.1", "/api/orders", "bad").await.problem(401, "unauthenticated");
    ask("192.0.2.1", "/api/vouchers/12345", "bad").await.problem(404, "voucher_not_found");
    ask("192.0.2.1", "/api/vouchers?before=5", "bad").await.is(200);
    for path in [
        "/api/orders",
        "/api/me",
        "/api/vouchers/12345",
        "/api/vouchers/12345/events",
        "/api/vouchers?before=5",
    ] {
        let refused = ask("192.0.2.1", path, "bad").await;
        assert!(refused.problem(429, "too_many_requests").header("retry-after").is_some());
    }
    // What memory has, a good token, another address, and a load generator beside the server.
    ask("192.0.2.1", &format!("/api/vouchers/{voucher}"), "bad").await.is(200);
    ask("192.0.2.1", "/api/orders", &good).await.is(200);
    ask("192.0.2.2", "/api/orders", "bad").await.problem(401, "unauthenticated");
    for _ in 0..10 {
        ask("127.0.0.1", "/api/orders", "bad").await.problem(401, "unauthenticated");
    }
}

/// After each order that a buyer gives up the next purchase of the voucher waits twice as long, on every server.
#[tokio::test]
async fn who_cancels_and_buys_again_waits_and_the_wait_doubles() {
    let api = api_with("off").await;
    let elsewhere = Api::of(api.world.clone()).await;
    let (free, voucher) = (api.world.voucher(9).await.id, api.world.priced_voucher(9).await.id);
    let second = async |after: i64| {
        api.world.set_time(api.world.clock.now() + TimeDelta::milliseconds(after)).await;
    };
    for pause in [1, 2, 4, 8] {
        let order = api.buy(1, voucher).await.is(201).text_of("order_id").to_owned();
        api.own_step(1, &order, "cancellation").await.is(200);
        second(pause * 1_000 - 1).await;
        for server in [&api, &elsewhere] {
            let refused = server.buy(1, voucher).await;
            assert_eq!(
                (refused.status, refused.header("retry-after")),
                (429, Some("1")),
                "{pause}"
            );
        }
        // Others buy, and so does this buyer, of another voucher.
        api.buy(1 + pause, voucher).await.is(201);
        second(1).await;
    }
    api.buy(1, free).await.is(201);
    let order = api.buy(1, voucher).await.is(201).text_of("order_id").to_owned();
    // An order that was not paid counts as one that was cancelled.
    let expired = format!(
        "update orders set status = 4, cancelled_by = 3, cancelled_at = sale_time() where id = {order};
         update seckill_vouchers set revision = revision + 1"
    );
    run_sql(&api.world.database_url, &expired).await;
    second(15_999).await;
    for server in [&api, &elsewhere] {
        eventually("who did not pay waits", async || server.buy(1, voucher).await.status == 429)
            .await;
    }
    second(1).await;
    eventually("who did not pay buys again", async || api.buy(1, voucher).await.status == 201)
        .await;
}
