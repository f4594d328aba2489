//! What the course names in its prose must be there: a function that is gone is no mechanism.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::course::page::{Page, read, repository};
use testkit::markdown::MarkdownPage;

/// Names of other programs, and a column of an example.
const FOREIGN: [&str; 11] = [
    "innodb_deadlock_detect",
    "innodb_lock_wait_timeout",
    "innodb_rollback_on_timeout",
    "innodb_snapshot_isolation",
    "last_insert_id",
    "non_idempotent",
    "pg_try_advisory_xact_lock",
    "proxy_next_upstream",
    "replicate_commands",
    "sale_id",
    "table_tuple_lock",
];

/// The words of a text that a program could name something.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_mark = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    text.split(is_mark).filter(|word| !word.is_empty())
}

/// `snake_case`: what nobody writes by chance.
fn is_snake_case(word: &str) -> bool {
    let inside = word.trim_matches('_');
    inside.contains('_')
        && word.starts_with(|first: char| first.is_ascii_lowercase())
        && !word.contains(|letter: char| letter.is_ascii_uppercase())
}

/// This file knows names of other programs, which proves nothing.
fn is_source(path: &Path) -> bool {
    let kind = path.extension().and_then(|kind| kind.to_str());
    matches!(kind, Some("rs" | "lua" | "sql" | "toml"))
        && !path.ends_with(file!().rsplit('/').next().unwrap())
}

/// Every name in a source, or in those below a directory.
fn collect_names(path: &Path, known: &mut BTreeSet<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            collect_names(&entry.unwrap().path(), known);
        }
    } else if is_source(path) {
        known.extend(names(&fs::read_to_string(path).unwrap()).map(str::to_owned));
    }
}

#[test]
fn every_name_in_the_prose_of_the_course_is_in_the_sources() {
    let mut known = BTreeSet::new();
    for directory in ["src", "crates", "migrations", "tests"] {
        collect_names(&repository().join(directory), &mut known);
    }
    let (mut count, mut gone) = (0, Vec::new());
    for file in Page::all().iter().map(Page::file) {
        let quoted = MarkdownPage::of(&read(&file)).quoted.join("\n");
        for name in names(&quoted).filter(|word| is_snake_case(word)) {
            count += 1;
            if !known.contains(name) && !FOREIGN.contains(&name) {
                gone.push(format!("{file}: {name}"));
            }
        }
    }
    assert!(count > 500, "only {count} names: the pages are not where they were");
    assert!(gone.is_empty(), "no source has these names:\n{}", gone.join("\n"));
}

#[test]
fn a_name_is_told_from_ordinary_words() {
    let of = |span| names(span).filter(|word| is_snake_case(word)).collect::<Vec<_>>();
    assert_eq!(of("place_orders($1, fillfactor)"), ["place_orders"]);
    assert!(of("Seckill_Vouchers stock _").is_empty());
}
