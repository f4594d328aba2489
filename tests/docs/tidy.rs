//! The rules of the code as a test: how long files are, and what the heads of the Lua scripts promise. Which way
//! dependencies run between crates the compiler says; inside the server one test does.

use std::collections::BTreeSet;
use std::fs;

use super::{files, read, root};

/// The modules of the server in the order of their dependencies: each may use those before it.
/// `cli` joins everything.
const ORDER: [&str; 9] =
    ["telemetry", "model", "store", "worker", "purchase", "orders", "config", "http", "pages"];

const MAX_LINES: usize = 400;

/// The Rust of the server and of every crate.
fn sources() -> Vec<(String, String)> {
    let mut sources = files("src", "rs");
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // Only tests use it.
        if name == "testkit" {
            continue;
        }
        sources.extend(files(&format!("crates/{name}/src"), "rs"));
    }
    assert!(sources.len() > 200, "only {} files", sources.len());
    sources
}

/// The crate of a file.
fn house(file: &str) -> &str {
    file.split("/src/").next().filter(|_| file.starts_with("crates/")).unwrap_or("src")
}

/// Without comments, the examples in them included.
fn code(text: &str) -> String {
    let kept = |line: &str| line.split_once("//").map_or(line, |(code, _)| code).to_owned();
    text.lines().map(kept).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_modules_of_the_server_use_only_those_before_them() {
    let mut wrong = Vec::new();
    for (file, text) in files("src", "rs") {
        let part = file.split('/').nth(1).unwrap().trim_end_matches(".rs");
        let Some(at) = ORDER.iter().position(|name| *name == part) else { continue };
        let code = code(&text);
        for later in ORDER[at + 1..].iter().chain(&["cli"]) {
            if code.contains(&format!("crate::{later}::"))
                || code.contains(&format!("crate::{later};"))
            {
                wrong.push(format!("{file}: {part} must not use {later}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a reader of the documentation finds an example there, which is a test.
fn has_example(text: &str) -> bool {
    let docs = text.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
    let fences =
        docs.filter_map(|line| line.trim_start_matches(['/', '!']).trim().strip_prefix("```"));
    fences.step_by(2).any(|language| language != "text")
}

/// Nothing is linked for no tests: so a crate without any says so.
#[test]
fn no_crate_has_tests_that_its_manifest_leaves_out() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let manifest = format!("{}/Cargo.toml", house(&file).trim_start_matches("src"));
        let manifest = read(manifest.trim_start_matches('/'));
        let library = manifest.split("\n[").find(|section| section.starts_with("lib]"));
        let leaves_out = |line| library.is_some_and(|text| text.lines().any(|it| it == line));
        let is_program = file.ends_with("src/main.rs");
        if text.contains("#[cfg(test)]") && (is_program || leaves_out("test = false")) {
            wrong.push(format!("{file}: its tests"));
        }
        if has_example(&text) && leaves_out("doctest = false") {
            wrong.push(format!("{file}: its example"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_are_short_and_say_what_they_are() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let lines = text.lines().count();
        if lines > MAX_LINES {
            wrong.push(format!("{file} has {lines} lines, more than {MAX_LINES}"));
        }
        // A library begins with its README.
        if !text.starts_with("//!") && !text.starts_with("#![doc = include_str!(") {
            wrong.push(format!("{file} does not begin by saying what it is"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every `KEYS[n]` and `ARGV[n]` in `text`.
fn slots(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for word in ["KEYS[", "ARGV["] {
        for (at, _) in text.match_indices(word) {
            let number = text[at + word.len()..].split(']').next().unwrap_or_default();
            found.insert(format!("{word}{number}]"));
        }
    }
    found
}

/// What is wrong between a script's head and its body.
fn script_faults(file: &str, text: &str) -> Vec<String> {
    let length = text.lines().take_while(|line| line.starts_with("-- ")).count();
    let head: Vec<&str> = text.lines().take(length).collect();
    let body: Vec<&str> = text.lines().skip(length).collect();
    let mut wrong = Vec::new();
    for (line, begins) in [(head.first(), "-- Purpose: "), (head.last(), "-- RETURNS: ")] {
        if !line.is_some_and(|line| line.starts_with(begins)) {
            wrong.push(format!("{file}: the head does not begin or end with `{begins}`"));
        }
    }
    let described: BTreeSet<String> = head
        .iter()
        .filter_map(|line| line.strip_prefix("-- ")?.split_once(": "))
        .map(|(what, _)| what.to_owned())
        .filter(|what| what.starts_with("KEYS[") || what.starts_with("ARGV["))
        .collect();
    let used = slots(&body.join("\n"));
    for slot in used.symmetric_difference(&described) {
        let what =
            if used.contains(slot) { "used and not described" } else { "described and not used" };
        wrong.push(format!("{file}: {slot} is {what}"));
    }
    let hidden = body.iter().filter(|line| hides_a_key(line));
    wrong.extend(hidden.map(|line| format!("{file}: a proxy finds no key in {line}")));
    wrong
}

/// Whether a line calls Redis with a key that is not written as `KEYS[number]`: proxies of clusters look for that.
fn hides_a_key(line: &str) -> bool {
    let calls = line.split("redis.call(").skip(1).chain(line.split("redis.pcall(").skip(1));
    let hides = |call: &str| {
        let Some((command, key)) = call.strip_prefix('\'').and_then(|call| call.split_once('\''))
        else {
            return true;
        };
        let has_key = !["object", "publish", "spublish", "time"].contains(&command);
        let number = key.strip_prefix(", KEYS[").and_then(|key| key.split(']').next());
        has_key && number.is_none_or(|number| number.parse::<u8>().is_err())
    };
    line.contains("] or KEYS[") || calls.into_iter().any(hides)
}

#[test]
fn the_head_of_a_script_tells_the_truth() {
    let scripts = files("lua", "lua");
    assert!(!scripts.is_empty());
    let wrong: Vec<String> =
        scripts.iter().flat_map(|(file, text)| script_faults(file, text)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whoever awaits something of the lock is told what becomes of it when the future is dropped.
#[test]
fn the_lock_says_what_happens_to_what_is_cancelled() {
    let mut wrong = Vec::new();
    for (file, text) in files("crates/redisson-lock/src", "rs") {
        if file.contains("/cli/") {
            continue;
        }
        let mut comment = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(words) = line.strip_prefix("///") {
                comment.push_str(words);
                continue;
            }
            let is_async = line.starts_with("pub async fn")
                || (line.starts_with("pub fn") && line.contains("impl Future"));
            if is_async && !comment.contains("Cancellation-safe: ") {
                wrong.push(format!("{file}: what is cancelled? {line}"));
            }
            if !line.starts_with("#[") {
                comment.clear();
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_script_is_part_of_a_program() {
    let code: String = sources().iter().map(|(_, text)| code(text)).collect();
    let mut unused = files("lua", "lua");
    unused.retain(|(file, _)| {
        let name = file.rsplit('/').next().unwrap();
        let by_macro =
            |line: &str| line.contains("script!(") && line.contains(&format!("\"{name}\""));
        !code.contains(&format!("/{name}\"")) && !code.lines().any(by_macro)
    });
    assert!(unused.is_empty(), "no source embeds {unused:?}");
}

/// A statement on a pool itself has a name, and behind a connection pooler that is one of other clients, too
/// (`src/store/session.rs`).
#[test]
fn statements_of_the_server_run_on_sessions() {
    let calls = [".execute(", ".fetch_one(", ".fetch_all(", ".fetch_optional("];
    let mut wrong = Vec::new();
    for (file, text) in files("src", "rs") {
        for (number, line) in (1..).zip(text.lines()) {
            let arguments = calls.iter().filter_map(|call| Some(line.split_once(call)?.1));
            if arguments.into_iter().any(|argument| argument.contains("pool")) {
                wrong.push(format!("{file}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
