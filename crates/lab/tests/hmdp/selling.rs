//! Putting on sale in the application's dialect: who may, and at which local time.

use serde_json::{Value, json};
use testkit::shop::api_client::Answer;
use testkit::shop::private_server::PrivateServer;

use super::{FAR_AWAY, LONG_AGO, ask, data, error_of, log_in, voucher};

const SELLING: &str = "/voucher/seckill";

async fn sell(server: &PrivateServer, headers: &[(&str, &str)]) -> Answer {
    let request = server.api.request("POST", SELLING).json(&voucher(1, LONG_AGO, FAR_AWAY));
    let request = headers.iter().fold(request, |it, (name, value)| it.header(*name, *value));
    server.api.send(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn this_machine_may_put_vouchers_on_sale_and_nobody_else() {
    let server = PrivateServer::start().await;
    assert_eq!(data(&sell(&server, &[]).await), &json!(1));
    assert_eq!(data(&sell(&server, &[("host", "localhost:1")]).await), &json!(2));
    let buyer = log_in(&server, "13800138000").await;
    for elsewhere in [("host", "evil.example"), ("x-forwarded-for", "192.0.2.1")] {
        assert_eq!(sell(&server, &[elsewhere]).await.is(401).text, "");
        let sold = sell(&server, &[elsewhere, ("authorization", &buyer)]).await;
        assert_eq!(error_of(&sold, 403), "没有权限");
    }
    assert_eq!(data(&sell(&server, &[]).await), &json!(3), "nothing was put on sale meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_configured_administrators_only_they_may() {
    let variables = [("SECKILL_ADMIN_PHONES", "13800138000")];
    let server = PrivateServer::start_with(&["--listen", "127.0.0.1:0"], &variables).await;
    let (admin, buyer) =
        (log_in(&server, "13800138000").await, log_in(&server, "13800138001").await);
    assert_eq!(sell(&server, &[]).await.is(401).text, "");
    error_of(&sell(&server, &[("authorization", &buyer)]).await, 403);
    assert_eq!(data(&sell(&server, &[("authorization", &admin)]).await), &json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_reaches_nothing() {
    let variables = [("SECKILL_ALLOWED_ORIGINS", "https://shop.example")];
    let server = PrivateServer::start_with(&["--listen", "127.0.0.1:0"], &variables).await;
    let own = format!("http://{}", server.node.address);
    for (headers, status) in [
        (vec![("origin", own.as_str())], 200),
        (vec![("origin", "https://shop.example")], 200),
        (vec![("origin", "http://localhost:8080"), ("sec-fetch-site", "same-origin")], 200),
        (vec![("origin", "https://evil.example")], 403),
        (vec![("origin", "null")], 403),
        (vec![("origin", own.as_str()), ("sec-fetch-site", "cross-site")], 403),
        (vec![("sec-fetch-site", "same-site")], 403),
    ] {
        let sold = sell(&server, &headers).await;
        assert_eq!(sold.status, status, "{headers:?} {sold:?}");
        let request = server.api.request("POST", "/user/code?phone=13800138000");
        let request = headers.iter().fold(request, |it, (name, value)| it.header(*name, *value));
        assert_eq!(server.api.send(request).await.status, status, "{headers:?}");
    }
    // What a page may send without asking first is no JSON.
    for content_type in ["text/plain", "application/x-www-form-urlencoded"] {
        let body = voucher(1, LONG_AGO, FAR_AWAY).to_string();
        let request = server.api.request("POST", SELLING).header("content-type", content_type);
        error_of(&server.api.send(request.body(body)).await, 200);
    }
    let preflight = server.api.request("OPTIONS", SELLING).header("origin", "https://evil.example");
    let preflight = preflight.header("access-control-request-method", "POST");
    let answer = server.api.send(preflight).await;
    assert!(answer.header("access-control-allow-origin").is_none(), "{answer:?}");
}

/// The instant that a local time is, as the server's own route says it.
async fn begins(server: &PrivateServer, local: &str) -> Value {
    let new = voucher(1, local, FAR_AWAY);
    let created = ask(server, "POST", SELLING, "", Some(&new)).await;
    let id = data(&created).clone();
    server.api.get(&format!("/api/vouchers/{id}")).await.is(200).body["begin_time"].clone()
}

/// Summer time in central Europe, as a rule that needs no file of time zones: it begins at 02:00, which is then 03:00,
/// and ends at 03:00, which is then 02:00.
#[tokio::test(flavor = "multi_thread")]
async fn a_local_time_is_of_this_machines_zone_also_where_it_is_twice_or_never() {
    let variables = [("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")];
    let server = PrivateServer::start_with(&["--listen", "127.0.0.1:0"], &variables).await;
    for (local, instant) in [
        ("2027-01-15T12:00:00", "2027-01-15T11:00:00Z"),
        ("2027-07-15T12:00:00", "2027-07-15T10:00:00Z"),
        // The gap: one before, its bounds, its middle, one after.
        ("2027-03-28T01:59:59", "2027-03-28T00:59:59Z"),
        ("2027-03-28T02:00:00", "2027-03-28T01:00:00Z"),
        ("2027-03-28T02:30:00", "2027-03-28T01:30:00Z"),
        ("2027-03-28T02:59:59", "2027-03-28T01:59:59Z"),
        ("2027-03-28T03:00:00", "2027-03-28T01:00:00Z"),
        // The hour that comes twice: the first time.
        ("2027-10-31T01:59:59", "2027-10-30T23:59:59Z"),
        ("2027-10-31T02:00:00", "2027-10-31T00:00:00Z"),
        ("2027-10-31T02:59:59", "2027-10-31T00:59:59Z"),
        ("2027-10-31T03:00:00", "2027-10-31T02:00:00Z"),
    ] {
        assert_eq!(begins(&server, local).await, json!(instant), "{local}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_zone_of_the_course_is_named_by_tz() {
    let server = PrivateServer::start_with(&["--listen", "127.0.0.1:0"], &[("TZ", "CST-8")]).await;
    assert_eq!(begins(&server, "2027-01-25 10:09:17").await, json!("2027-01-25T02:09:17Z"));
}
