//! The course in words, in both languages, against the ladder itself: what it prints is what the
//! lab prints today, what it quotes is in the file it names, what it tabulates is the registry.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;

use faults::ZooKeeperNode;
use ladder::{Invariant, LockKind, RUNGS, Rung, Scenario, find};
use seckill_lab::{Cell, replay, scenarios};

use crate::lab_replays::lab;

/// The two that are twins.
const COURSE: [&str; 2] = ["docs/ladder.md", "docs/ladder.zh-CN.md"];

/// Where timelines and quotations stand.
const PAGES: [&str; 4] = ["docs/ladder.md", "docs/ladder.zh-CN.md", "README.md", "README.zh-CN.md"];

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap()
}

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    /// The words after the fence.
    info: Vec<String>,
    lines: Vec<String>,
    /// Where it begins, for whoever has to mend it.
    place: String,
}

impl Block {
    /// What it says it is: `["rust", "r01_naive"]`.
    fn info(&self) -> Vec<&str> {
        self.info.iter().map(String::as_str).collect()
    }

    fn text(&self) -> String {
        self.lines.join("\n")
    }
}

fn blocks(file: &str, text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(text.lines()) {
        match line.strip_prefix("```") {
            Some(info) if !open => {
                let info = info.split_whitespace().map(str::to_owned).collect();
                let place = format!("{file}:{number}");
                found.push(Block { info, lines: Vec::new(), place });
                open = true;
            }
            Some(_) => open = false,
            None if open => found.last_mut().unwrap().lines.push(line.to_owned()),
            None => {}
        }
    }
    assert!(!open, "{file}: a block does not end");
    found
}

fn blocks_of(file: &str) -> Vec<Block> {
    blocks(file, &read(file))
}

/// The rung and the scenario of a timeline.
fn played(block: &Block) -> Option<(&'static Rung, Scenario)> {
    let ["text", rung, scenario] = block.info()[..] else { return None };
    let rung = find(rung).unwrap_or_else(|error| panic!("{}: {error}", block.place));
    let scenario = scenario.parse();
    Some((rung, scenario.unwrap_or_else(|error| panic!("{}: {error}", block.place))))
}

/// What the lab prints of a cell, without how long it took.
fn printed(cell: &Cell) -> Vec<String> {
    let mut lines = vec![format!("{}  {}: {}", cell.rung, cell.scenario, cell.scenario.story())];
    lines.extend(cell.timeline.iter().map(|line| format!("    {line}").trim_end().to_owned()));
    lines.push(format!("  {} {}", cell.invariant, cell.outcome()));
    lines.extend(cell.witness.as_deref().map(|witness| format!("    {witness}")));
    lines
}

/// Without what differs from run to run: fencing tokens, the ids in a witness, an operating
/// system's words for a server that is gone, and who is served first of those who queue for a
/// row, which PostgreSQL decides.
fn steady(lines: &[String]) -> Vec<String> {
    let waits_for_row = |line: &&String| line.contains(" waits for a row");
    let queue: BTreeSet<&str> = match lines.iter().filter(waits_for_row).count() {
        0 | 1 => BTreeSet::new(),
        _ => lines.iter().filter(waits_for_row).map(|line| actor(line)).collect(),
    };
    let mut in_queue = BTreeSet::new();
    let mut steady = Vec::new();
    for line in lines {
        let who = actor(line);
        let mut line = without_numbers(line);
        if in_queue.contains(who) {
            line = line.replacen(who, "?", 1);
        }
        if queue.contains(who) && line.contains(" waits for a row") {
            in_queue.insert(who);
        }
        steady.push(line);
    }
    steady
}

/// The letter of a line of the timeline, and nothing of any other line.
fn actor(line: &str) -> &str {
    let letter = line.strip_prefix("    ").and_then(|line| line.split(' ').next());
    letter.unwrap_or_default()
}

fn without_numbers(line: &str) -> String {
    if let Some((head, _)) = line.split_once("comes to no answer:") {
        return format!("{head}comes to no answer");
    }
    for before in ["by token ", "orders: "] {
        if let Some((head, tail)) = line.split_once(before) {
            let tail: String = tail
                .split(' ')
                .map(|word| if word.parse::<i64>().is_ok() { "N" } else { word })
                .collect::<Vec<_>>()
                .join(" ");
            return format!("{head}{before}{tail}");
        }
    }
    line.to_owned()
}

#[test]
fn what_differs_from_run_to_run_is_left_out_and_nothing_else() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let same = |one: &str, other: &str| steady(&lines(one)) == steady(&lines(other));
    assert!(same("    A      looks: it is, by token 17", "    A      looks: it is, by token 9"));
    assert!(same("  x BREAKS: holds 2 orders: 8 and 9", "  x BREAKS: holds 2 orders: 1 and 2"));
    assert!(!same("  x BREAKS: holds 2 orders: 8 and 9", "  x BREAKS: holds 3 orders: 8 and 9"));
    assert!(!same("    A      reads the stock: 1", "    A      reads the stock: 2"));
    let queue = "    B      waits for a row\n    C      waits for a row\n";
    let served = |who: &str| format!("{queue}    {who}      is told: ordered");
    assert!(same(&served("B"), &served("C")));
    assert!(!same(&served("A"), &served("C")));
    let alone = |who: &str| format!("    B      waits for a row\n    {who}      is told: ordered");
    assert!(!same(&alone("A"), &alone("B")));
}

/// The one place that needs servers. Every cell is played once, for all pages together.
#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::explicit_write)] // what the macro writes is shown only when a test fails
async fn every_timeline_is_what_the_lab_prints_today() {
    let all: Vec<Block> = PAGES.into_iter().flat_map(blocks_of).collect();
    let (mut cells, mut wrong) = (BTreeMap::new(), Vec::new());
    let world = lab().await;
    let zookeeper = ZooKeeperNode::find();
    for block in all {
        let Some((rung, scenario)) = played(&block) else { continue };
        if let (LockKind::ZooKeeper, Err(why)) = (rung.lock, &zookeeper) {
            writeln!(std::io::stderr(), "skipped {}: {why}", block.place).unwrap();
            continue;
        }
        let key = (rung.id, scenario);
        let printed = match cells.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(printed(&replay(&world, rung, scenario).await)),
        };
        if steady(printed) != steady(&block.lines) {
            wrong.push(format!("{}: the lab prints\n{}", block.place, printed.join("\n")));
        }
    }
    world.close().await.unwrap();
    assert!(cells.len() >= 30, "only {} timelines", cells.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The file that a block quotes.
fn quoted(block: &Block) -> Option<String> {
    match block.info()[..] {
        ["rust", file] if file.contains('/') => Some(file.to_owned()),
        ["rust", rung] => Some(format!("crates/ladder/src/{rung}.rs")),
        ["lua", file] => Some(format!("lua/{file}")),
        ["sql", file] => Some(format!("migrations/{file}")),
        _ => None,
    }
}

#[test]
fn every_quotation_is_in_the_file_that_it_names() {
    let (mut count, mut wrong) = (0, Vec::new());
    for block in PAGES.into_iter().flat_map(blocks_of) {
        let Some(file) = quoted(&block) else { continue };
        // Whole lines.
        let found = format!("\n{}", read(&file)).contains(&format!("\n{}\n", block.text()));
        count += 1;
        if !found {
            wrong.push(format!("{}: {file} does not contain this", block.place));
        }
    }
    assert!(count >= 2 * RUNGS.len(), "only {count} quotations");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is written for whom cannot differ in what was played and what is quoted.
#[test]
fn the_twins_have_the_same_blocks_in_the_same_order() {
    let [english, chinese] = COURSE.map(|file| {
        let found = blocks_of(file).into_iter().filter(|block| block.info() != ["sh"]);
        found.map(|block| (block.info.clone(), block.text())).collect::<Vec<_>>()
    });
    for (one, other) in english.iter().zip(&chinese) {
        assert_eq!(one, other);
    }
    assert_eq!(english.len(), chinese.len());
}

#[test]
fn every_rung_has_a_section_in_the_order_of_the_ladder() {
    for file in COURSE {
        let text = read(file);
        let sections = text.lines().filter_map(|line| line.strip_prefix("## r"));
        let sections: Vec<String> = sections.map(|rest| format!("r{rest}")).collect();
        let expected: Vec<&str> = RUNGS.iter().map(|rung| rung.id).collect();
        assert_eq!(sections, expected, "{file}");
        for rung in RUNGS {
            // A section shows what it talks of.
            let (_, section) = text.split_once(&format!("\n## {}\n", rung.id)).unwrap();
            let section = section.split("\n## ").next().unwrap();
            let place = format!("{file}, {}", rung.id);
            assert!(section.contains(&format!("```text {} ", rung.id)), "{place}: no timeline");
            assert!(
                ["```rust", "```lua", "```sql"].iter().any(|code| section.contains(code)),
                "{place}: no code"
            );
            let label = rung.id.split('_').next().unwrap();
            let command = format!("`seckill lab replay {label}");
            assert!(section.contains(&command), "{place}: not how to see it");
        }
    }
}

/// The cells of the rows that begin with a rung, without the row's frame.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().filter(|line| line.starts_with("| [r"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn the_tables_are_those_of_the_registry() {
    for file in COURSE {
        let text = read(file);
        let rows = rows(&text);
        let (stages, claims): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.len() == 3);
        let name = |id: &str| format!("[{id}](#{id})");
        let words = |names: Vec<&str>| match names.is_empty() {
            true => "–".to_owned(),
            false => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        };
        for rung in RUNGS {
            let stage = stages.iter().filter(|row| row[0] == name(rung.id)).count();
            assert_eq!(stage, 1, "{file}: {} in the table of stages", rung.id);
        }
        let expected: Vec<[String; 3]> = RUNGS
            .iter()
            .map(|rung| {
                let keeps = rung.claims.iter().map(|claim| claim.as_str()).collect();
                let breaks = rung.breaks.iter().map(|scenario| scenario.as_str()).collect();
                [name(rung.id), words(keeps), words(breaks)]
            })
            .collect();
        let found: Vec<[String; 3]> = claims
            .iter()
            .map(|row| [row[0].to_owned(), row[1].to_owned(), row[2].to_owned()])
            .collect();
        assert_eq!(found, expected, "{file}: the table of claims");
    }
}

/// The registry as a matrix.
fn matrix() -> String {
    let label = |rung: &Rung| {
        let label = rung.id.trim_start_matches('r').split('_').next().unwrap_or_default();
        label.trim_start_matches('0').to_owned()
    };
    let row = |name: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>4}")).collect();
        format!("{name:<19}{cells}").trim_end().to_owned()
    };
    let mut lines = vec![row("", RUNGS.iter().map(label).collect())];
    for invariant in Invariant::ALL {
        let at_stake = Scenario::ALL.iter().filter(|scenario| scenario.invariant() == *invariant);
        let rows: Vec<String> = at_stake
            .map(|scenario| {
                let sign = |rung: &Rung| match scenarios::absent(*scenario, rung) {
                    Some(_) => "·",
                    None if rung.claims_to_survive(*scenario) => "✓",
                    None => "✗",
                };
                let signs = RUNGS.iter().map(|rung| sign(rung).to_owned());
                row(&format!("  {scenario}"), signs.collect())
            })
            .collect();
        if !rows.is_empty() {
            lines.push(invariant.to_string());
            lines.extend(rows);
        }
    }
    lines.join("\n")
}

#[test]
fn the_matrix_is_that_of_the_registry() {
    for file in COURSE {
        let blocks = blocks_of(file);
        let block = blocks.iter().find(|block| block.info() == ["text", "matrix"]);
        let found = block.unwrap_or_else(|| panic!("{file} has no matrix")).text();
        assert!(found == matrix(), "{file}: the matrix is\n{}", matrix());
    }
}
