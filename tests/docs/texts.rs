//! The texts of the pages: each in both languages, every hole with its value, none that nobody says. A text that the
//! code says and no file has would end the program that says it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use seckill::http::problem::Code;
use seckill::http::{ROUTES, Route};
use seckill::purchase::audit::Promise;
use strum::VariantNames;

use super::{files, read, root, words};

/// By their keys, in English and in Chinese.
type TextsOfFile = BTreeMap<String, [String; 2]>;

/// What one language has no word for.
const EMPTY: [&str; 1] = ["left_before"];

/// In English an order is called by its name, in Chinese by its number; a reason in English is for English readers.
const OTHER_HOLES: [&str; 4] = ["failure_crowd", "failure_missing", "failure_rung", "order_is"];

/// What a script finds beside the texts.
const DATA: [&str; 1] = ["rungs"];

fn sources(extension: &str) -> Vec<(String, String)> {
    let crates = ["course", "ladder", "lab", "play"];
    let directories =
        crates.iter().flat_map(|it| ["src", "web"].map(|part| format!("crates/{it}/{part}")));
    let directories = ["src", "web"].map(str::to_owned).into_iter().chain(directories);
    directories
        .filter(|it| root().join(it).exists())
        .flat_map(|directory| files(&directory, extension))
        .filter(|(file, _)| !file.contains("/web/tests/") && !file.starts_with("web/tests/"))
        .collect()
}

fn directory(file: &str) -> &str {
    file.rsplit_once('/').unwrap().0
}

/// The files of texts, by the directory of the code that says them.
fn texts() -> BTreeMap<String, Vec<(String, TextsOfFile)>> {
    let mut found: BTreeMap<String, Vec<(String, TextsOfFile)>> = BTreeMap::new();
    for (file, code) in sources("rs") {
        // What two pages say stands in a file of its own, which each of them adds to its own texts.
        let made = code.split("TextFile::new(").skip(1);
        let made =
            made.flat_map(|rest| rest.split(';').next().unwrap().split("include_str!(\"").skip(1));
        for rest in made {
            let name = rest.split('"').next().unwrap();
            let path = format!("{}/{name}", directory(&file));
            let beside = found.entry(directory(&file).to_owned()).or_default();
            if beside.iter().all(|(known, _)| *known != path) {
                let texts =
                    toml::from_str(&read(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
                beside.push((path, texts));
            }
        }
    }
    found
}

/// The names in braces.
fn holes(text: &str) -> BTreeSet<&str> {
    text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).collect()
}

#[test]
fn every_text_is_in_both_languages_with_the_same_holes() {
    let all = texts();
    let mut count = 0;
    for (file, texts) in all.values().flatten() {
        for (key, [english, chinese]) in texts {
            count += 1;
            let is_said = !english.is_empty() && !chinese.is_empty();
            assert!(is_said || EMPTY.contains(&key.as_str()), "{file}: {key}");
            let same = holes(english) == holes(chinese) || OTHER_HOLES.contains(&key.as_str());
            assert!(same, "{file}: {key}");
        }
    }
    assert!(count > 550, "only {count} texts");
}

/// `SoldOut` of `sold_out`.
fn variant(key: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    key.split('_').filter(|word| !word.is_empty()).map(capital).collect()
}

#[test]
fn every_text_is_said_and_every_hole_has_its_value() {
    let code: String = [sources("rs"), sources("js")].concat().into_iter().map(|it| it.1).collect();
    let named: HashSet<&str> = words(&code).collect();
    // A script makes a key, of which it writes the beginning or the end.
    let is_made = |key: &str| {
        key.match_indices('_').any(|(at, _)| {
            let (beginning, end) = key.split_at(at);
            let ends = [format!("`{beginning}_${{"), format!("}}{end}`")];
            ends.iter().any(|end| code.contains(end))
        })
    };
    let mut wrong = Vec::new();
    for (file, texts) in texts().values().flatten() {
        for (key, [english, chinese]) in texts {
            if !named.contains(key.as_str()) && !named.contains(&*variant(key)) && !is_made(key) {
                wrong.push(format!("{file}: nobody says {key}"));
            }
            let unnamed = holes(english).into_iter().chain(holes(chinese));
            let unnamed = unnamed.filter(|hole| !named.contains(hole));
            wrong.extend(unnamed.map(|hole| format!("{file}: {key}: nothing fills in {hole}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// How the code begins to say a text: `texts["title"]` in Rust, where the file is beside it, `texts.title` in a script.
const SAYING: [&str; 4] = ["texts[\"", "frame[\"", "words[\"", "language)[\""];

#[test]
fn every_text_that_the_code_says_is_in_a_file() {
    let all = texts();
    let (mut count, mut wrong) = (0, Vec::new());
    let mut check = |file: &str, said: &str, known: &BTreeSet<&str>| {
        count += 1;
        if !known.contains(said) {
            wrong.push(format!("{file}: {said}"));
        }
    };
    for (file, code) in sources("rs") {
        let beside = all.get(directory(&file)).into_iter().flatten();
        let known: BTreeSet<&str> =
            beside.flat_map(|(_, texts)| texts.keys().map(String::as_str)).collect();
        for rest in SAYING.iter().flat_map(|saying| code.split(saying).skip(1)) {
            check(&file, rest.split('"').next().unwrap(), &known);
        }
    }
    let files = all.values().flatten();
    let known = files.flat_map(|(_, texts)| texts.keys().map(String::as_str)).chain(DATA);
    let known: BTreeSet<&str> = known.collect();
    for (file, code) in sources("js") {
        for rest in code.split("texts.").skip(1) {
            check(&file, words(rest).next().unwrap(), &known);
        }
    }
    assert!(count > 300, "only {count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The server names them, and the board says what they are called.
#[test]
fn the_board_has_a_text_for_each_promise_and_for_each_outcome_of_a_purchase() {
    let texts: TextsOfFile = toml::from_str(&read("src/pages/board.toml")).unwrap();
    let named = |prefix: &str| -> BTreeSet<&str> {
        texts.keys().filter_map(|key| key.strip_prefix(prefix)).collect()
    };
    assert_eq!(named("promise_"), Promise::VARIANTS.iter().copied().collect());
    // Its route refuses these before anybody tries to buy: they are no outcomes.
    let buys = |row: &&Route| row.method == "POST" && row.path == "/api/vouchers/{id}/orders";
    let row = ROUTES.iter().find(buys).unwrap();
    let before = [Code::InvalidRequest, Code::Unauthenticated, Code::Forbidden];
    let outcomes = row.refusals().filter(|code| !before.contains(code));
    let outcomes = outcomes.map(|code| code.as_str());
    assert_eq!(named("code_"), outcomes.chain(["ordered"]).collect());
}
