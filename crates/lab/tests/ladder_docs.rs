//! The course in words, in both languages, against the ladder itself: what it prints is what the
//! lab prints today, what it quotes is in the file it names, what it tabulates is the registry.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use faults::ZooKeeperNode;
use ladder::{Invariant, LockKind, RUNGS, Rung, Scenario, find};
use seckill_lab::{Cell, replay, scenarios};

use crate::lab_replays::lab;

/// How the names of the pages in either language end.
const LANGUAGES: [&str; 2] = [".md", ".zh-CN.md"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    let text = fs::read_to_string(repository().join(file));
    text.unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The pages of the course in English, without `.md`: the index, and everything in its directory.
fn course() -> Vec<String> {
    let entries = fs::read_dir(repository().join("docs/ladder")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let english = names.filter_map(|name| Some(name.strip_suffix(".md")?.to_owned()));
    let mut pages: Vec<String> = english
        .filter(|name| !name.ends_with(".zh-CN"))
        .map(|name| format!("docs/ladder/{name}"))
        .collect();
    pages.push("docs/ladder".to_owned());
    pages.sort();
    pages
}

/// Where timelines and quotations stand.
fn pages() -> Vec<String> {
    let stems = course().into_iter().chain(["README".to_owned()]);
    stems.flat_map(|stem| LANGUAGES.map(|language| format!("{stem}{language}"))).collect()
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
    let all: Vec<Block> = pages().iter().flat_map(|page| blocks_of(page)).collect();
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
    for block in pages().iter().flat_map(|page| blocks_of(page)) {
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
    for page in course() {
        let [english, chinese] = LANGUAGES.map(|language| {
            let found = blocks_of(&format!("{page}{language}")).into_iter();
            // A block that names nothing is for reading only: its comments are translated.
            let found = found.filter(|block| block.info.len() > 1);
            found.map(|block| (block.info.clone(), block.text())).collect::<Vec<_>>()
        });
        for (one, other) in english.iter().zip(&chinese) {
            assert_eq!(one, other, "{page}");
        }
        assert_eq!(english.len(), chinese.len(), "{page}");
    }
}

#[test]
fn every_rung_has_a_page() {
    for (rung, language) in RUNGS.iter().flat_map(|rung| LANGUAGES.map(|language| (rung, language)))
    {
        let file = format!("docs/ladder/{}{language}", rung.id);
        let page = read(&file);
        assert!(page.starts_with(&format!("# {}\n", rung.id)), "{file}");
        // A page shows what it talks of.
        assert!(page.contains(&format!("```text {} ", rung.id)), "{file}: no timeline");
        assert!(
            ["```rust", "```lua", "```sql"].iter().any(|code| page.contains(code)),
            "{file}: no code"
        );
        let label = rung.id.split('_').next().unwrap();
        let command = format!("`seckill lab replay {label}");
        assert!(page.contains(&command), "{file}: not how to see it");
    }
}

/// The cells of the rows that begin with a rung, without the row's frame.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().filter(|line| line.starts_with("| [r"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn the_tables_are_those_of_the_registry() {
    for language in LANGUAGES {
        let index = format!("docs/ladder{language}");
        let text = read(&index);
        let linked: Vec<&str> = rows(&text).into_iter().map(|row| row[0]).collect();
        let expected: Vec<String> = RUNGS
            .iter()
            .map(|rung| format!("[{id}](ladder/{id}{language})", id = rung.id))
            .collect();
        assert_eq!(linked, expected, "{index}");

        let words = |names: Vec<&str>| match names.is_empty() {
            true => "–".to_owned(),
            false => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        };
        let expected: Vec<[String; 3]> = RUNGS
            .iter()
            .map(|rung| {
                let keeps = rung.claims.iter().map(|claim| claim.as_str()).collect();
                let breaks = rung.breaks.iter().map(|scenario| scenario.as_str()).collect();
                [format!("[{id}]({id}{language})", id = rung.id), words(keeps), words(breaks)]
            })
            .collect();
        let lab = format!("docs/ladder/lab{language}");
        let text = read(&lab);
        let found: Vec<[String; 3]> = rows(&text)
            .iter()
            .map(|row| [row[0].to_owned(), row[1].to_owned(), row[2].to_owned()])
            .collect();
        assert_eq!(found, expected, "{lab}: the table of claims");
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
    for file in LANGUAGES.map(|language| format!("docs/ladder/lab{language}")) {
        let blocks = blocks_of(&file);
        let block = blocks.iter().find(|block| block.info() == ["text", "matrix"]);
        let found = block.unwrap_or_else(|| panic!("{file} has no matrix")).text();
        assert!(found == matrix(), "{file}: the matrix is\n{}", matrix());
    }
}
