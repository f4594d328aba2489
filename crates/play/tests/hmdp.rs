//! `seckill play` speaks the HTTP of hm-dianping: one sale, in two dialects.

mod buying;
mod hostile;
mod selling;
mod tokens;

use serde_json::{Value, json};
use testkit::shop::api_client::Answer;
use testkit::shop::private_server::PrivateServer;

/// The application's client: a bare token, and whatever the answer is.
pub(crate) async fn ask(
    server: &PrivateServer,
    method: &str,
    path: &str,
    token: &str,
    body: Option<&Value>,
) -> Answer {
    let request = server.api.request(method, path).header("authorization", token);
    let request = if let Some(body) = body { request.json(body) } else { request };
    server.api.send(request).await
}

/// `data` of a success.
#[track_caller]
pub(crate) fn data(answer: &Answer) -> &Value {
    let body = &answer.is(200).body;
    assert_eq!((&body["success"], &body["errorMsg"]), (&json!(true), &Value::Null), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json;charset=UTF-8"));
    &body["data"]
}

/// `errorMsg` of a failure with this status.
#[track_caller]
pub(crate) fn error_of(answer: &Answer, status: u16) -> &str {
    let body = &answer.is(status).body;
    assert_eq!((&body["success"], &body["data"]), (&json!(false), &Value::Null), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json;charset=UTF-8"));
    assert!(answer.header("www-authenticate").is_none(), "{answer:?}");
    body["errorMsg"].as_str().unwrap_or_else(|| panic!("no errorMsg in {answer:?}"))
}

/// A refusal that is expected.
#[track_caller]
pub(crate) fn refused(answer: &Answer, why: &str) {
    assert_eq!(error_of(answer, 200), why, "{answer:?}");
}

/// Logs in as the application's front end does.
pub(crate) async fn log_in(server: &PrivateServer, phone: &str) -> String {
    let sent = ask(server, "POST", &format!("/user/code?phone={phone}"), "", None).await;
    let body = json!({ "phone": phone, "code": data(&sent) });
    let entered = ask(server, "POST", "/user/login", "", Some(&body)).await;
    data(&entered).as_str().unwrap().to_owned()
}

/// A voucher as the course puts it on sale.
pub(crate) fn voucher(stock: i64, begin: &str, end: &str) -> Value {
    json!({
        "shopId": 1, "title": "100元代金券", "subTitle": "周一至周日均可使用", "rules": "全场通用",
        "payValue": 8000, "actualValue": 10000, "type": 1, "stock": stock,
        "beginTime": begin, "endTime": end,
    })
}

pub(crate) const LONG_AGO: &str = "2026-01-25T10:09:17";
pub(crate) const FAR_AWAY: &str = "2090-01-25T12:09:04";

/// Puts a voucher on sale that sells for years.
pub(crate) async fn on_sale(server: &PrivateServer, stock: i64) -> i64 {
    let new = voucher(stock, LONG_AGO, FAR_AWAY);
    data(&sell(server, &new).await).as_i64().unwrap()
}

/// Puts this voucher on sale, as the administrator.
pub(crate) async fn sell(server: &PrivateServer, new: &Value) -> Answer {
    ask(server, "POST", "/voucher/seckill", &server.admin().await, Some(new)).await
}

pub(crate) async fn buy(server: &PrivateServer, voucher: i64, token: &str) -> Answer {
    ask(server, "POST", &format!("/voucher-order/seckill/{voucher}"), token, None).await
}

/// Mints tokens as `seckill tokens` with these arguments does, one a line.
pub(crate) async fn minted(server: &PrivateServer, arguments: &[&str]) -> Vec<String> {
    let (place, out) = (server.place.path(), server.place.path().join("tokens.txt"));
    let mut command = testkit::processes::seckill(&["tokens", "--format", "hmdp"]);
    command.args(arguments).arg("--out").arg(&out).arg("--data-dir").arg(place.join("data"));
    let output = testkit::program::finished(command).await;
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(str::to_owned).collect()
}
