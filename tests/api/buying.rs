//! Buying: every answer that the product names.

use chrono::TimeDelta;
use reqwest::RequestBuilder;
use seckill::http::router;
use seckill::http::server::ServerLimits;
use seckill::model::OrderId;
use serde_json::json;

use testkit::shop::api_client::{Answer, Api};
use testkit::shop::served::Served;
use testkit::shop::world::{midnight, user};
use testkit::wait::eventually;

async fn buy_with(api: &Api, voucher: impl std::fmt::Display, body: &'static [u8]) -> Answer {
    let request = api.buying(1, voucher).header("content-type", "application/json");
    api.send(request.body(body)).await
}

#[tokio::test]
async fn the_location_of_a_purchase_leads_to_the_order() {
    let api = Api::with_users(1).await;
    let voucher = api.world.voucher(1).await;
    let bought = api.buy(1, voucher.id).await;
    bought.is(201);
    let order_id = bought.text_of("order_id").to_owned();
    let expected = json!({
        "order_id": order_id, "voucher_id": voucher.id.to_string(), "user_id": "1",
        "created_at": "2026-11-11T00:00:00Z", "status": "paid", "amount": 0, "pay_by": null,
        "paid_at": "2026-11-11T00:00:00Z", "used_at": null, "cancelled_at": null, "refunded_at": null,
        "charged_back_at": null, "returned_amount": 0,
    });
    assert_eq!(bought.body, expected);
    assert!(order_id.parse::<i64>().unwrap() > 1 << 53, "{order_id}");
    let location = bought.header("location").unwrap();
    assert_eq!(location, format!("/api/orders/{order_id}"));
    assert_eq!(api.get_as(1, location).await.body, expected);
}

#[tokio::test]
async fn when_the_order_ids_of_a_day_are_used_up_buyers_get_503_until_the_next() {
    let api = Api::with_users(2).await;
    let days = TimeDelta::days(3);
    let id = api.world.voucher_between(5, midnight(), midnight() + days).await.id;
    let counter = api.world.keys.order_counter(midnight().date_naive());
    let all_but_one = OrderId::MAX_SEQUENCE - 1;
    api.world.redis.query::<()>(redis::cmd("SET").arg(counter).arg(all_but_one)).await.unwrap();
    api.buy(1, id).await.is(201);
    let refused = api.buy(2, id).await;
    refused.problem(503, "unavailable");
    assert_eq!(refused.header("retry-after"), Some("60"));
    assert_eq!(api.world.audit().await.orders, 1);
    api.world.set_time(midnight() + TimeDelta::days(1)).await;
    api.buy(2, id).await.is(201);
}

#[tokio::test]
async fn while_one_attempt_is_under_way_another_is_refused_and_does_not_queue() {
    let (api, id) = Api::with_sale(2, 5).await;
    let key = api.world.keys.order_lock(user(1));
    let hold = redis::cmd("HSET").arg(&key).arg("somebody:1").arg(1).clone();
    let _: i64 = api.world.redis.query(&hold).await.unwrap();
    api.buy(1, id).await.problem(409, "order_in_progress");
    for (language, title) in [("zh", "不允许重复下单"), ("en", "An order of yours is under way")]
    {
        let refused = api.send(api.buying(1, id).header("accept-language", language)).await;
        assert_eq!(refused.problem(409, "order_in_progress").text_of("title"), title);
    }
    // It is the user who is locked, not the voucher.
    api.buy(2, id).await.is(201);
    // Nor was the lock taken away from who holds it.
    let gone: i64 = api.world.redis.query(redis::cmd("DEL").arg(&key)).await.unwrap();
    assert_eq!(gone, 1);
    api.buy(1, id).await.is(201);
}

#[tokio::test]
async fn a_body_of_another_shape_is_refused() {
    let (api, id) = Api::with_sale(1, 5).await;
    let wrong: [&[u8]; 14] = [
        b"{",
        b"}",
        b"[]",
        b"[\"1\"]",
        b"null",
        b"1",
        b"\"1\"",
        b"{} {}",
        b"\x00",
        b"\xff\xfe",
        br#"{"user_id":1}"#,
        br#"{"user_id":"x"}"#,
        br#"{"user_id":"-1"}"#,
        br#"{"voucher_id":"1"}"#,
    ];
    for body in wrong {
        buy_with(&api, id, body).await.problem(422, "invalid_request");
    }
    // Nor does anybody buy in another's name.
    buy_with(&api, id, br#"{"user_id":"2"}"#).await.problem(403, "forbidden");
    assert_eq!(api.world.audit().await.orders, 0);
}

#[tokio::test]
async fn the_body_names_the_buyer_or_is_left_out_in_every_way() {
    let api = Api::with_users(1).await;
    for body in [&b""[..], b"{}", b" {} \n", br#"{"user_id":null}"#, br#"{"user_id":"1"}"#] {
        let id = api.world.voucher(5).await.id;
        assert_eq!(buy_with(&api, id, body).await.is(201).text_of("user_id"), "1");
    }
    let id = api.world.voucher(5).await.id;
    api.send(api.buying(1, id).header("content-length", "0")).await.is(201);
}

#[tokio::test]
async fn the_short_way_says_what_the_router_says() {
    let api = Api::with_users(3).await;
    let (now, hour) = (midnight(), TimeDelta::hours(1));
    let on_sale = api.world.voucher(5).await.id;
    let sold_out = api.world.voucher(1).await.id;
    let upcoming = api.world.voucher_between(1, now + hour, now + hour * 2).await.id;
    let ended = api.world.voucher_between(1, now - hour * 2, now - hour).await.id;
    // The same API without the short way: the router alone.
    let there = Served::new(router(api.world.app().await), ServerLimits::of(16)).address;
    api.buy(1, on_sale).await.is(201);
    api.buy(2, sold_out).await.is(201);

    let token = api.world.token(1);
    let path = |voucher: &dyn std::fmt::Display| format!("/api/vouchers/{voucher}/orders");
    let post = |path: &str| api.request("POST", path);
    let digits = on_sale.to_string();
    let encoded: String = digits.bytes().map(|digit| format!("%{digit:02X}")).collect();
    let good = |voucher| post(&path(&voucher)).bearer_auth(&token);
    let requests: Vec<(RequestBuilder, u16)> = vec![
        (good(on_sale), 409),
        (good(sold_out).header("accept-language", "zh"), 409),
        (good(upcoming), 409),
        (good(ended).header("accept-language", "fr, zh;q=0.1"), 409),
        // Percent-encoded digits are digits; a query changes nothing.
        (post(&path(&encoded)).bearer_auth(&token), 409),
        (post(&(path(&on_sale) + "?voucher=2&x=%FF")).bearer_auth(&token), 409),
        (post(&path(&999)).bearer_auth(&token), 404),
        (post(&path(&"0")).bearer_auth(&token), 422),
        (post(&path(&"1%20")).bearer_auth(&token), 422),
        (post(&path(&"99999999999999999999")).bearer_auth(&token), 422),
        (post(&path(&sold_out)), 401),
        (post(&path(&sold_out)).bearer_auth("x.y.z"), 401),
        (post(&path(&sold_out)).header("authorization", "Basic eA=="), 401),
        (good(sold_out).body("{\"user_id\": \"2\"}"), 403),
        (good(sold_out).body("x"), 422),
        (good(sold_out).body(vec![b'x'; 20_000]), 413),
        (api.request("DELETE", &path(&sold_out)).bearer_auth(&token), 405),
        (post(&(path(&sold_out) + "/")).bearer_auth(&token), 404),
        (post("/api/vouchers//orders").bearer_auth(&token), 422),
    ];
    for (request, status) in requests {
        let request = request.header("x-request-id", "the-same");
        let short = api.send(request.try_clone().unwrap()).await;
        short.is(status);
        let (client, request) = request.build_split();
        let mut request = request.unwrap();
        request.url_mut().set_port(Some(there.port())).unwrap();
        let routed = client.execute(request).await.unwrap();
        assert_eq!(routed.status().as_u16(), status);
        let mut headers = [short.headers.clone(), routed.headers().clone()];
        headers.iter_mut().for_each(|headers| drop(headers.remove("date")));
        assert_eq!(headers[0], headers[1], "{short:?}");
        assert_eq!(short.text, routed.text().await.unwrap());
    }
}

#[tokio::test]
async fn both_ways_are_counted_under_one_route() {
    let (api, voucher) = Api::with_sale(1, 0).await;
    let body = json!({ "user_id": "1" });
    // The metrics are the process's, which other tests count in, too.
    let counted = async || {
        let text = api.get("/metrics").await.text;
        let route = "seckill_http_request_seconds_count{route=\"/api/vouchers/{id}/orders\",\
                     status=\"409\"}";
        let line = text.lines().find_map(|line| line.strip_prefix(route));
        line.map_or(0, |count| count.trim().parse::<u64>().unwrap())
    };
    for routed in [false, true] {
        let before = counted().await;
        let request = api.buying(1, voucher);
        let request = if routed { request.json(&body) } else { request };
        api.send(request).await.problem(409, "sold_out");
        eventually("the answer is counted", async || counted().await > before).await;
    }
}
