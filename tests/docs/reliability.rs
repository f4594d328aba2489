//! The page on reliability against the code: every test that it names exists, no promise is
//! missing, and its figures are of the faults that the seeds of the run say today.

use std::collections::{BTreeMap, BTreeSet};

use testkit::markdown::MarkdownPage;

use super::{read, root};
use crate::chaos::plan::Round;

/// What is promised, by name.
const PROMISES: [&str; 10] = [
    "no_oversell",
    "one_per_user",
    "no_undersell",
    "no_lasting_refusal",
    "no_lost_order",
    "no_stuck_stock",
    "no_lost_payment",
    "no_lockout",
    "no_self_deadlock",
    "no_broken_promise",
];

/// The run whose figures stand there: `make chaos SEED=1 ROUNDS=100`.
const MEASURED: std::ops::RangeInclusive<u64> = 1..=100;

fn page() -> String {
    read("docs/reliability.md")
}

/// The directory of tests in which a file lies, and its path from there: of the server
/// (`tests/purchase/owners.rs`) or of another crate (`crates/redisson-lock/tests/lock.rs`).
fn test_file(word: &str) -> Option<(&str, &str)> {
    if let Some(path) = word.strip_prefix("tests/") {
        return Some(("tests", path));
    }
    let (name, path) = word.strip_prefix("crates/")?.split_once("/tests/")?;
    let directory = &word[..word.len() - path.len() - 1];
    (!name.contains('/')).then_some((directory, path))
}

/// Asserts that the test binary of its crate has this file: each module is declared by the one above it.
fn assert_is_compiled(file: &str) {
    let (directory, path) = test_file(file).unwrap();
    let path = path.strip_suffix(".rs").unwrap_or_else(|| panic!("{file} is no Rust"));
    let mut above = format!("{directory}/main.rs");
    let mut at = directory.to_owned();
    for module in path.trim_end_matches("/mod").split('/') {
        let declaration = format!("mod {module};");
        let declares = |line: &str| line.strip_prefix("pub ").unwrap_or(line) == declaration;
        assert!(read(&above).lines().any(declares), "{above} does not have {file}");
        at = format!("{at}/{module}");
        above = format!("{at}.rs");
        if !root().join(&above).exists() {
            above = format!("{at}/mod.rs");
        }
    }
}

/// Every test that `text` names, with the file that it names before.
fn named(text: &str) -> Vec<(String, String)> {
    let mut file = None;
    let mut named = Vec::new();
    for word in MarkdownPage::of(text).quoted {
        if test_file(&word).is_some() {
            file = Some(word);
        } else if word.matches('_').count() > 3
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        {
            let file = file.clone().unwrap_or_else(|| panic!("{word} is of no file"));
            named.push((file, word));
        }
    }
    named
}

#[test]
fn every_test_that_the_page_names_exists() {
    let named = named(&page());
    assert!(named.len() > 20, "only {named:?}");
    for (file, test) in named {
        assert_is_compiled(&file);
        let text = read(&file);
        let (head, _) = text
            .split_once(&format!("fn {test}("))
            .unwrap_or_else(|| panic!("{file} has no test {test}"));
        let attribute = head.rsplit("\n\n").next().unwrap();
        assert!(attribute.contains("test"), "{file}: {test} is no test");
        assert!(!attribute.contains("#[ignore"), "{file}: {test} does not run with the others");
    }
}

#[test]
fn no_promise_is_without_a_proof() {
    let rows = MarkdownPage::of(&page()).rows;
    for promise in PROMISES {
        let row = rows.iter().find(|row| row[0] == format!("`{promise}`"));
        let row = row.unwrap_or_else(|| panic!("the page does not name {promise}"));
        assert!(!named(&row.join(" ")).is_empty(), "no test proves {promise}: {row:?}");
    }
}

/// The rounds in which each kind of fault comes.
fn rounds_by_kind() -> BTreeMap<String, usize> {
    let mut rounds = BTreeMap::new();
    for seed in MEASURED {
        for step in Round::of(seed).steps {
            *rounds.entry(step.fault.kind()).or_default() += 1;
        }
    }
    rounds
}

#[test]
fn the_figures_are_those_of_the_faults_of_today() {
    let page = page();
    assert!(page.contains(&format!("SEED={} ROUNDS={}", MEASURED.start(), MEASURED.end())));
    let rounds = rounds_by_kind();
    let mut missing: BTreeSet<&str> = rounds.keys().map(String::as_str).collect();
    for row in MarkdownPage::of(&page).rows {
        if let Some(count) = rounds.get(&row[0]) {
            assert_eq!(row[2], count.to_string(), "measure anew: {row:?}");
            missing.remove(row[0].as_str());
        }
    }
    assert!(missing.is_empty(), "the page does not tell of {missing:?}");
}
