//! A page: its blocks, its regions, and the same page with all that is generated made anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ladder::{RUNGS, Rung, Scenario, find};
use seckill::http::Language;
use seckill_lab::Cell;

use super::{diagram, regions, steady, timeline};

const BEGINS: &str = "<!-- generated: ";
const ENDS: &str = "<!-- end -->";

/// What was played: a rung's name, a scenario.
pub type Cells = BTreeMap<(&'static str, Scenario), Cell>;

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn read(file: &str) -> String {
    let text = fs::read_to_string(repository().join(file));
    text.unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// A page of the course in one language.
#[derive(Debug, Clone)]
pub struct Page {
    /// Without `.md`: "docs/ladder/lab".
    pub stem: String,
    pub language: Language,
}

/// How the names of the pages in a language end.
pub const fn suffix(language: Language) -> &'static str {
    match language {
        Language::English => ".md",
        Language::Chinese => ".zh-CN.md",
    }
}

impl Page {
    pub fn file(&self) -> String {
        format!("{}{}", self.stem, suffix(self.language))
    }

    /// Every page with something of the course, in both languages.
    pub fn all() -> Vec<Self> {
        let stems = course().into_iter().chain(["README".to_owned()]);
        let both = |stem: String| {
            [Language::English, Language::Chinese]
                .map(|language| Self { stem: stem.clone(), language })
        };
        // This one has no Chinese twin.
        let lab = Self { stem: "crates/lab/README".to_owned(), language: Language::English };
        stems.flat_map(both).chain([lab]).collect()
    }

    /// The rung that it is about.
    pub fn rung(&self) -> Option<&'static Rung> {
        let name = self.stem.strip_prefix("docs/ladder/")?;
        RUNGS.iter().find(|rung| rung.id == name)
    }

    /// What a link to a page of the directory `docs/ladder` begins with.
    pub fn to_ladder(&self) -> &'static str {
        if self.stem == "docs/ladder" { "ladder/" } else { "" }
    }
}

/// The pages of the course, without `.md`: the index, and everything in its directory.
pub fn course() -> Vec<String> {
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

/// Something between a beginning and an end: a fenced block or a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What it says it is: the words after the fence, or those of the region after "generated".
    pub info: Vec<String>,
    pub lines: Vec<String>,
    /// Where it begins, for whoever has to mend it.
    pub place: String,
}

impl Block {
    pub fn info(&self) -> Vec<&str> {
        self.info.iter().map(String::as_str).collect()
    }

    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// The rung and the scenario of a timeline or a diagram.
    pub fn played(&self) -> Option<(&'static Rung, Scenario)> {
        let (["text", rung, scenario] | ["generated", "diagram", rung, scenario]) = self.info()[..]
        else {
            return None;
        };
        // `lab isolation` plays these.
        if rung == "isolation" {
            return None;
        }
        let rung = find(rung).unwrap_or_else(|error| panic!("{}: {error}", self.place));
        let scenario = scenario.parse();
        Some((rung, scenario.unwrap_or_else(|error| panic!("{}: {error}", self.place))))
    }
}

/// A page as it stands: lines, and what is fenced in.
enum Piece {
    Line(String),
    Block { first: String, block: Block, last: String },
}

fn pieces(file: &str, text: &str) -> Vec<Piece> {
    let mut found: Vec<Piece> = Vec::new();
    let mut open: Option<(String, Block)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let is_end = open.as_ref().is_some_and(|(first, _)| match first.starts_with(BEGINS) {
            true => line == ENDS,
            false => line == "```",
        });
        if let Some((first, block)) = open.take_if(|_| is_end) {
            found.push(Piece::Block { first, block, last: line.to_owned() });
        } else if let Some((_, block)) = &mut open {
            block.lines.push(line.to_owned());
        } else if let Some(info) = line.strip_prefix("```").map(str::to_owned).or_else(|| {
            Some(format!("generated {}", line.strip_prefix(BEGINS)?.strip_suffix(" -->")?))
        }) {
            let info = info.split_whitespace().map(str::to_owned).collect();
            let place = format!("{file}:{number}");
            open = Some((line.to_owned(), Block { info, lines: Vec::new(), place }));
        } else {
            assert!(line != ENDS, "{file}:{number}: nothing was begun that ends here");
            found.push(Piece::Line(line.to_owned()));
        }
    }
    assert!(
        open.is_none(),
        "{file}: something does not end: {:?}",
        open.map(|(_, block)| block.place)
    );
    found
}

/// What is fenced in, on a page; what stands in regions is one block.
pub fn blocks(file: &str) -> Vec<Block> {
    let pieces = pieces(file, &read(file)).into_iter();
    let blocks = pieces.filter_map(|piece| match piece {
        Piece::Block { block, .. } => Some(block),
        Piece::Line(_) => None,
    });
    blocks.collect()
}

/// A page with all that is generated made anew.
pub struct Renewed {
    pub text: String,
    /// What has changed: where, and what stands there now.
    pub changes: Vec<String>,
}

/// Makes anew what is generated. What was not played stays as it is, and so does a timeline that differs
/// only in what differs from run to run.
pub fn renewed(page: &Page, text: &str, cells: &Cells) -> Renewed {
    let mut renewed = Renewed { text: String::new(), changes: Vec::new() };
    for piece in pieces(&page.file(), text) {
        let (first, block, last) = match piece {
            Piece::Line(line) => {
                renewed.text += &format!("{line}\n");
                continue;
            }
            Piece::Block { first, block, last } => (first, block, last),
        };
        let cell = block.played().and_then(|(rung, scenario)| cells.get(&(rung.id, scenario)));
        let new = match (block.info()[..].first().copied(), cell) {
            (Some("text"), Some(cell)) => Some(timeline::printed(cell, page.language)),
            (Some("generated"), Some(cell)) => Some(diagram::region(cell, page.language)),
            (Some("generated"), None) if block.played().is_none() => {
                Some(regions::region(page, &block))
            }
            _ => None,
        };
        let new = new.filter(|new| !steady::are_same(new, &block.lines));
        if let Some(new) = &new {
            renewed.changes.push(format!("{}:\n{}", block.place, new.join("\n")));
        }
        for line in [first].iter().chain(new.as_ref().unwrap_or(&block.lines)).chain([&last]) {
            renewed.text += &format!("{line}\n");
        }
    }
    renewed
}
