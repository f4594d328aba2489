//! What is said of the functions of the database is what they do: the steps of an order, the locks, the mutants.

use std::collections::{BTreeMap, BTreeSet};

use testkit::markdown::MarkdownPage;

use super::read;

const PAGES: [&str; 2] = ["src/orders/README.md", "src/orders/README.zh-CN.md"];

/// The functions, by name, each up to the next one.
fn functions() -> BTreeMap<String, String> {
    let file = read("migrations/0002_functions.sql");
    let functions = file.split("\ncreate function ").skip(1);
    let named = functions.map(|text| (text.split('(').next().unwrap().to_owned(), text.to_owned()));
    named.collect()
}

/// A step: its name, the state that it leaves, the one that it enters, and what it does to the stock.
type Step = (String, String, String, i32);

/// The rows of `order_transitions`.
fn steps() -> BTreeSet<Step> {
    let functions = functions();
    let rows =
        functions["order_transitions"].lines().filter_map(|line| line.trim().strip_prefix('('));
    let steps = rows.map(|row| {
        let cells = row.trim_end_matches([',', ')']).split(',').map(str::trim);
        let [step, leaves, enters, stock] = cells.collect::<Vec<_>>().try_into().unwrap();
        let state = |name: &str| {
            name.strip_prefix("order_").and_then(|name| name.strip_suffix("()")).unwrap().to_owned()
        };
        (step.trim_matches('\'').to_owned(), state(leaves), state(enters), stock.parse().unwrap())
    });
    steps.collect()
}

/// The arrows of the diagram between two states.
fn arrows(page: &str) -> BTreeSet<Step> {
    let text = read(page);
    let diagram = text.split("stateDiagram-v2\n").nth(1).unwrap().split("```").next().unwrap();
    let arrows = diagram.lines().filter(|line| !line.contains("[*]")).map(|line| {
        let (states, label) = line.trim().split_once(": ").unwrap();
        let (leaves, enters) = states.split_once(" --> ").unwrap();
        let (step, stock) = label.split_once([',', '，']).unwrap_or((label, "0"));
        let stock = stock.rsplit(' ').next().unwrap().parse().unwrap();
        (step.to_owned(), leaves.to_owned(), enters.to_owned(), stock)
    });
    arrows.collect()
}

/// What stands between backquotes in a cell.
fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_diagram_of_an_order_is_the_table_of_transitions_and_names_who_takes_each_step() {
    let steps = steps();
    assert!(steps.len() >= 9, "{steps:?}");
    // What calls `write_step`, or does the same for many orders, has the names of its steps.
    let takes = |body: &str, step: &str| {
        ["write_step(voucher", "insert into order_steps"].iter().any(|how| body.contains(how))
            && body.contains(&format!("'{step}'"))
    };
    let functions = functions();
    let by = |step: &str| -> BTreeSet<String> {
        let callers = functions.iter().filter(|(name, _)| *name != "write_step");
        callers.filter(|(_, body)| takes(body, step)).map(|(name, _)| name.clone()).collect()
    };
    let expected = steps.iter().map(|(step, ..)| (BTreeSet::from([step.clone()]), by(step)));
    let expected: BTreeMap<_, _> = expected.collect();
    for page in PAGES {
        assert_eq!(arrows(page), steps, "{page}");
        let rows = MarkdownPage::of(&read(page)).rows;
        let named = rows.iter().filter(|row| expected.contains_key(&quoted(&row[0])));
        let named: BTreeMap<_, _> = named.map(|row| (quoted(&row[0]), quoted(&row[2]))).collect();
        assert_eq!(named, expected, "{page}");
    }
}

/// What is immutable reads no row.
#[test]
fn each_function_that_reads_rows_is_in_the_table_of_locks_and_no_other() {
    let functions = functions();
    let reads = functions.iter().filter(|(_, body)| {
        !body.lines().take(4).any(|line| line.contains("language sql immutable"))
    });
    let expected: BTreeSet<_> = reads.map(|(name, _)| name.clone()).collect();
    assert!(expected.len() > 30 && expected.len() < functions.len(), "{expected:?}");
    for (page, heading) in
        PAGES.into_iter().zip(["## What each function locks", "## 每个函数锁哪些行"])
    {
        let text = read(page);
        let section = text.split(heading).nth(1).unwrap().split("\n## ").next().unwrap();
        let rows = MarkdownPage::of(section).rows;
        let named: BTreeSet<_> = rows.iter().flat_map(|row| quoted(&row[0])).collect();
        assert_eq!(named, expected, "{page}");
    }
}

/// What a mutant replaces stands once in its file, or in its function.
#[test]
fn every_mutant_finds_what_it_replaces() {
    let (functions, mut count, mut wrong) = (functions(), 0, Vec::new());
    let mut check = |place: &str, text: &str, old: &toml::Value| {
        count += 1;
        let old = old.as_str().unwrap();
        let found = text.matches(old).count();
        if found != 1 {
            wrong.push(format!("{place}: {old} stands there {found} times"));
        }
    };
    let named: toml::Table = toml::from_str(&read("tests/mutants/named.toml")).unwrap();
    for fault in named.values() {
        let function = fault["function"].as_str().unwrap();
        check(function, &functions[function], &fault["old"]);
    }
    let of_rooms: toml::Table = toml::from_str(&read("tests/mutants/rust.toml")).unwrap();
    for (file, mutants) in of_rooms.values().flat_map(|room| room.as_table().unwrap()) {
        let source = read(file);
        mutants.as_array().unwrap().iter().for_each(|mutant| check(file, &source, &mutant[0]));
    }
    assert!(count > 50, "only {count} mutants");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
