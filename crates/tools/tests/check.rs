//! `seckill check`, the binary, against a small sale that can be wrong, and with files that cannot be used.

mod bugs;
mod files;
mod formats;
mod hostile;
mod presets;
mod promises;
mod shop;
mod target_server;
mod tokens;
mod voucher_on_sale;

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use target_server::TargetServer;
use tokio::process::Command;

/// The file of a target: new vouchers, unless `more` names one, and books by requests; `{user}` in a header.
fn file(target: &TargetServer, more: &str) -> String {
    let sale = match more.starts_with("voucher") {
        true => "",
        false => SALE,
    };
    format!(
        r#"
addresses = ["http://{address}", "http://localhost:{port}/"]
{more}
{PURCHASE}[later]
request = {{ path = "/mine/{{voucher}}", headers = {{ user = "{{user}}" }} }}
within = "20s"
[[later.answer]]
is = "accepted"
status = 202
[[later.answer]]
is = "ordered"
status = 201
order = "/id"
[[later.answer]]
is = "sold_out"
pointer = "/code"
equals = "sold_out"
[[later.answer]]
is = "already_bought"
pointer = "/code"
equals = "already_bought"
{sale}"#,
        address = target.address,
        port = target.address.port(),
    )
}

/// How one buys of the targets of these tests, and what they answer.
const PURCHASE: &str = r#"[purchase]
path = "/buy/{voucher}"
headers = { user = "{user}" }
[[answer]]
is = "ordered"
status = 201
order = "/id"
[[answer]]
is = "accepted"
status = 202
[[answer]]
is = "sold_out"
pointer = "/code"
equals = "sold_out"
[[answer]]
is = "already_bought"
pointer = "/code"
equals = "already_bought"
"#;

/// How a voucher is put on sale there.
const SALE: &str = r#"[sale]
request = { path = "/vouchers", body = '{"stock": {stock}}' }
"#;

/// Books that are quiet soon, by a request.
const BOOKS: &str = r#"
[books]
request = { path = "/books/{voucher}" }
quiet = "20ms"
within = "20s"
"#;

/// Runs a check of `text` with these arguments.
async fn check(place: &Path, text: &str, arguments: &[&str]) -> (Output, Option<Value>) {
    let (file, json) = (place.join("target.toml"), place.join("result.json"));
    std::fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_seckill-tools"))
        .arg("check")
        .arg(&file)
        .args(["--json", json.to_str().unwrap()])
        .args(if arguments.contains(&"--seed") { &[][..] } else { &["--seed", "1"] })
        .args(if arguments.contains(&"--users") { &[][..] } else { &["--users", "40"] })
        .args(arguments)
        .output()
        .await
        .unwrap();
    let result = std::fs::read(&json).ok();
    (output, result.map(|text| serde_json::from_slice(&text).unwrap()))
}

/// The names of the promises with this verdict.
fn with(result: &Value, verdict: &str) -> Vec<String> {
    let promises = result["promises"].as_array().unwrap();
    let all = promises.iter().filter(|promise| promise["verdict"] == verdict);
    all.map(|promise| promise["promise"].as_str().unwrap().to_owned()).collect()
}

/// What is said of a promise.
fn said(result: &Value, promise: &str) -> String {
    let promises = result["promises"].as_array().unwrap();
    let found = promises.iter().find(|it| it["promise"] == promise).unwrap();
    let sentences = found["sentences"].as_array().unwrap();
    sentences.iter().map(|it| it.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}
