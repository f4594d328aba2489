//! A page: its blocks, its regions, and the same page with all that is generated made anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use course::chapter::CHAPTERS;
use ladder::{RUNGS, Rung, Scenario, find};
use seckill::http::Language;
use seckill_lab::Cell;

use super::{diagram, regions, steady, timeline};

pub const LANGUAGES: [Language; 2] = [Language::English, Language::Chinese];
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
    language.choose(".md", ".zh-CN.md")
}

impl Page {
    pub fn file(&self) -> String {
        format!("{}{}", self.stem, suffix(self.language))
    }

    /// Every page with something of the course, in both languages.
    pub fn all() -> Vec<Self> {
        let stems = course().chain(["README".to_owned()]);
        let both = |stem: String| LANGUAGES.map(|language| Self { stem: stem.clone(), language });
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

/// The pages of the course, without `.md`.
pub fn course() -> impl Iterator<Item = String> {
    CHAPTERS.iter().map(|chapter| match chapter.name {
        Some(name) => format!("docs/ladder/{name}"),
        None => "docs/ladder".to_owned(),
    })
}

/// Something between a beginning and an end: a fenced block or a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What it says it is: the words after the fence, or those of the region after "generated".
    pub info: Vec<String>,
    pub lines: Vec<String>,
    /// Where it begins, for whoever has to mend it.
    pub place: String,
    /// The lines before and behind it.
    fences: [String; 2],
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

/// A page as it stands: what is fenced in, and the lines between.
fn pieces<'a>(file: &str, text: &'a str) -> Vec<Result<Block, &'a str>> {
    let (mut lines, mut found) = ((1..).zip(text.lines()), Vec::new());
    while let Some((number, first)) = lines.next() {
        let place = format!("{file}:{number}");
        let region = first.strip_prefix(BEGINS).and_then(|rest| rest.strip_suffix(" -->"));
        let (info, end) = match (first.strip_prefix("```"), region) {
            (Some(info), _) => (info.to_owned(), "```"),
            (None, Some(region)) => (format!("generated {region}"), ENDS),
            (None, None) => {
                assert!(first != ENDS, "{place}: nothing was begun that ends here");
                found.push(Err(first));
                continue;
            }
        };
        let mut last = None;
        let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| {
            last = Some(*line);
            *line != end
        });
        let inside = inside.map(str::to_owned).collect();
        assert_eq!(last, Some(end), "{place}: it does not end");
        found.push(Ok(Block {
            info: info.split_whitespace().map(str::to_owned).collect(),
            lines: inside,
            place,
            fences: [first, end].map(str::to_owned),
        }));
    }
    found
}

/// What is fenced in, on a page; what stands in regions is one block.
pub fn blocks(file: &str) -> Vec<Block> {
    pieces(file, &read(file)).into_iter().flatten().collect()
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
        let block = match piece {
            Ok(block) => block,
            Err(line) => {
                renewed.text += &format!("{line}\n");
                continue;
            }
        };
        let is_generated = block.info().first() == Some(&"generated");
        let new = match block.played() {
            Some((rung, scenario)) => {
                cells.get(&(rung.id, scenario)).map(|cell| match is_generated {
                    true => diagram::region(cell, page.language),
                    false => timeline::printed(cell, page.language),
                })
            }
            None => is_generated.then(|| regions::region(page, &block)),
        };
        let new = new.filter(|new| !steady::are_same(new, &block.lines));
        if let Some(new) = &new {
            renewed.changes.push(format!("{}:\n{}", block.place, new.join("\n")));
        }
        let [first, last] = &block.fences;
        for line in [first].into_iter().chain(new.as_ref().unwrap_or(&block.lines)).chain([last]) {
            renewed.text += &format!("{line}\n");
        }
    }
    renewed
}
