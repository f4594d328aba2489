//! The course in words, in both languages, against the ladder itself: what it prints is what the
//! lab prints today, what it quotes is in the file it names, what it tabulates is the registry.

use std::fs;

use ::course::chapter::CHAPTERS;
use ladder::{RUNGS, Rung};

use crate::course::page::{
    Block, Cells, LANGUAGES, Page, blocks, course, read, renewed, repository,
};
use crate::course::steady::steadied;
use crate::kept::{self, has_lock_of};

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
fn every_page_has_what_a_reader_looks_for_there() {
    for page in Page::all() {
        let (file, text) = (page.file(), read(&page.file()));
        let regions = match (&*page.stem, page.rung()) {
            (_, Some(_)) => "nav lesson claims",
            ("docs/ladder", _) => "nav rungs",
            ("docs/ladder/lab", _) => "nav promises claims-table matrix",
            ("docs/ladder/glossary", _) => "nav glossary",
            _ => "",
        };
        for region in regions.split_whitespace() {
            assert!(text.contains(&format!("<!-- generated: {region} ")), "{file}: no {region}");
        }
        let Some(Rung { id, .. }) = page.rung() else { continue };
        // A page shows what it talks of, and how to see it.
        let label = id.split('_').next().unwrap();
        let diagram = format!("<!-- generated: diagram {id} ");
        for words in [format!("\n-->\n# {id}\n"), diagram, format!("`seckill lab replay {label}")] {
            assert!(text.contains(&words), "{file}: no {words:?}");
        }
        let is_quoted = |code: &&str| text.contains(code);
        assert!(["```rust", "```lua", "```sql"].iter().any(is_quoted), "{file}: no code");
    }
}

/// A page of a rung that was renamed would lie there for ever.
#[test]
fn every_page_is_that_of_a_rung_or_of_the_course() {
    for entry in fs::read_dir(repository().join("docs/ladder")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = file.trim_end_matches(".md").trim_end_matches(".zh-CN");
        assert!(CHAPTERS.iter().any(|chapter| chapter.name == Some(name)), "{file} is of no rung");
    }
}
