//! `seckill check`, the binary, against a small shop that can be wrong, and with files that cannot be used.

mod bugs;
mod files;
mod formats;
mod hostile;
mod presets;
mod promises;
mod shop;
mod tokens;
mod voucher_on_sale;
mod wire;

use std::ops::Index;
use std::path::Path;

use serde_json::Value;
use testkit::processes::place;
use testkit::program::Ran;
use tokio::process::Command;

/// Books of which nobody has to wait long.
const QUIET: &str = "quiet = \"20ms\"\nwithin = \"20s\"\n";

const ONE_ROUND: [&str; 2] = ["--rounds", "1"];
const TWO_ROUNDS: [&str; 2] = ["--rounds", "2"];

/// What a check said, and its result where there is one.
#[derive(Debug)]
struct Checked {
    ran: Ran,
    result: Option<Value>,
}

/// Runs a check of `text` with these arguments.
async fn check(text: &str, arguments: &[&str]) -> Checked {
    check_in(place().path(), text, arguments).await
}

/// Writes the file of a target into a place, for a check of it.
fn command(place: &Path, text: &str) -> Command {
    let file = place.join("target.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_seckill-tools"));
    command.arg("check").arg(file);
    command
}

/// Runs a check beside the files of a place.
async fn check_in(place: &Path, text: &str, arguments: &[&str]) -> Checked {
    let json = place.join("result.json");
    let output = command(place, text)
        .args(["--json", json.to_str().unwrap()])
        .args(if arguments.contains(&"--seed") { &[][..] } else { &["--seed", "1"] })
        .args(if arguments.contains(&"--users") { &[][..] } else { &["--users", "40"] })
        .args(arguments)
        .output()
        .await
        .unwrap();
    let result = std::fs::read(&json).ok();
    let _ = std::fs::remove_file(&json);
    Checked {
        ran: Ran::from(output),
        result: result.map(|text| serde_json::from_slice(&text).unwrap()),
    }
}

impl Index<&str> for Checked {
    type Output = Value;

    #[track_caller]
    fn index(&self, name: &str) -> &Value {
        let result = self.result.as_ref().unwrap_or_else(|| panic!("no result: {self:?}"));
        &result[name]
    }
}

impl Checked {
    /// The names of the promises with this verdict.
    #[track_caller]
    fn with(&self, verdict: &str) -> Vec<&str> {
        let promises = self["promises"].as_array().unwrap();
        let all = promises.iter().filter(|promise| promise["verdict"] == verdict);
        all.map(|promise| promise["promise"].as_str().unwrap()).collect()
    }

    /// What is said of a promise.
    #[track_caller]
    fn said(&self, promise: &str) -> String {
        let promises = self["promises"].as_array().unwrap();
        let found = promises.iter().find(|it| it["promise"] == promise).unwrap();
        let sentences = found["sentences"].as_array().unwrap();
        sentences.iter().map(|it| it.as_str().unwrap()).collect::<Vec<_>>().join("\n")
    }

    /// Asserts which promises are broken and which are unknown, and the exit status of such a check.
    #[track_caller]
    fn is_judged(&self, broken: &[&str], unknown: &[&str]) {
        assert_eq!(self.with("broken"), broken, "{self:#?}");
        assert_eq!(self.with("unknown"), unknown, "{self:#?}");
        let status = match (broken, unknown) {
            ([], []) => 0,
            ([], _) => 2,
            _ => 1,
        };
        assert_eq!(self.ran.status, status, "{self:#?}");
        assert_eq!(self["holds"], status == 0, "{self:#?}");
    }

    /// Asserts that it ended without a result, and why.
    #[track_caller]
    fn is_refused(&self, words: &str) {
        assert_eq!((self.ran.status, &self.result), (2, &None), "{self:#?}");
        assert!(self.ran.stderr.lines().last().unwrap().contains(words), "{words}: {self:#?}");
    }
}

/// The text with something else in place of what it has.
#[track_caller]
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}: {text}");
    text.replace(from, to)
}
