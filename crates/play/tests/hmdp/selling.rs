//! Putting on sale in the application's dialect: who may, and at which local time.

use serde_json::{Value, json};
use testkit::shop::private_server::PrivateServer;

use super::{FAR_AWAY, LONG_AGO, ask, data, error_of, log_in, sell, voucher};

#[tokio::test(flavor = "multi_thread")]
async fn only_an_administrator_puts_vouchers_on_sale() {
    let variables = [("SECKILL_ADMIN_PHONES", "13800138000")];
    for variables in [&[] as &[_], &variables] {
        let server = PrivateServer::start_with(&["--listen", "127.0.0.1:0"], variables).await;
        let buyer = log_in(&server, "13800138001").await;
        let admin = if variables.is_empty() {
            server.admin().await
        } else {
            server.login("13800138000").await
        };
        let new = voucher(1, LONG_AGO, FAR_AWAY);
        let sell = async |token| ask(&server, "POST", "/voucher/seckill", token, Some(&new)).await;
        assert_eq!(sell("").await.is(401).text, "");
        assert_eq!(error_of(&sell(&buyer).await, 403), "没有权限");
        assert_eq!(data(&sell(&admin).await), &json!(1));
    }
}

/// As nginx asks without `proxy_set_header` (of this machine, it seems) and with it.
#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_the_demonstrations_administrator_is_told_where_he_is_one() {
    let server = PrivateServer::start().await;
    let new = voucher(1, LONG_AGO, FAR_AWAY);
    for (name, value, status) in
        [("origin", "http://shop.example", 200), ("x-forwarded-for", "192.0.2.1", 403)]
    {
        let request = server.api.request("POST", "/voucher/seckill").json(&new).header(name, value);
        let request = request.header("authorization", server.admin().await);
        let sold = server.api.send(request).await;
        assert!(status == 200 || error_of(&sold, status).contains("SECKILL_ADMIN_PHONES"));
        sold.is(status);
    }
}

/// The instant that a local time is, as the server's own route says it.
async fn begins(server: &PrivateServer, local: &str) -> Value {
    let new = voucher(1, local, FAR_AWAY);
    let created = sell(server, &new).await;
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
