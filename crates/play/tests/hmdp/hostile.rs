//! Requests that make no sense, in the application's dialect.

use serde_json::{Value, json};
use testkit::shop::api_client::{Answer, another_code};

use super::{
    ADMIN, FAR_AWAY, LONG_AGO, ask, buy, data, dialect, error_of, on_sale, post, refused, sell,
    voucher,
};

/// The longest body that the server takes.
const MAX_BODY: usize = 16 * 1024;

/// It is told what makes no sense.
#[track_caller]
fn is_invalid(answer: &Answer) {
    assert!(error_of(answer, 200).starts_with("请求无效"), "{answer:?}");
}

/// A voucher of which one member is this.
fn voucher_with(member: &str, value: &Value) -> Value {
    let mut new = voucher(1, LONG_AGO, FAR_AWAY);
    new[member] = value.clone();
    new
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voucher_that_makes_no_sense_is_told_and_not_put_on_sale() {
    let api = dialect().await;
    let (admin, long) = (api.world.token(ADMIN), "长".repeat(3_000));
    let wrong = json!({
        "stock": [-1, 2_147_483_648_i64, 1.5, 1e300, "x", "", null, [], true],
        "payValue": [-1, 1_000_000_000_001_i64, "1.5", {}],
        "actualValue": [-1, "9223372036854775808"],
        "title": ["", null, 7, "\u{0}", long],
        "subTitle": [long, "\u{0}"],
        "rules": [long],
        "beginTime": [
            "now", "", "2026-13-01T00:00:00", "2027-02-29T00:00:00", "1969-12-30T00:00:00", 1_800_000_000, FAR_AWAY,
            "+262142-12-31T23:59:59", "-262143-01-01T00:00:00", "2026-01-25T10:09:17Z",
        ],
        "endTime": [LONG_AGO, "99999-01-01T00:00:00", [2026, 1, 1]],
    });
    for (member, values) in wrong.as_object().unwrap() {
        for value in values.as_array().unwrap() {
            is_invalid(&sell(&api, &admin, &voucher_with(member, value)).await);
        }
    }
    for missing in ["stock", "title"] {
        let mut new = voucher(1, LONG_AGO, FAR_AWAY);
        new.as_object_mut().unwrap().remove(missing);
        is_invalid(&sell(&api, &admin, &new).await);
    }
    assert_eq!(data(&ask(&api, "GET", "/voucher/list/1", "").await), json!([]));

    // At the bounds, and as loosely as plans write it.
    let right = json!({
        "stock": [0, 2_147_483_647, "100", " 100.0 "], "payValue": [1_000_000_000_000_i64, null],
        "actualValue": ["0"], "unknown": [{ "createTime": 1 }], "shopId": ["x"],
    });
    for (member, values) in right.as_object().unwrap() {
        for value in values.as_array().unwrap() {
            data(&sell(&api, &admin, &voucher_with(member, value)).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_json_or_too_large_is_told_and_does_not_come_back() {
    let api = dialect().await;
    let admin = api.world.token(ADMIN);
    let send = async |path: &str, body: &[u8]| {
        let request = api.request("POST", path).header("content-type", "application/json");
        api.send(request.header("authorization", &admin).body(body.to_vec())).await
    };
    let deep = "[".repeat(10_000);
    for path in ["/voucher/seckill", "/user/login"] {
        for body in ["", "{", "[]", "null", "\"a\"", "{\"phone\":", "\u{feff}{}", deep.as_str()] {
            is_invalid(&send(path, body.as_bytes()).await);
        }
        error_of(&send(path, &[0xff, 0xfe, 0x00]).await, 200);
    }
    // One below the bound, at it, one beyond, and far beyond.
    let padded = |length: usize| {
        let mut body = voucher(1, LONG_AGO, FAR_AWAY).to_string().into_bytes();
        body.resize(length, b' ');
        body
    };
    for length in [MAX_BODY - 1, MAX_BODY] {
        data(&send("/voucher/seckill", &padded(length)).await);
    }
    for length in [MAX_BODY + 1, 10_000_000] {
        let body = padded(length);
        let told = send("/voucher/seckill", &body).await;
        assert!(error_of(&told, 200).contains("larger than this route takes"), "{told:?}");
        error_of(&send("/user/code?phone=13800138000", &body).await, 200);
        error_of(&send("/user/logout", &body).await, 200);
    }
    // A body of the greatest length has a short answer, whatever its text is.
    for c in ["\u{7f}", "9", "\\"] {
        let mut new = json!({ "title": "t", "stock": "" });
        while new.to_string().len() < MAX_BODY - 1 {
            let room = (MAX_BODY - new.to_string().len()) / json!(c).to_string().len().max(3);
            let stock = new["stock"].as_str().unwrap();
            new["stock"] = json!(stock.to_owned() + &c.repeat(room.max(1)));
        }
        let told = sell(&api, &admin, &new).await;
        assert!(error_of(&told, 200).len() < 200, "{c:?}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_none_is_told_and_a_path_that_is_none_is_404() {
    let api = dialect().await;
    let token = api.world.token(1);
    for id in ["0", "-1", "x", "1.5", "9223372036854775808", "%00", "%FF", "1%2F2"] {
        for (method, path) in [("POST", "/voucher-order/seckill"), ("GET", "/voucher/list")] {
            is_invalid(&ask(&api, method, &format!("{path}/{id}"), &token).await);
        }
    }
    refused(&buy(&api, i64::MAX, &token).await, "优惠券不存在");
    for (method, path, status) in [
        ("GET", "/user/nothing", 404),
        ("POST", "/voucher-order/seckill/", 404),
        ("GET", "/api/voucher/nothing", 404),
        ("GET", "/voucher-order/seckill/1", 405),
        ("DELETE", "/user/me", 405),
    ] {
        error_of(&ask(&api, method, path, &token).await, status);
    }
    // Nothing else is translated.
    for path in ["/users", "/voucher", "/api/nothing"] {
        assert_eq!(api.get(path).await.problem(404, "not_found").body["data"], Value::Null);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_bare_and_with_bearer_and_without_one_there_is_no_body() {
    let api = dialect().await;
    let id = on_sale(&api, &api.world.token(ADMIN), 5).await;
    let token = api.world.token(1);
    let forged = format!("{token}x");
    let buying = format!("/voucher-order/seckill/{id}");
    for (method, path) in [("GET", "/user/me"), ("POST", &buying), ("POST", "/user/logout")] {
        for wrong in ["", "Bearer", "Bearer ", &forged, &format!("Bearer {forged}"), "Basic YTpi"] {
            let told = ask(&api, method, path, wrong).await;
            assert_eq!(told.is(401).text, "", "{path} {wrong}");
            assert_eq!(told.header("www-authenticate"), Some("Bearer"));
        }
        let told = api.send(api.request(method, path)).await;
        assert_eq!(told.is(401).text, "", "{path}");
    }
    for value in [token.clone(), format!("Bearer {token}"), format!("bearer {token}")] {
        data(&ask(&api, "GET", "/user/me", &value).await);
    }
    // The server's own routes take what the standard says.
    ask(&api, "GET", "/api/me", &token).await.problem(401, "unauthenticated");
    api.get_as(1, "/api/me").await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_phone_a_wrong_code_and_too_many_codes_are_told_in_the_applications_words() {
    let api = dialect().await;
    let log_in = async |phone: Value, code: Value| {
        post(&api, "/user/login", "", &json!({ "phone": phone, "code": code, "password": null }))
            .await
    };
    for phone in ["", "1380013800", "23800138000", "138001380000", "abc", "%00", "1380013800%C3"] {
        let sent = ask(&api, "POST", &format!("/user/code?phone={phone}"), "").await;
        refused(&sent, "手机号格式错误!");
        refused(&log_in(json!(phone), json!("123456")).await, "手机号格式错误!");
    }
    refused(&ask(&api, "POST", "/user/code", "").await, "手机号格式错误!");
    // JMeter sends the parameters of a POST in its body.
    let request = api.request("POST", "/user/code").body("a=b&phone=13800138000");
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    data(&api.send(request).await);
    let code = api.last_code();
    let wrong = another_code(&code);
    for wrong in [json!(wrong), json!("12345"), json!("1234567"), json!("abcdef"), Value::Null] {
        refused(&log_in(json!("13800138000"), wrong).await, "验证码错误");
    }
    data(&log_in(json!(13_800_138_000_i64), json!(code)).await);
    // A code is good once.
    refused(&log_in(json!("13800138000"), json!(code)).await, "验证码错误");

    // The limits are those of the server's own route.
    for _ in 0..5 {
        data(&ask(&api, "POST", "/user/code?phone=13800138001", "").await);
    }
    let sixth = ask(&api, "POST", "/user/code?phone=13800138001", "").await;
    assert_eq!(error_of(&sixth, 429), "请求过于频繁，请稍后再试");
    assert!(sixth.header("retry-after").is_some(), "{sixth:?}");
    api.ask_code("13800138001").await.problem(429, "too_many_requests");
}
