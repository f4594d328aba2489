//! The pages at the doors of the house: the README, and the pages that follow one thing step by step. What
//! they name is in the code, what they link to is there, both languages say the same, and none is too long.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::docs::tidy::files;

/// The pages with tables of steps.
const STORIES: [&str; 4] = [
    "src/purchase/README.md",
    "src/orders/README.md",
    "crates/lab/README.md",
    "crates/tools/README.md",
];

/// What a reader of the whole purchase opens, the README and the page itself included.
const MAX_FILES: usize = 20;
const MAX_LINES: usize = 4_750;

const MAX_README_LINES: usize = 120;

/// What `make` alone shows.
const FIRST_TARGETS: [&str; 6] = ["demo", "test", "play", "serve", "lab", "bench"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Every page for people, as (path from the root, text).
fn pages() -> Vec<(String, String)> {
    let top = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name());
    let top = top.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".md"));
    let mut pages: Vec<_> = top.map(|name| (name.clone(), read(&name))).collect();
    for directory in ["src", "crates", "docs", "deploy", "loadtest"] {
        pages.extend(files(directory, "md"));
    }
    assert!(pages.len() > 100, "only {} pages", pages.len());
    pages
}

/// The stories that are written.
fn stories() -> impl Iterator<Item = (&'static str, String)> {
    let written = STORIES.into_iter().filter(|story| root().join(story).exists());
    written.map(|story| (story, read(story)))
}

/// The lines outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// Where the links and pictures of a line lead. What stands between backquotes is none.
fn links(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(begin) = line[at..].find("](").map(|begin| at + begin + 2) {
        let Some(length) = line[begin..].find(')') else { break };
        let is_code = line[..begin].matches('`').count() % 2 == 1;
        if !is_code {
            found.push(&line[begin..begin + length]);
        }
        at = begin + length;
    }
    found
}

/// What stands between backquotes, outside of fenced blocks.
fn quoted(text: &str) -> BTreeSet<String> {
    let prose = prose(text).collect::<Vec<_>>().join("\n");
    prose.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The file of a link on `page`, from the root; `None` where it leads out of the repository.
fn target(page: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, _) = link.split_once('#').unwrap_or((link, ""));
    if file.is_empty() {
        return Some(page.to_owned());
    }
    let mut path = PathBuf::new();
    for part in Path::new(page).parent().unwrap().join(file).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{page}: {link} leads out"),
            part => path.push(part),
        }
    }
    Some(path.to_str().unwrap().to_owned())
}

/// The anchors of a page: its headings, as GitHub writes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in prose(text).filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim();
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let anchor: String = heading.to_lowercase().chars().filter(kept).collect();
        let anchor = anchor.replace(' ', "-");
        let again = (1..).map(|nth| format!("{anchor}-{nth}"));
        let mut names = [anchor.clone()].into_iter().chain(again);
        let name = names.find(|name| !found.contains(name)).unwrap();
        found.insert(name);
    }
    for name in text.split(" id=\"").skip(1) {
        found.insert(name.split('"').next().unwrap().to_owned());
    }
    found
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading_in_it() {
    let (mut count, mut wrong) = (0, Vec::new());
    for (page, text) in pages() {
        for link in prose(&text).flat_map(links) {
            let Some(file) = target(&page, link) else { continue };
            count += 1;
            if !root().join(&file).exists() {
                wrong.push(format!("{page}: there is no {link}"));
                continue;
            }
            let anchor = link.split_once('#').map(|(_, anchor)| anchor);
            // Of other files an anchor is a line.
            let Some(anchor) = anchor.filter(|_| file.ends_with(".md")) else { continue };
            if !anchors(&read(&file)).contains(anchor) {
                wrong.push(format!("{page}: {link} is no heading there"));
            }
        }
    }
    assert!(count > 500, "only {count} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A step: its words, and the files that it names, from the root.
type Step = (String, Vec<String>);

/// The rows of the tables whose last column is called "file".
fn steps(page: &str, text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut is_table = false;
    for line in prose(text) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let last = cells[cells.len() - 1];
        if !line.starts_with('|') {
            is_table = false;
        } else if matches!(last, "file" | "文件") {
            is_table = true;
        } else if is_table && !line.starts_with("| ---") {
            let named = links(last).into_iter().filter_map(|link| target(page, link)).collect();
            steps.push((line.to_owned(), named));
        }
    }
    steps
}

#[test]
fn every_step_names_a_file_that_is_there() {
    for (story, text) in stories() {
        let steps = steps(story, &text);
        assert!(steps.len() >= 8, "{story} has only {} steps", steps.len());
        for (step, named) in steps {
            assert!(!named.is_empty(), "{story}: no file: {step}");
            let gone: Vec<_> = named.iter().filter(|file| !root().join(file).is_file()).collect();
            assert!(gone.is_empty(), "{story}: there is no {gone:?}: {step}");
        }
    }
}

/// Whether `word` stands in `text` by itself.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c| !is_part(c)).any(|found| found == word)
}

/// `Type::function` and `Type::Variant` of a story are in one file together.
#[test]
fn what_a_story_calls_by_its_name_is_in_the_code() {
    let sources = [files("src", "rs"), files("crates", "rs")].concat();
    let (mut count, mut wrong) = (0, Vec::new());
    for (story, text) in stories() {
        for name in quoted(&text) {
            let Some((of, name)) = name.split_once("::") else { continue };
            let is_function = name.starts_with(|c: char| c.is_lowercase());
            let is_there = sources.iter().any(|(_, source)| {
                let is_defined = match is_function {
                    true => {
                        ["(", "<"].iter().any(|next| source.contains(&format!("fn {name}{next}")))
                    }
                    false => has_word(source, name),
                };
                is_defined && has_word(source, of)
            });
            count += 1;
            if !is_there {
                wrong.push(format!("{story}: there is no {of}::{name}"));
            }
        }
    }
    assert!(count >= 10, "only {count} names");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_purchase_can_be_followed_in_twenty_files() {
    let story = STORIES[0];
    let mut opened: BTreeSet<String> = ["README.md", story].map(str::to_owned).into();
    opened.extend(steps(story, &read(story)).into_iter().flat_map(|(_, named)| named));
    let lines: usize = opened.iter().map(|file| read(file).lines().count()).sum();
    let files = opened.len();
    assert!(files <= MAX_FILES && lines <= MAX_LINES, "{files} files, {lines} lines: {opened:#?}");
}

#[test]
fn a_replay_and_an_exploration_can_be_followed_in_twelve_files_each() {
    let story = STORIES[2];
    for section in sections(&read(story)) {
        let named = steps(story, &section).into_iter().flat_map(|(_, named)| named);
        let opened: BTreeSet<String> = named.collect();
        assert!(opened.len() <= 12, "{} files: {opened:#?}", opened.len());
    }
}

/// The parts of a page: what stands before the first heading of the second level, then from each to the next.
fn sections(text: &str) -> Vec<String> {
    text.split("\n## ").map(str::to_owned).collect()
}

/// What both languages have in common in a section.
#[derive(Debug, PartialEq)]
struct Common {
    quoted: BTreeSet<String>,
    links: BTreeSet<String>,
    tables: usize,
    /// The first line of each fenced block.
    blocks: Vec<String>,
}

impl Common {
    fn of(page: &str, section: &str) -> Self {
        let links = prose(section).flat_map(links);
        let links = links.filter(|link| !link.contains("://")).filter_map(|link| {
            Some(target(page, link)?.replace(".zh-CN", "")).filter(|file| file != page)
        });
        let fences = section.lines().filter(|line| line.starts_with("```"));
        Self {
            // The lab speaks English unless it is told otherwise.
            quoted: quoted(section).iter().map(|it| it.replace(" --lang zh", "")).collect(),
            links: links.collect(),
            tables: prose(section).filter(|line| line.starts_with('|')).count(),
            blocks: fences.map(str::to_owned).collect(),
        }
    }
}

#[test]
fn both_languages_say_the_same_things_in_the_same_order() {
    let doors = ["README.md"].into_iter().chain(STORIES);
    let twins = doors.map(|page| (page, page.replace(".md", ".zh-CN.md")));
    let twins: Vec<_> = twins.filter(|(_, chinese)| root().join(chinese).exists()).collect();
    assert!(twins.len() >= 2, "{twins:?}");
    for (page, chinese) in twins {
        let [one, other] = [page, &chinese].map(|file| sections(&read(file)));
        assert_eq!(one.len(), other.len(), "{page}: sections");
        for (one, other) in one.iter().zip(&other) {
            let heading = one.lines().next().unwrap();
            assert_eq!(Common::of(page, one), Common::of(page, other), "{page}: {heading}");
        }
    }
}

#[test]
fn the_readme_is_short_and_names_every_crate() {
    let manifests = files("crates", "toml").into_iter();
    let manifests = manifests.filter(|(file, _)| file.matches('/').count() == 2);
    let names = manifests.filter_map(|(file, text)| {
        let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        file.ends_with("/Cargo.toml").then(|| name.unwrap().to_owned())
    });
    let names: BTreeSet<String> = names.collect();
    assert!(names.len() > 8, "{names:?}");
    for page in ["README.md", "README.zh-CN.md"] {
        let text = read(page);
        let lines = text.lines().count();
        assert!(lines <= MAX_README_LINES, "{page} has {lines} lines");
        let missing: Vec<_> = names.difference(&quoted(&text)).cloned().collect();
        assert!(missing.is_empty(), "{page} does not name {missing:?}");
    }
}

/// The targets that `make` prints with these arguments.
fn printed_targets(arguments: &[&str]) -> Vec<String> {
    let mut make = Command::new("make");
    // Those of a `make` that runs this test.
    make.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL");
    let done = make.current_dir(root()).args(arguments).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let printed = String::from_utf8(done.stdout).unwrap();
    let targets = printed.lines().filter_map(|line| line.strip_prefix("  make "));
    targets.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn make_alone_shows_what_to_begin_with_and_make_help_shows_all() {
    assert_eq!(printed_targets(&[]), FIRST_TARGETS);
    let makefile = read("Makefile");
    let described: Vec<&str> = makefile
        .lines()
        .filter(|line| line.contains(": ") && line.contains(" ## "))
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect();
    assert!(described.len() > 25, "{described:?}");
    assert_eq!(printed_targets(&["help"]), described);
}

#[test]
fn anchors_are_those_of_github() {
    let text =
        "# A run of `check`, step by step\n\n## 运行\n### What if...\n## 运行\n```sh\n# no\n```\n";
    let expected = ["a-run-of-check-step-by-step", "what-if", "运行", "运行-1"];
    assert_eq!(anchors(text).iter().map(String::as_str).collect::<Vec<_>>(), expected);
    let line = "[a](b.md#c) `[x](y)` ![p](q.png)";
    assert_eq!(links(line), ["b.md#c", "q.png"]);
    assert_eq!(target("docs/a.md", "../src/b.rs#L1").as_deref(), Some("src/b.rs"));
    assert_eq!(target("docs/a.md", "#x").as_deref(), Some("docs/a.md"));
    assert_eq!(target("a.md", "https://example.org/a"), None);
}
