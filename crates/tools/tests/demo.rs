//! `seckill demo`, the binary: what it sells, what it says of it, and what it leaves behind.

mod against;
mod board;
mod broken;
mod draw;
mod left_behind;
mod paid;
mod sale;

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use testkit::processes::seckill;

/// Everything that a buyer in a demo may be told.
const CODES: [&str; 4] = ["ordered", "sold_out", "already_bought", "order_in_progress"];

/// Runs a demo below `place`, and reads what it wrote.
async fn demo(place: &Path, arguments: &[&str], urls: Option<(&str, &str)>) -> (Output, Value) {
    let json = place.join("demo.json");
    let mut command = seckill(&["demo", "--json", json.to_str().unwrap()]);
    command.args(arguments).env("TMPDIR", place);
    if let Some((database, redis)) = urls {
        command.env("DATABASE_URL", database).env("REDIS_URL", redis);
    }
    let output = command.output().await.unwrap();
    let text = std::fs::read_to_string(&json).unwrap_or_else(|_| panic!("{output:?}"));
    std::fs::remove_file(&json).unwrap();
    (output, serde_json::from_str(&text).unwrap())
}

fn number(verdict: &Value, field: &str) -> i64 {
    verdict[field].as_i64().unwrap_or_else(|| panic!("{field}: {verdict}"))
}

fn told(verdict: &Value, code: &str) -> i64 {
    verdict["outcomes"][code].as_i64().unwrap_or(0)
}
