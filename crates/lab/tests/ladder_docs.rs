//! The course in words, in both languages, against the ladder itself: what it prints is what the
//! lab prints today, what it quotes is in the file it names, what it tabulates is the registry.

use std::collections::BTreeSet;
use std::fs;

use ladder::RUNGS;
use seckill::http::Language;
use seckill_lab::Cell;

use crate::course::page::{Block, Cells, Page, blocks, course, read, renewed, repository, suffix};
use crate::course::steady::steadied;
use crate::course::{diagram, english::english_word, timeline};
use crate::kept::{self, has_lock_of};

const LANGUAGES: [Language; 2] = [Language::English, Language::Chinese];

/// What mends most of what fails here.
const HOW: &str = "run `make course`, which writes what is generated anew";

/// Every cell that the pages show, played once for all of them together. The one place that needs servers.
async fn played() -> Cells {
    let mut cells = Cells::new();
    for block in Page::all().iter().flat_map(|page| blocks(&page.file())) {
        let Some((rung, scenario)) = block.played().filter(|(rung, _)| has_lock_of(rung)) else {
            continue;
        };
        let cell = kept::played(rung, scenario).await;
        assert!(!cell.is_wrong(), "{}: {cell:?}", block.place);
        cells.insert((rung.id, scenario), steadied(cell));
    }
    cells
}

/// `make course`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it writes the pages of the course"]
async fn write_the_course() {
    let cells = played().await;
    for page in Page::all() {
        let text = read(&page.file());
        let renewed = renewed(&page, &text, &cells);
        if renewed.text != text {
            fs::write(repository().join(page.file()), renewed.text).unwrap();
        }
    }
}

/// What is wrong on the pages where these cells were played.
fn out_of_date(cells: &Cells) -> Vec<String> {
    let pages = Page::all().into_iter();
    pages.flat_map(|page| renewed(&page, &read(&page.file()), cells).changes).collect()
}

#[test]
fn every_generated_table_is_that_of_the_registry() {
    let wrong = out_of_date(&Cells::new());
    assert!(wrong.is_empty(), "{HOW}:\n{}", wrong.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_timeline_is_what_the_lab_prints_today() {
    let cells = played().await;
    assert!(cells.len() >= 30, "only {} timelines", cells.len());
    let wrong = out_of_date(&cells);
    assert!(wrong.is_empty(), "{HOW}; the lab prints\n{}", wrong.join("\n\n"));
    let wrong: Vec<String> = cells.values().flat_map(misprinted).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What Mermaid could not read of a cell, and what is left in English of its Chinese.
fn misprinted(cell: &Cell) -> Vec<String> {
    let diagrams = LANGUAGES.map(|language| diagram::region(cell, language));
    let mut wrong: Vec<String> =
        diagrams.iter().filter_map(|lines| diagram::syntax_error(lines)).collect();
    let [_, chinese] = &diagrams;
    let texts = chinese.iter().filter_map(|line| Some(line.split_once(": ")?.1.to_owned()));
    for line in timeline::printed(cell, Language::Chinese).into_iter().chain(texts) {
        let line = line.replace("<br/>", "");
        let word = english_word(&line);
        wrong.extend(
            word.map(|word| format!("{} {}: {word:?} in {line}", cell.of.rung, cell.of.scenario)),
        );
    }
    wrong
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
    for block in Page::all().iter().flat_map(|page| blocks(&page.file())) {
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

/// What is written for whom cannot differ in what was played, what is generated and what is quoted.
#[test]
fn the_twins_have_the_same_blocks_in_the_same_order() {
    for stem in course() {
        let [english, chinese] = LANGUAGES.map(|language| {
            let page = Page { stem: stem.clone(), language };
            let found = blocks(&page.file()).into_iter();
            // A block that names nothing is for reading only: its comments are translated.
            let found = found.filter(|block| block.info.len() > 1);
            let same = |block: &Block| quoted(block).map(|_| block.text());
            found.map(|block| (same(&block), block.info)).collect::<Vec<_>>()
        });
        for (one, other) in english.iter().zip(&chinese) {
            assert_eq!(one, other, "{stem}");
        }
        assert_eq!(english.len(), chinese.len(), "{stem}");
    }
}

#[test]
fn every_rung_has_a_page() {
    for (rung, language) in RUNGS.iter().flat_map(|rung| LANGUAGES.map(|language| (rung, language)))
    {
        let file = format!("docs/ladder/{}{}", rung.id, suffix(language));
        let page = read(&file);
        assert!(page.contains(&format!("\n-->\n# {}\n", rung.id)), "{file}");
        // A page shows what it talks of.
        for region in ["nav", "lesson", "claims", &format!("diagram {}", rung.id)] {
            assert!(page.contains(&format!("<!-- generated: {region} ")), "{file}: no {region}");
        }
        assert!(
            ["```rust", "```lua", "```sql"].iter().any(|code| page.contains(code)),
            "{file}: no code"
        );
        let label = rung.id.split('_').next().unwrap();
        let command = format!("`seckill lab replay {label}");
        assert!(page.contains(&command), "{file}: not how to see it");
    }
}

/// A page of a rung that was renamed would lie there for ever.
#[test]
fn every_page_is_that_of_a_rung_or_of_the_course() {
    let others = [
        "asynchronous",
        "bots",
        "efficiency_or_correctness",
        "glossary",
        "interleavings",
        "isolation",
        "lab",
        "messages",
    ];
    let known: BTreeSet<&str> = RUNGS.iter().map(|rung| rung.id).chain(others).collect();
    for stem in course() {
        let name = stem.strip_prefix("docs/ladder/").unwrap_or("lab");
        assert!(known.contains(name), "{stem} is the page of no rung");
    }
}

#[test]
fn the_tables_are_where_a_reader_looks_for_them() {
    for (stem, regions) in [
        ("docs/ladder", &["nav", "rungs"][..]),
        ("docs/ladder/lab", &["nav", "promises", "claims-table", "matrix"]),
        ("docs/ladder/glossary", &["nav", "glossary"]),
    ] {
        for language in LANGUAGES {
            let page = Page { stem: stem.to_owned(), language };
            let text = read(&page.file());
            for region in regions {
                let mark = format!("<!-- generated: {region} -->");
                assert!(text.contains(&mark), "{}: no {region}", page.file());
            }
        }
    }
}
