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

/// Whether it names a file of tests, of the server (`tests/purchase/owners.rs`) or of another crate
/// (`crates/redisson-lock/tests/lock.rs`).
fn is_test_file(word: &str) -> bool {
    word.starts_with("tests/") || word.starts_with("crates/") && word.contains("/tests/")
}

/// Asserts that the test binary of its crate has this file: each module is declared by the one above it.
fn assert_is_compiled(file: &str) {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    let (directory, module) = path.rsplit_once('/').unwrap();
    let all = ["/main.rs", ".rs", "/mod.rs"].map(|end| format!("{directory}{end}"));
    let above = all.iter().find(|file| root().join(file).exists()).unwrap();
    let declaration = format!("mod {module};");
    let is_declared =
        read(above).lines().any(|line| line.trim_start_matches("pub ") == declaration);
    assert!(is_declared, "{above} does not have {file}");
    if !above.ends_with("/main.rs") {
        assert_is_compiled(above);
    }
}

/// Every test that `text` names, with the file that it names before.
fn named(text: &str) -> Vec<(String, String)> {
    let mut file = None;
    let mut named = Vec::new();
    for word in MarkdownPage::of(text).quoted {
        if is_test_file(&word) {
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

#[test]
fn the_figures_are_those_of_the_faults_of_today() {
    let page = page();
    assert!(page.contains(&format!("SEED={} ROUNDS={}", MEASURED.start(), MEASURED.end())));
    // In which each kind of fault comes.
    let mut rounds: BTreeMap<String, usize> = BTreeMap::new();
    for step in MEASURED.flat_map(|seed| Round::of(seed).steps) {
        *rounds.entry(step.fault.kind()).or_default() += 1;
    }
    let mut missing: BTreeSet<&str> = rounds.keys().map(String::as_str).collect();
    for row in MarkdownPage::of(&page).rows {
        if let Some(count) = rounds.get(&row[0]) {
            assert_eq!(row[2], count.to_string(), "measure anew: {row:?}");
            missing.remove(row[0].as_str());
        }
    }
    assert!(missing.is_empty(), "the page does not tell of {missing:?}");
}
