//! Requests that make no sense, in the application's dialect.

use serde_json::{Value, json};
use testkit::shop::private_server::PrivateServer;

use super::{FAR_AWAY, LONG_AGO, ask, data, error_of, log_in, sell, voucher};

/// The longest body that the server takes.
const MAX_BODY: usize = 16 * 1024;

async fn post(
    server: &PrivateServer,
    path: &str,
    body: Vec<u8>,
) -> testkit::shop::api_client::Answer {
    let request = server.api.request("POST", path).header("content-type", "application/json");
    let request = request.header("authorization", server.admin().await);
    server.api.send(request.body(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voucher_that_makes_no_sense_is_told_and_not_put_on_sale() {
    let server = PrivateServer::start().await;
    let long = "长".repeat(3_000);
    for (member, wrong) in [
        (
            "stock",
            vec![
                json!(-1),
                json!(2_147_483_648_i64),
                json!(1.5),
                json!(1e300),
                json!("x"),
                json!(""),
                json!(null),
                json!([]),
                json!(true),
            ],
        ),
        ("payValue", vec![json!(-1), json!(1_000_000_000_001_i64), json!("1.5"), json!({})]),
        ("actualValue", vec![json!(-1), json!("9223372036854775808")]),
        ("title", vec![json!(""), json!(null), json!(7), json!("\u{0}"), json!(long)]),
        ("subTitle", vec![json!(long), json!("\u{0}")]),
        ("rules", vec![json!(long)]),
        (
            "beginTime",
            vec![
                json!("now"),
                json!(""),
                json!("2026-13-01T00:00:00"),
                json!("2027-02-29T00:00:00"),
                json!("1969-12-30T00:00:00"),
                json!("+262142-12-31T23:59:59"),
                json!("-262143-01-01T00:00:00"),
                json!(1_800_000_000),
                json!(FAR_AWAY),
                json!("2026-01-25T10:09:17Z"),
            ],
        ),
        ("endTime", vec![json!(LONG_AGO), json!("99999-01-01T00:00:00"), json!([2026, 1, 1])]),
    ] {
        for wrong in wrong {
            let mut new = voucher(1, LONG_AGO, FAR_AWAY);
            new[member] = wrong.clone();
            let told = sell(&server, &new).await;
            assert!(error_of(&told, 200).starts_with("请求无效"), "{member} {wrong}: {told:?}");
        }
    }
    for missing in ["stock", "title"] {
        let mut new = voucher(1, LONG_AGO, FAR_AWAY);
        new.as_object_mut().unwrap().remove(missing);
        error_of(&sell(&server, &new).await, 200);
    }
    assert_eq!(data(&ask(&server, "GET", "/voucher/list/1", "", None).await), &json!([]));

    // At the bounds, and as loosely as plans write it.
    for (member, right) in [
        ("stock", json!(0)),
        ("stock", json!(2_147_483_647)),
        ("stock", json!("100")),
        ("stock", json!(" 100.0 ")),
        ("payValue", json!(1_000_000_000_000_i64)),
        ("payValue", json!(null)),
        ("actualValue", json!("0")),
        ("unknown", json!({ "createTime": 1 })),
        ("shopId", json!("x")),
    ] {
        let mut new = voucher(1, LONG_AGO, FAR_AWAY);
        new[member] = right;
        data(&sell(&server, &new).await);
    }
}

/// A body of the greatest length has a short answer, whatever its text is.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_does_not_come_back() {
    let server = PrivateServer::start().await;
    for c in ["\u{7f}", "9", "\\"] {
        let mut new = json!({ "title": "t", "stock": "" });
        while new.to_string().len() < MAX_BODY - 1 {
            let room = (MAX_BODY - new.to_string().len()) / json!(c).to_string().len().max(3);
            new["stock"] =
                json!(new["stock"].as_str().unwrap().to_owned() + &c.repeat(room.max(1)));
        }
        let told = sell(&server, &new).await;
        assert!(error_of(&told, 200).len() < 200, "{c:?}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_json_or_too_large_is_told() {
    let server = PrivateServer::start().await;
    for path in ["/voucher/seckill", "/user/login"] {
        let deep = "[".repeat(10_000);
        for body in ["", "{", "[]", "null", "\"a\"", "{\"phone\":", "\u{feff}{}", deep.as_str()] {
            assert!(error_of(&post(&server, path, body.into()).await, 200).starts_with("请求无效"));
        }
        error_of(&post(&server, path, vec![0xff, 0xfe, 0x00]).await, 200);
    }
    // One below the bound, at it, one beyond, and far beyond.
    let padded = |length: usize| {
        let mut body = voucher(1, LONG_AGO, FAR_AWAY).to_string().into_bytes();
        body.resize(length, b' ');
        body
    };
    for length in [MAX_BODY - 1, MAX_BODY] {
        data(&post(&server, "/voucher/seckill", padded(length)).await);
    }
    for length in [MAX_BODY + 1, 10_000_000] {
        let told = post(&server, "/voucher/seckill", padded(length)).await;
        assert!(error_of(&told, 200).contains("larger than this route takes"), "{told:?}");
        error_of(&post(&server, "/user/code?phone=13800138000", padded(length)).await, 200);
        error_of(&post(&server, "/user/logout", padded(length)).await, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_none_is_told_and_a_path_that_is_none_is_404() {
    let server = PrivateServer::start().await;
    let token = log_in(&server, "13800138000").await;
    for id in [
        "0",
        "-1",
        "x",
        "1.5",
        "9223372036854775808",
        "99999999999999999999",
        "%00",
        "%FF",
        "1%2F2",
    ] {
        let told =
            ask(&server, "POST", &format!("/voucher-order/seckill/{id}"), &token, None).await;
        assert!(error_of(&told, 200).starts_with("请求无效"), "{id}: {told:?}");
        let told = ask(&server, "GET", &format!("/voucher/list/{id}"), &token, None).await;
        assert!(error_of(&told, 200).starts_with("请求无效"), "{id}: {told:?}");
    }
    let biggest = "/voucher-order/seckill/9223372036854775807";
    assert_eq!(error_of(&ask(&server, "POST", biggest, &token, None).await, 200), "优惠券不存在");
    for (method, path, status) in [
        ("GET", "/user/nothing", 404),
        ("POST", "/voucher-order/seckill/", 404),
        ("GET", "/api/voucher/nothing", 404),
        ("GET", "/voucher-order/seckill/1", 405),
        ("DELETE", "/user/me", 405),
    ] {
        error_of(&ask(&server, method, path, &token, None).await, status);
    }
    // Nothing else is translated.
    for path in ["/users", "/voucher", "/api/nothing"] {
        assert_eq!(server.api.get(path).await.problem(404, "not_found").body["data"], Value::Null);
    }
}
