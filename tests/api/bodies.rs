//! Bodies too large, in pieces, or never complete, as bytes on a connection.

use seckill::model::VoucherId;
use serde_json::json;

use testkit::raw_http::{HEALTHZ, Raw, RawAnswer, purchase_head};
use testkit::shop::api_client::Api;

const TEN_MB: usize = 10_000_000;
const CHUNKED: &str = "transfer-encoding: chunked\r\n";

/// An API with one user, a voucher, and a connection.
async fn shop() -> (Api, VoucherId, Raw) {
    let (api, voucher) = Api::with_sale(1, 5).await;
    let raw = Raw::connect(api.address).await;
    (api, voucher, raw)
}

/// The head of a request with JSON, which ends with `last`: a line or more.
fn json_head(path: &str, token: &str, last: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: s\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\n{last}\r\n\r\n"
    )
}

fn assert_too_large(answer: &RawAnswer) {
    assert_eq!(answer.status, 413, "{answer:?}");
    assert!(answer.head.contains("content-type: application/problem+json"), "{answer:?}");
    let problem = answer.json();
    assert_eq!((&problem["code"], &problem["status"]), (&json!("invalid_request"), &json!(413)));
}

fn chunked(body: &[u8], chunk: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in body.chunks(chunk) {
        bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_ten_megabytes_gets_to_read_the_refusal() {
    let (api, voucher, _) = shop().await;
    let (token, admin) = (api.world.token(1), api.world.admin_token(2).await);
    let purchase = format!("/api/vouchers/{voucher}/orders");
    let whole = vec![b' '; TEN_MB];
    let announced = format!("content-length: {TEN_MB}");
    let bodies =
        [(&*announced, whole.clone()), ("transfer-encoding: chunked", chunked(&whole, 60_000))];
    for (path, token) in [
        (&*purchase, &*token),
        (&purchase, "nobody's"),
        ("/api/login-codes", &admin),
        ("/api/sessions", &admin),
        ("/api/vouchers", &admin),
        ("/nothing", &admin),
    ] {
        for (length, body) in &bodies {
            let head = json_head(path, token, length);
            let mut raw = Raw::sent(api.address, head).await;
            assert_too_large(&raw.ask(body).await);
        }
    }
    assert_eq!(api.world.audit().await.orders, 0);
}

#[tokio::test]
async fn who_asks_before_sending_is_told_to_go_on_or_spared_the_sending_of_ten_megabytes() {
    let (api, voucher, mut raw) = shop().await;
    let small = "content-length: 2\r\nexpect: 100-continue\r\n";
    let head = purchase_head(&api.world.token(1), voucher, small);
    assert_eq!(raw.ask(head).await.status, 100);
    assert_eq!(raw.ask("{}").await.status, 201);
    let headers = format!("content-length: {TEN_MB}\r\nexpect: 100-continue\r\n");
    let head = purchase_head(&api.world.token(1), voucher, &headers);
    assert_too_large(&raw.ask(head).await);
    // What follows must not be taken for the body, or the body for what follows.
    assert!(raw.answer().await.is_none());
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_read_and_one_byte_more_is_not() {
    let (api, voucher, mut raw) = shop().await;
    let limit = seckill::http::body::MAX_BODY_BYTES;
    for (length, status) in [(limit + 1, 413), (limit, 201)] {
        let mut body = b"{}".to_vec();
        body.resize(length, b' ');
        let token = api.world.token(1);
        for is_chunked in [false, true] {
            let status = if is_chunked && status == 201 { 409 } else { status };
            let (header, body) = if is_chunked {
                (CHUNKED.to_owned(), chunked(&body, 1000))
            } else {
                (format!("content-length: {length}\r\n"), body.clone())
            };
            let head = purchase_head(&token, voucher, &header);
            let answer = Raw::sent(api.address, head).await.ask(body).await;
            assert_eq!(answer.status, status, "{length} {is_chunked} {answer:?}");
        }
    }
    assert_eq!(raw.ask(HEALTHZ).await.status, 200);
}

#[tokio::test]
async fn a_request_may_come_byte_by_byte_and_its_body_in_chunks_of_a_byte() {
    let (api, voucher, mut raw) = shop().await;
    raw.0.get_mut().set_nodelay(true).unwrap();
    let chunked_head = purchase_head(&api.world.token(1), voucher, CHUNKED);
    let whole = purchase_head(&api.world.token(1), voucher, "content-length: 2\r\n") + "{}";
    let in_chunks = [chunked_head.as_bytes(), &chunked(br#"{"user_id":"1"}"#, 1)].concat();
    for (request, status) in [(whole.as_bytes(), 201), (&in_chunks, 409)] {
        for byte in request {
            raw.send([*byte]).await;
        }
        assert_eq!(raw.answer().await.unwrap().status, status);
    }
    // The connection is still good, also after an empty one.
    let again = chunked_head + "0\r\n\r\n";
    assert_eq!(raw.ask(again).await.json()["code"], "already_bought");
}

#[tokio::test]
async fn a_body_that_breaks_off_buys_nothing() {
    let (api, voucher, mut raw) = shop().await;
    raw.send(purchase_head(&api.world.token(1), voucher, "content-length: 10\r\n")).await;
    raw.send("{}").await;
    // No more will come; the other direction stays open.
    tokio::io::AsyncWriteExt::shutdown(&mut raw.0).await.unwrap();
    if let Some(answer) = raw.answer().await {
        assert_eq!(answer.status, 422, "{answer:?}");
    }
    assert_eq!(api.world.audit().await.orders, 0);
}

/// A server that waits for a body holds nothing that others need. `100 Continue` tells that it waits.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_never_send_their_body_take_nobodys_place() {
    let (api, ..) = shop().await;
    let admin = api.world.admin_token(1).await;
    let mut stalled = Vec::new();
    let posts =
        ["/api/sessions", "/api/login-codes", "/api/vouchers", "/api/payments/notifications"];
    for path in posts.iter().flat_map(|path| [path; 65]) {
        let mut raw = Raw::connect(api.address).await;
        let head = json_head(path, &admin, "content-length: 50\r\nexpect: 100-continue");
        assert_eq!(raw.ask(head).await.status, 100);
        stalled.push(raw);
    }
    api.get_as(1, "/api/orders").await.is(200);
    let token = api.log_in("13800138000").await;
    api.call("DELETE", "/api/sessions", &token).await.is(204);
    let voucher = json!({ "title": "100 for 80", "stock": 1 });
    api.call_with("POST", "/api/vouchers", &admin, &voucher).await.is(201);
}

#[tokio::test]
async fn bodies_that_contradict_themselves_buy_nothing() {
    let (api, voucher, _) = shop().await;
    let token = api.world.token(1);
    let contradictions = [
        ("content-length: 2\r\ncontent-length: 3\r\n", "{}"),
        ("content-length: -1\r\n", ""),
        ("content-length: 99999999999999999999999999\r\n", ""),
        ("transfer-encoding: gzip\r\n", "{}"),
        ("transfer-encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n"),
        ("transfer-encoding: chunked\r\n", "fffffffffffffffff\r\n"),
    ];
    for (headers, body) in contradictions {
        let mut raw = Raw::sent(api.address, purchase_head(&token, voucher, headers)).await;
        raw.send(body).await;
        if let Some(answer) = raw.answer().await {
            assert!((400..500).contains(&answer.status), "{headers:?}: {answer:?}");
        }
    }
    assert_eq!(api.world.audit().await.orders, 0);
}
