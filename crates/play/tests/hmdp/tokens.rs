//! Tokens and codes in the application's dialect.

use std::collections::BTreeSet;

use serde_json::json;
use testkit::shop::private_server::{DEMO_ADMIN_PHONE, PrivateServer};

use super::{ask, buy, data, error_of, log_in, minted, on_sale, refused};

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_bare_and_with_bearer_and_without_one_there_is_no_body() {
    let server = PrivateServer::start().await;
    let id = on_sale(&server, 5).await;
    let token = log_in(&server, "13800138000").await;
    let routes = [
        ("GET", "/user/me".to_owned()),
        ("POST", format!("/voucher-order/seckill/{id}")),
        ("POST", "/user/logout".to_owned()),
    ];
    let forged = format!("{token}x");
    for (method, path) in &routes {
        for wrong in ["", "Bearer", "Bearer ", &forged, &format!("Bearer {forged}"), "Basic YTpi"] {
            let told = ask(&server, method, path, wrong, None).await;
            assert_eq!(told.is(401).text, "", "{path} {wrong}");
            assert_eq!(told.header("www-authenticate"), Some("Bearer"));
        }
        let told = server.api.send(server.api.request(method, path)).await;
        assert_eq!(told.is(401).text, "", "{path}");
    }
    for value in [token.clone(), format!("Bearer {token}"), format!("bearer {token}")] {
        data(&ask(&server, "GET", "/user/me", &value, None).await);
    }
    // The server's own routes take what the standard says.
    ask(&server, "GET", "/api/me", &token, None).await.problem(401, "unauthenticated");
    server.send("GET", "/api/me", &token, None).await.is(200);
}

/// Two engines of a load generator take a part each.
#[tokio::test(flavor = "multi_thread")]
async fn two_parts_of_the_users_have_no_token_in_common() {
    let server = PrivateServer::start().await;
    let one = minted(&server, &["--users", "3", "--first", "100001"]).await;
    let two = minted(&server, &["--users", "3", "--first", "100004"]).await;
    let id = on_sale(&server, 6).await;
    let all: BTreeSet<&String> = one.iter().chain(&two).collect();
    assert_eq!(all.len(), 6);
    let mut users = Vec::new();
    for token in all {
        let me = ask(&server, "GET", "/user/me", token, None).await;
        users.push(data(&me)["id"].as_i64().unwrap());
        data(&buy(&server, id, token).await);
    }
    users.sort_unstable();
    assert_eq!(users, [100_001, 100_002, 100_003, 100_004, 100_005, 100_006]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_phone_and_a_wrong_code_are_told_in_the_applications_words() {
    let server = PrivateServer::start().await;
    for phone in ["", "1380013800", "23800138000", "138001380000", "abc", "%00", "1380013800%C3"] {
        let sent = ask(&server, "POST", &format!("/user/code?phone={phone}"), "", None).await;
        refused(&sent, "手机号格式错误!");
        let body = json!({ "phone": phone, "code": "123456" });
        refused(&ask(&server, "POST", "/user/login", "", Some(&body)).await, "手机号格式错误!");
    }
    refused(&ask(&server, "POST", "/user/code", "", None).await, "手机号格式错误!");
    // JMeter sends the parameters of a POST in its body.
    let request = server.api.request("POST", "/user/code");
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    let request = request.body("a=b&phone=13800138000");
    let sent = server.api.send(request).await;
    let code = data(&sent).as_str().unwrap().to_owned();
    assert!(code.len() == 6, "{code}");
    let wrong = if code == "000000" { "000001" } else { "000000" };
    for wrong in [json!(wrong), json!("12345"), json!("1234567"), json!("abcdef"), json!(null)] {
        let body = json!({ "phone": "13800138000", "code": wrong });
        refused(&ask(&server, "POST", "/user/login", "", Some(&body)).await, "验证码错误");
    }
    let body = json!({ "phone": 13_800_138_000_i64, "code": code, "password": null });
    data(&ask(&server, "POST", "/user/login", "", Some(&body)).await);
    // A code is good once.
    refused(&ask(&server, "POST", "/user/login", "", Some(&body)).await, "验证码错误");
}

#[tokio::test(flavor = "multi_thread")]
async fn codes_have_the_limits_of_the_servers_own_route() {
    let server = PrivateServer::start().await;
    let path = "/user/code?phone=13800138000";
    for _ in 0..5 {
        data(&ask(&server, "POST", path, "", None).await);
    }
    let sixth = ask(&server, "POST", path, "", None).await;
    assert_eq!(error_of(&sixth, 429), "请求过于频繁，请稍后再试");
    assert!(sixth.header("retry-after").is_some(), "{sixth:?}");
    let body = json!({ "phone": "13800138000" });
    let ours = server.api.post("/api/login-codes", &body).await;
    ours.problem(429, "too_many_requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_code_of_an_administrator_is_in_the_log_alone() {
    let server = PrivateServer::start().await;
    let path = format!("/user/code?phone={}", DEMO_ADMIN_PHONE.replace('+', "%2B"));
    assert_eq!(data(&ask(&server, "POST", &path, "", None).await), &json!(null));
    // A bare token of the administrator is no way around.
    let admin = server.admin().await;
    for (value, status) in [("localhost:1", 200), ("evil.example", 403)] {
        let request = server.api.request("GET", "/user/me").header("authorization", &admin);
        server.api.send(request.header("host", value)).await.is(status);
    }
}
