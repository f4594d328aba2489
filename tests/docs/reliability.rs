//! The page on reliability against the code: every test that it names exists, no promise is
//! missing, and its figures are of the faults that the seeds of the run say today.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

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

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

fn page() -> String {
    read("docs/reliability.md")
}

/// What stands between backticks, in the order of the page.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
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
        if !Path::new(env!("CARGO_MANIFEST_DIR")).join(&above).exists() {
            above = format!("{at}/mod.rs");
        }
    }
}

/// Every test that `text` names, with the file that it names before.
fn named(text: &str) -> Vec<(&str, &str)> {
    let mut file = None;
    let mut named = Vec::new();
    for word in quoted(text) {
        if test_file(word).is_some() {
            file = Some(word);
        } else if word.matches('_').count() > 3
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        {
            named.push((file.unwrap_or_else(|| panic!("{word} is of no file")), word));
        }
    }
    named
}

#[test]
fn every_test_that_the_page_names_exists() {
    let page = page();
    let named = named(&page);
    assert!(named.len() > 20, "only {named:?}");
    for (file, test) in named {
        assert_is_compiled(file);
        let text = read(file);
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
    let page = page();
    for promise in PROMISES {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{promise}` |")));
        let row = row.unwrap_or_else(|| panic!("the page does not name {promise}"));
        assert!(!named(row).is_empty(), "no test proves {promise}: {row}");
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
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let Some(count) = rounds.get(cells[1]) {
            assert_eq!(cells[3], count.to_string(), "measure anew: {line}");
            missing.remove(cells[1]);
        }
    }
    assert!(missing.is_empty(), "the page does not tell of {missing:?}");
}

#[test]
fn a_test_is_read_with_the_file_that_stands_before_it() {
    let text = "`no_lost_order` `tests/a.rs` `one_two_three_four_five`, `a_b_c_d_e`; `tests/b.rs` `x`; \
                `crates/lock/tests/c/d.rs` `f_g_h_i_j`";
    let expected = [
        ("tests/a.rs", "one_two_three_four_five"),
        ("tests/a.rs", "a_b_c_d_e"),
        ("crates/lock/tests/c/d.rs", "f_g_h_i_j"),
    ];
    assert_eq!(named(text), expected);
    assert_eq!(test_file("crates/lock/tests/c/d.rs"), Some(("crates/lock/tests", "c/d.rs")));
    for other in ["crates/a/src/tests.rs", "crates/a/b/tests/c.rs", "src/tests/a.rs", "no_lockout"]
    {
        assert_eq!(test_file(other), None);
    }
}
