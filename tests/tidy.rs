//! The architecture as a test: which way dependencies run, how long files are, what they
//! are called, and what the heads of the Lua scripts promise.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What each room of `src` may use of the others. `cli` (and with it `main`) joins everything.
const MAY_USE: [(&str, &[&str]); 15] = [
    ("model", &[]),
    ("telemetry", &[]),
    ("batch", &[]),
    ("store", &["model", "batch", "telemetry"]),
    // A library in itself: Redis, the errors and the time-outs of stores, the names of its metrics.
    (
        "lock",
        &[
            "batch",
            "store::Redis",
            "store::ScriptCall",
            "store::StoreError",
            "store::Service",
            "store::Shard",
            "store::Subscriber",
            "store::SubscriberSink",
            "store::SubscriberStream",
            "store::ScanCursor",
            "store::SCAN_STEP",
            "store::timeout",
            "telemetry::name",
        ],
    ),
    ("seckill", &["model", "batch", "store", "lock", "telemetry"]),
    ("http", &["model", "store", "lock", "seckill", "telemetry"]),
    // Pages for people, beside the API that their scripts use. The lab's page plays schedules.
    ("pages", &["http", "ladder", "lab"]),
    ("ladder", &["model", "store", "lock", "seckill"]),
    // How connections are accepted is not what the lab teaches.
    ("lab", &["model", "store", "lock", "seckill", "ladder", "embedded", "load", "http::server"]),
    ("embedded", &[]),
    ("load", &["model"]),
    // A tool: it measures what the others do.
    ("ceiling", &["model", "store", "lock", "seckill", "embedded", "load"]),
    // A phone, a URL, limits, the name of a strategy and a burst are values of the configuration.
    (
        "config",
        &[
            "model",
            "store::RedisUrl",
            "store::LoginLimits",
            "seckill::Strategy",
            "seckill::DEFAULT_BURST",
        ],
    ),
    (
        "cli",
        &[
            "model",
            "store",
            "lock",
            "seckill",
            "http",
            "pages",
            "ladder",
            "lab",
            "embedded",
            "load",
            "ceiling",
            "telemetry",
            "config",
        ],
    ),
];

const MAX_LINES: usize = 400;

/// Files that are longer, each with the reason.
const LONGER: [(&str, &str); 0] = [];

const NOT_A_NAME: [&str; 5] = ["utils", "common", "helpers", "manager", "impl"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `directory` with this extension, as (path from the root, text).
fn files(directory: &str, extension: &str) -> Vec<(String, String)> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(directory), &mut found);
    found.retain(|path| path.extension().is_some_and(|found| found == extension));
    found.sort();
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    found.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// Without comments, the examples in them included.
fn code(text: &str) -> String {
    let kept = |line: &str| line.split_once("//").map_or(line, |(code, _)| code).to_owned();
    text.lines().map(kept).collect::<Vec<_>>().join("\n")
}

/// The paths that one `use` tree names, its groups written out: `a::{b, c::d}` is `a::b`
/// and `a::c::d`. Also an inline path, which ends where it ends.
fn paths(tree: &str) -> Vec<String> {
    let tree = tree.trim_start();
    let end = tree.find(|c: char| !(c.is_alphanumeric() || "_:".contains(c))).unwrap_or(tree.len());
    let (head, rest) = tree.split_at(end);
    if !(head.is_empty() || head.ends_with("::")) || !rest.starts_with('{') {
        return vec![head.to_owned()];
    }
    let (mut depth, mut start, mut found) = (0, 1, Vec::new());
    for (at, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' | ',' if depth == 1 => {
                if !rest[start..at].trim().is_empty() {
                    found
                        .extend(paths(&rest[start..at]).iter().map(|tail| format!("{head}{tail}")));
                }
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    found
}

/// What `text` names of other parts: `store::Redis` for `crate::store::Redis`.
fn uses(text: &str) -> BTreeSet<String> {
    let code = code(text);
    let begins = |at: &usize| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    code.match_indices("crate::")
        .filter(|(at, _)| begins(at))
        .flat_map(|(at, word)| paths(&code[at + word.len()..]))
        .collect()
}

/// The room of `src` that a file belongs to: `store` for `src/store/redis.rs`.
fn part(file: &str) -> &str {
    let below = file.strip_prefix("src/").unwrap();
    below.split_once('/').map_or(below.trim_end_matches(".rs"), |(part, _)| part)
}

/// The arrows of one file that run back.
fn backward_arrows(file: &str, text: &str) -> Vec<String> {
    let part = part(file);
    let mut wrong = Vec::new();
    // The crate's root declares the parts, and the program's runs the command line.
    if part == "lib" || part == "main" {
        return wrong;
    }
    let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == part) else {
        return vec![format!("{file}: {part} has no place in the order of dependencies")];
    };
    for used in uses(text) {
        let within = |name: &str| used == name || used.starts_with(&format!("{name}::"));
        if !within(part) && !allowed.iter().any(|name| within(name)) {
            wrong.push(format!("{file}: {part} must not use {used}"));
        }
    }
    if code(text).contains("super::super::") {
        wrong.push(format!("{file}: write crate:: for super::super::"));
    }
    wrong
}

#[test]
fn dependencies_run_one_way() {
    let files = files("src", "rs");
    assert!(files.len() > 40, "only {} files", files.len());
    let wrong: Vec<String> =
        files.iter().flat_map(|(file, text)| backward_arrows(file, text)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_arrow_that_runs_back_is_found_however_it_is_written() {
    for (file, text) in [
        ("src/model/ids.rs", "use crate::store::Redis;"),
        ("src/store/redis.rs", "pub(crate) use crate::lock::LockClient as Client;"),
        ("src/lock/guard.rs", "use crate::store::Database;"),
        ("src/lock/guard.rs", "use crate::model::UserId;"),
        ("src/lock/guard.rs", "fn f() { let x = crate::seckill::Purchases::start(); }"),
        ("src/http/orders.rs", "use crate::{model::Order, ladder};"),
        ("src/http/orders.rs", "use crate::{\n    model::{Order, OrderId},\n    lab::World,\n};"),
        ("src/ladder/r01.rs", "use crate::http;"),
        ("src/embedded/plan.rs", "use crate::seckill::Strategy;"),
        ("src/load/crowd.rs", "use crate::ladder::Rung;"),
        ("src/load/crowd.rs", "use crate::http::App;"),
        ("src/http/state.rs", "use crate::config::Config;"),
        ("src/seckill/service.rs", "fn f() -> crate::cli::Cli { loop {} }"),
        ("src/config.rs", "use crate::seckill::Purchases;"),
        ("src/config.rs", "use crate::store::{Redis, RedisUrl};"),
        ("src/config.rs", "use crate::seckill::{Purchases, Strategy};"),
        ("src/seckill/service.rs", "use super::super::http::App;"),
        ("src/misc/new.rs", ""),
    ] {
        assert_eq!(backward_arrows(file, text).len(), 1, "{file}: {text}");
    }
    for (file, text) in [
        ("src/http/state.rs", "use crate::{lock::LockClient, seckill::{Purchases, audit}};"),
        ("src/lab/world.rs", "use crate::ladder::Rung; use crate::lab::faults;"),
        ("src/config.rs", "use crate::seckill::Strategy;"),
        ("src/load/crowd.rs", "use crate::model::UserId; // as crate::http does"),
        ("src/model/ids.rs", "/// See [`crate::store`].\nmacro_rules! id { () => { mycrate::x } }"),
        ("src/cli/serve.rs", "use crate::{config::{self, StoreArgs}, http::App};"),
        ("src/main.rs", "fn main() { seckill::cli::main() }"),
    ] {
        assert_eq!(backward_arrows(file, text), [""; 0], "{file}: {text}");
    }
}

/// Without the tests at the end of a file.
fn production(text: &str) -> String {
    code(text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default())
}

/// The folder of a file's children: `src/lock` for `src/lock/mod.rs`, `src/lock/guard` for
/// `src/lock/guard.rs`.
fn module(file: &str) -> &str {
    file.trim_end_matches(".rs").trim_end_matches("/mod")
}

/// The files of one room, by module, and what each re-exports: (name, path of what it is).
struct Room<'a> {
    files: BTreeMap<&'a str, &'a str>,
    texts: BTreeMap<&'a str, String>,
}

impl<'a> Room<'a> {
    fn new(files: &'a [(String, String)]) -> Self {
        let by_module = |(file, _): &'a (String, String)| (module(file), file.as_str());
        let text = |(file, text): &'a (String, String)| (module(file), production(text));
        Self {
            files: files.iter().map(by_module).collect(),
            texts: files.iter().map(text).collect(),
        }
    }

    /// The file that defines what `path` names, seen from `base`: it goes down the modules, and on
    /// where one re-exports the name from another.
    fn defined_in(&self, base: &str, path: &str, depth: usize) -> Option<&'a str> {
        let (mut at, mut rest) = (base.to_owned(), path);
        loop {
            let (head, tail) = rest.split_once("::").unwrap_or((rest, ""));
            match head {
                "super" => at = at.rsplit_once('/')?.0.to_owned(),
                "self" => {}
                name if self.files.contains_key(format!("{at}/{name}").as_str()) => {
                    at = format!("{at}/{name}");
                }
                name => {
                    if depth > 0
                        && let Some(text) = self.texts.get(at.as_str())
                        && let Some(from) = reexport(text, name)
                    {
                        return self.defined_in(&at, &from, depth - 1);
                    }
                    break;
                }
            }
            if tail.is_empty() {
                break;
            }
            rest = tail;
        }
        self.files.get(at.as_str()).copied()
    }

    /// The other files of the room that each file names.
    fn arrows(&self) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
        let mut arrows = BTreeMap::new();
        for (module, file) in &self.files {
            let room = module.split('/').take(2).collect::<Vec<_>>().join("/");
            let room_name = room.trim_start_matches("src/");
            let mut named = BTreeSet::new();
            // A registry lists its children; that is no arrow.
            let text: String = self.texts[module]
                .split_inclusive(';')
                .filter(|statement| !statement.trim_start().starts_with("pub use "))
                .collect();
            for (word, base) in [("super::", *module), ("self::", *module), ("crate::", &room)] {
                for (at, _) in text.match_indices(word) {
                    if text[..at].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c)) {
                        continue;
                    }
                    for path in paths(&text[at..]) {
                        let of_room = path.strip_prefix(&format!("crate::{room_name}::"));
                        match of_room {
                            Some(path) => named.extend(self.defined_in(base, path, 4)),
                            None if path.starts_with("crate::") => {}
                            None => named.extend(self.defined_in(base, &path, 4)),
                        }
                    }
                }
            }
            named.remove(file);
            arrows.insert(*file, named);
        }
        arrows
    }
}

/// The path from which `text` re-exports `name`.
fn reexport(text: &str, name: &str) -> Option<String> {
    let mut found = text.match_indices("use ").flat_map(|(at, word)| {
        let public = text[..at].trim_end().ends_with(')') || text[..at].trim_end().ends_with("pub");
        if public { paths(&text[at + word.len()..]) } else { Vec::new() }
    });
    found.find(|path| path.rsplit("::").next() == Some(name) && path.contains("::"))
}

/// Files that name each other, directly or through others.
fn circles(files: &[(String, String)]) -> Vec<String> {
    let arrows = Room::new(files).arrows();
    let reach = |start: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(file) = open.pop() {
            for next in arrows.get(file).into_iter().flatten() {
                if seen.insert(*next) {
                    open.push(next);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|file| (*file, reach(file))).collect();
    let mut found = BTreeSet::new();
    for (file, seen) in &reached {
        let circle: BTreeSet<&str> =
            seen.iter().filter(|other| reached[**other].contains(file)).copied().collect();
        if !circle.is_empty() {
            found.insert(circle.into_iter().collect::<Vec<_>>().join(", "));
        }
    }
    found.into_iter().collect()
}

#[test]
fn the_files_of_a_room_form_no_circle() {
    let mut rooms: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (file, text) in files("src", "rs") {
        rooms.entry(part(&file).to_owned()).or_default().push((file, text));
    }
    let wrong: Vec<String> = rooms.values().flat_map(|files| circles(files)).collect();
    assert!(wrong.is_empty(), "{} circles:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_circle_is_found_however_it_is_closed() {
    let room = |files: &[(&str, &str)]| -> Vec<(String, String)> {
        files.iter().map(|(file, text)| (format!("src/x/{file}.rs"), (*text).to_owned())).collect()
    };
    for files in [
        &[("a", "use super::b::B;"), ("b", "fn f() { super::a::g(); }")][..],
        &[("a", "use crate::x::b;"), ("b", "use super::c::{C, D};"), ("c", "use super::a::A;")],
        &[
            ("mod", "pub use a::A;\npub use b::{B, C};"),
            ("a", "use super::C;"),
            ("b", "use super::{A};"),
        ],
        &[
            ("d/mod", "pub(super) use e::E;"),
            ("d/e", "use crate::x::f;"),
            ("f", "use super::d::E;"),
        ],
    ] {
        let found = circles(&room(files));
        assert_eq!(found.len(), 1, "{files:?}: {found:?}");
    }
    for files in [
        &[("mod", "mod a;\nmod b;\npub use a::A;"), ("a", "use super::b::B;"), ("b", "")][..],
        &[("a", "use super::b::B;"), ("b", "// use super::a::A;\n"), ("c", "use super::{a, b};")],
        &[
            ("a", "use super::b;"),
            ("b", "fn f() {}\n#[cfg(test)]\nmod tests { use super::super::a::A; }"),
        ],
        &[("a", "use super::b;"), ("b", "use crate::y::a::A;")],
    ] {
        assert_eq!(circles(&room(files)), [""; 0], "{files:?}");
    }
}

/// Words that no reader can search for: a type, a function or a file has the field's own term.
const PRIVATE_WORDS: [&str; 13] = [
    "kennel", "dog", "desk", "lane", "stall", "bench", "market", "gate", "shot", "shop", "visit",
    "cast", "stage",
];

/// The words of an identifier: `LockGroup` and `lock_group` are both `lock`, `group`.
fn words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in identifier.chars() {
        if c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        if c != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[test]
fn names_are_words_that_a_reader_can_search_for() {
    let mut wrong = Vec::new();
    for (file, text) in files("src", "rs") {
        let text = code(&text);
        let named = ["struct ", "enum ", "trait ", "fn ", "mod ", "type ", "const "];
        let names = named.iter().flat_map(|word| text.split(word).skip(1));
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let names = names.map(|rest| rest.split(|c| !is_part(c)).next().unwrap_or_default());
        for name in names.chain(file.trim_end_matches(".rs").rsplit('/').next()) {
            if words(name).iter().any(|word| PRIVATE_WORDS.contains(&word.as_str())) {
                wrong.push(format!("{file}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The types that `text` declares. An associated type has the name that its trait gives it.
fn types(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let unindented = !line.starts_with(' ');
        let line = line.trim_start();
        let line =
            line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(super) ")).unwrap_or(line);
        let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
        let rest = ["struct ", "enum ", "trait "].iter().find_map(|word| line.strip_prefix(word));
        let rest = rest.or_else(|| line.strip_prefix("type ").filter(|_| unindented))?;
        // In a macro the name is a variable.
        rest.split(|c: char| !c.is_alphanumeric()).next().filter(|name| !name.is_empty())
    })
}

#[test]
fn no_two_types_have_one_name() {
    let mut declared: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in files("src", "rs") {
        for name in types(&code(&text)) {
            declared.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    assert!(declared.len() > 200, "only {} types", declared.len());
    declared.retain(|_, files| files.len() > 1);
    assert!(declared.is_empty(), "{declared:#?}");
}

/// How a sentence begins that leaves its reader to ask "who?".
const UNATTACHED: [&str; 5] = ["Who ", "Whoever ", "Whose ", "Whom ", "Whatever "];
/// Words for somebody who was not named.
const UNNAMED: [&str; 3] = ["he", "him", "his"];

#[test]
fn sentences_have_a_named_subject() {
    let mut wrong = Vec::new();
    for (file, text) in files("src", "rs") {
        for (number, line) in (1..).zip(text.lines()) {
            let Some((_, comment)) = line.split_once("//") else { continue };
            let comment = comment.trim_start_matches(['/', '!']).trim_start();
            let begins = comment
                .split(". ")
                .any(|sentence| UNATTACHED.iter().any(|word| sentence.starts_with(word)));
            let mut words = comment.split(|c: char| !c.is_alphanumeric());
            if begins || words.any(|word| UNNAMED.contains(&word)) {
                wrong.push(format!("{file}:{number}: {comment}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn files_are_short_and_say_what_they_are() {
    let mut wrong = Vec::new();
    for (file, text) in files("src", "rs") {
        let (lines, listed) = (text.lines().count(), LONGER.iter().any(|(name, _)| *name == file));
        if lines > MAX_LINES && !listed {
            wrong.push(format!("{file} has {lines} lines, more than {MAX_LINES}"));
        }
        if lines <= MAX_LINES && listed {
            wrong.push(format!("{file} is not longer than {MAX_LINES} lines any more"));
        }
        let name = file.trim_end_matches(".rs");
        if name.split('/').any(|part| NOT_A_NAME.contains(&part)) {
            wrong.push(format!("{file}: the name says nothing"));
        }
        if !text.starts_with("//!") {
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
    wrong
}

#[test]
fn the_head_of_a_script_tells_the_truth() {
    let scripts = files("lua", "lua");
    assert!(!scripts.is_empty());
    let wrong: Vec<String> =
        scripts.iter().flat_map(|(file, text)| script_faults(file, text)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_head_that_does_not_tell_the_truth_is_found() {
    let good =
        "-- Purpose: p\n-- KEYS[1]: k\n-- ARGV[1]: a\n-- RETURNS: r\nreturn KEYS[1] .. ARGV[1]";
    assert_eq!(script_faults("x.lua", good), [""; 0]);
    for (from, to) in [
        ("ARGV[1]: a", "ARGV[2]: a"),
        ("-- KEYS[1]: k\n", ""),
        ("return KEYS[1]", "return 'x'"),
        ("return KEYS[1]", "return KEYS[2] .. KEYS[1]"),
        ("Purpose", "About"),
        ("RETURNS: r", "r"),
    ] {
        assert!(!script_faults("x.lua", &good.replace(from, to)).is_empty(), "{from} -> {to}");
    }
}

/// Another service can use it: it speaks of nothing that only this program has, and whoever awaits
/// something is told what becomes of it when the future is dropped.
#[test]
fn the_lock_is_a_library_in_itself() {
    let mut wrong = Vec::new();
    for (file, text) in files("src/lock", "rs") {
        for word in ["sqlx", "axum", "voucher", "Postgres"] {
            if code(&text).contains(word) {
                wrong.push(format!("{file} has the word {word}"));
            }
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
fn every_script_is_part_of_the_program() {
    let sources: Vec<String> = files("src", "rs").iter().map(|(_, text)| code(text)).collect();
    let mut unused = Vec::new();
    for (file, _) in files("lua", "lua") {
        let (directory, name) = file.rsplit_once('/').unwrap();
        let embedded = sources.iter().any(|source| {
            let whole = source.contains("include_str!") && source.contains(&format!("/{file}\""));
            // A macro that puts the directory before the name.
            let by_macro = source.contains(&format!("/{directory}/\""))
                && source
                    .lines()
                    .any(|line| line.contains("script!(") && line.contains(&format!("\"{name}\"")));
            whole || by_macro
        });
        if !embedded {
            unused.push(file);
        }
    }
    assert!(unused.is_empty(), "no source embeds {unused:?}");
}
