//! A shop below a path of its host (`SECKILL_BASE_PATH`): all that the server has is there, and whatever it names.

use serde_json::{Value, json};

use testkit::shop::api_client::Api;
use testkit::shop::world::World;
use testkit::wait::eventually;

use super::pages::addresses;

/// A shop below `/shop`, with so many vouchers that cost something.
pub async fn shop(vouchers: u32) -> Api {
    let world = World::with(|settings| settings.base_path = "/shop".parse().unwrap()).await;
    for _ in 0..vouchers {
        world.priced_voucher(5).await;
    }
    Api::of(world).await
}

#[tokio::test]
async fn a_buyer_below_a_path_follows_what_the_server_names() {
    let api = shop(2).await;
    let phone = "13800138000";
    api.post("/shop/api/login-codes", &json!({ "phone": phone })).await.is(202);
    let body = json!({ "phone": phone, "code": api.last_code() });
    let session = api.post("/shop/api/sessions", &body).await;
    let token = session.is(201).text_of("token");

    let first = api.get("/shop/api/vouchers?limit=1").await;
    let next = first.is(200).next_page().unwrap();
    assert!(next.starts_with("/shop/api/vouchers?before="), "{next}");
    let second = api.get(&next).await;
    let voucher = second.is(200).body[0]["id"].as_str().unwrap();
    let bought = api.call("POST", &format!("/shop/api/vouchers/{voucher}/orders"), token).await;
    let order = bought.is(201).header("location").unwrap();
    assert_eq!(order, format!("/shop/api/orders/{}", bought.text_of("order_id")));
    let found = api.call("GET", order, token).await;
    assert_eq!(found.is(200).body, bought.body);

    let mut page = String::new();
    eventually("the payment begins", async || {
        let begun = api.call("POST", &format!("{order}/payments"), token).await;
        page = begun.body["pay_url"].as_str().unwrap_or_default().to_owned();
        begun.status != 503
    })
    .await;
    assert!(page.starts_with("/shop/sandbox/payments/"), "{page}");
    api.get(&page).await.is(200);

    let events = api.get("/shop/api/events").await;
    assert_eq!(events.is(200).header("content-type"), Some("text/event-stream"));
    for path in ["/shop/healthz", "/shop/readyz", "/shop/favicon.ico"] {
        api.get(path).await.is(200);
    }
    // Dashboards and alerts name the route.
    let metrics = api.get("/shop/metrics").await;
    let route =
        "seckill_http_request_seconds_count{route=\"/api/vouchers/{id}/orders\",status=\"201\"}";
    assert!(metrics.is(200).text.contains(route) && !metrics.text.contains("/shop"), "{metrics:?}");
}

#[tokio::test]
async fn the_description_names_the_path_if_there_is_one() {
    let below = shop(0).await.get("/shop/api/openapi.json").await;
    assert_eq!(below.is(200).body["servers"], json!([{ "url": "/shop" }]));
    let at_the_root = Api::shared().await.get("/api/openapi.json").await;
    assert_eq!(at_the_root.is(200).body["servers"], Value::Null);
}

#[tokio::test]
async fn every_page_below_a_path_names_what_is_there() {
    let api = shop(0).await;
    for path in ["/shop", "/shop/", "/shop/board", "/shop/board/", "/shop/sandbox/payments/1.2.3"] {
        let page = api.get(path).await;
        assert!(page.is(200).text.contains(" data-base=\"/shop\""), "{}", page.text);
        let named = addresses(&page.text, "src").chain(addresses(&page.text, "href"));
        let named: Vec<_> = named.filter(|it| !it.starts_with(['#', '?'])).collect();
        assert!(named.len() >= 7, "{path}: {named:?}");
        for address in named {
            assert!(address.starts_with("/shop/"), "{path}: {address}");
            api.get(address.trim_end_matches("#orders")).await.is(200);
        }
    }
    for (path, leads_to) in
        [("/shop/docs", "/shop/docs/"), ("/shop/board/?lang=en", "/shop/board?lang=en")]
    {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
        let url = format!("http://{}{path}", api.address);
        let answer = client.unwrap().get(url).send().await.unwrap();
        assert_eq!(answer.headers()["location"], leads_to);
    }
    let script = api.get("/shop/docs/swagger-initializer.js").await;
    assert!(script.is(200).text.contains("\"../api/openapi.json\""), "{}", script.text);
    let root = Api::shared().await.get("/").await;
    assert!(!root.is(200).text.contains("data-base"), "{}", root.text);
}

#[tokio::test]
async fn beside_the_path_there_is_nothing() {
    let api = shop(0).await;
    for path in [
        "/",
        "/api/vouchers",
        "/api/events",
        "/board",
        "/docs/",
        "/healthz",
        "/metrics",
        "/shopping",
        "/Shop",
    ] {
        let answer = api.request("GET", path).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{path}");
        assert_eq!(answer.headers()["content-type"], "application/problem+json", "{path}");
        assert!(answer.headers().contains_key("x-request-id"), "{path}");
    }
}
