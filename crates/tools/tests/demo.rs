//! `seckill demo`, the binary: what it sells, what it says of it, and what it leaves behind.

mod against;
mod board;
mod broken;
mod draw;
mod left_behind;
mod paid;
mod sale;

use std::ffi::OsStr;
use std::process::ExitStatus;

use nix::sys::signal::Signal;
use serde_json::Value;
use testkit::processes::{living_in, place, seckill, send};
use testkit::program::Ran;
use testkit::wait::{PATIENCE, must};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Everything that a buyer in a demo may be told.
const CODES: [&str; 4] = ["ordered", "sold_out", "already_bought", "order_in_progress"];

/// A demo keeps several processors busy. Of more at once on two slow ones some find that the database does not answer
/// within its 700 ms, which a verdict counts.
static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// What a demo said, and its verdict.
#[derive(Debug)]
struct Demo {
    ran: Ran,
    verdict: Value,
}

/// Runs a demo, on these servers or on its own.
async fn demo(arguments: &[impl AsRef<OsStr>], urls: Option<(&str, &str)>) -> Demo {
    let _turn = AT_ONCE.acquire().await.unwrap();
    let place = place();
    let json = place.path().join("demo.json");
    let mut command = seckill(&["demo", "--json", json.to_str().unwrap()]);
    // Who has set a path for a server of theirs has a demo all the same.
    command.args(arguments).env("TMPDIR", place.path()).env("SECKILL_BASE_PATH", "/shop");
    if let Some((database, redis)) = urls {
        command.env("DATABASE_URL", database).env("REDIS_URL", redis);
    }
    let output = command.output().await.unwrap();
    let text = std::fs::read_to_string(&json).unwrap_or_else(|_| panic!("{output:?}"));
    std::fs::remove_file(&json).unwrap();
    // It is over when it says so: nothing runs, no directory is there.
    assert_eq!(living_in(place.path()), [0; 0]);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    Demo { ran: Ran::from(output), verdict: serde_json::from_str(&text).unwrap() }
}

impl Demo {
    /// Asserts that every promise was kept, and that no buyer was told anything improper.
    #[track_caller]
    fn holds(&self) {
        assert_eq!(self.ran.status, 0, "{self:#?}");
        assert!(self.ran.stdout.starts_with("HOLDS"), "{self:#?}");
        assert_eq!(self.verdict["holds"], true, "{self:#?}");
        are_proper(&self.verdict);
    }

    /// Asserts that its verdict has these figures; `told` is how many attempts were told of an order.
    #[track_caller]
    fn has(&self, figures: &[(&str, i64)]) {
        for (field, figure) in figures {
            let found = match *field {
                "told" => told(&self.verdict, "ordered"),
                field => number(&self.verdict, field),
            };
            assert_eq!(found, *figure, "{field}: {self:#?}");
        }
    }
}

#[track_caller]
fn are_proper(verdict: &Value) {
    let outcomes = verdict["outcomes"].as_object().unwrap();
    assert!(outcomes.keys().all(|code| CODES.contains(&code.as_str())), "{verdict}");
}

#[track_caller]
fn number(verdict: &Value, field: &str) -> i64 {
    verdict[field].as_i64().unwrap_or_else(|| panic!("{field}: {verdict}"))
}

fn told(verdict: &Value, code: &str) -> i64 {
    verdict["outcomes"][code].as_i64().unwrap_or(0)
}

/// What a running command says.
type Said = Lines<BufReader<ChildStderr>>;

fn said_by(child: &mut Child) -> Said {
    BufReader::new(child.stderr.take().unwrap()).lines()
}

/// The next line that begins so.
async fn line(said: &mut Said, begins: &str) -> String {
    let found = async {
        loop {
            let line = said.next_line().await.unwrap().expect("the command ended");
            if line.starts_with(begins) {
                return line;
            }
        }
    };
    // The largest demos take their time to begin.
    timeout(PATIENCE * 5, found).await.unwrap_or_else(|_| panic!("it never says {begins:?}"))
}

/// Sends a signal, and waits for the end.
async fn ended_by(signal: Signal, child: &mut Child) -> ExitStatus {
    send(child.id().unwrap(), signal);
    must("it ends", child.wait()).await.unwrap()
}
