//! What users and their programs rely on, as the release before had it: one file of sections, a list of lines
//! each. Nothing of it is lost, or added, by accident.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::variables;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/tests/golden/interfaces.txt");

/// Members whose own members are no names but what was counted.
const COUNTED: [&str; 1] = ["outcomes"];

/// The lines below `# section`.
fn lines_of(section: &str) -> Vec<String> {
    let text = fs::read_to_string(FILE).unwrap();
    let head = format!("# {section}");
    let lines = text.lines().skip_while(|line| *line != head).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("# ")).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// Asserts that this is the text of a file of the repository, or writes it there: with `GOLDEN=write` in the environment.
#[track_caller]
pub fn assert_file(file: &str, now: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    if variables::text("GOLDEN").is_some_and(|what| what == "write") {
        return fs::write(path, now).unwrap();
    }
    let before = fs::read_to_string(path).unwrap_or_default();
    let differs = now.lines().zip(before.lines()).position(|(now, before)| now != before);
    let line = differs.unwrap_or(now.lines().count().min(before.lines().count())) + 1;
    assert!(
        now == before,
        "{file} is another from line {line} on. If that is meant, run this test with GOLDEN=write and commit the difference."
    );
}

/// Asserts that these are the lines of the section.
#[track_caller]
pub fn assert_kept(section: &str, now: impl IntoIterator<Item = String>) {
    let (before, now) = (lines_of(section), now.into_iter().collect::<Vec<_>>());
    assert!(
        before == now,
        "what is told of {section:?} has changed. If that is meant, write it into {FILE}:\n{}",
        now.join("\n")
    );
}

/// Asks for all that the section asks for, `asked -> answer` a line, and asserts that it is answered so.
pub async fn assert_answered(section: &str, mut ask: impl AsyncFnMut(&str) -> String) {
    let mut now = Vec::new();
    for line in lines_of(section) {
        let asked = line.split(" -> ").next().unwrap();
        now.push(format!("{asked} -> {}", ask(asked).await));
    }
    assert!(!now.is_empty(), "{FILE} has no section {section:?}");
    assert_kept(section, now);
}

/// Asks a server for `METHOD /path`, and tells the status.
#[cfg(feature = "shop")]
pub async fn answered(base: &str, asked: &str) -> String {
    let (method, path) = asked.split_once(' ').unwrap();
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let request = client.build().unwrap().request(method.parse().unwrap(), format!("{base}{path}"));
    request.send().await.unwrap().status().as_u16().to_string()
}

/// Asserts that the JSON has the fields of the section, as paths.
#[track_caller]
pub fn assert_fields(section: &str, json: &Value) {
    let mut paths = BTreeSet::new();
    walk(json, "", &mut paths);
    assert_kept(section, paths);
}

fn walk(json: &Value, path: &str, paths: &mut BTreeSet<String>) {
    match json {
        Value::Object(members) if !members.is_empty() => {
            let is_counted = COUNTED.iter().any(|name| path.ends_with(name));
            for (name, member) in members {
                let name = if is_counted { "*" } else { name };
                walk(member, format!("{path}.{name}").trim_start_matches('.'), paths);
            }
        }
        // An empty list and one of words or numbers are told alike.
        Value::Array(items) => {
            let path = format!("{path}[]");
            items.iter().for_each(|item| walk(item, &path, paths));
            if items.is_empty() {
                paths.insert(path);
            }
        }
        _ => drop(paths.insert(path.to_owned())),
    }
}
