//! The pages at the doors of the house: the README, and the pages that follow one thing step by step. What
//! they name is in the code, what they link to is there, and both languages name the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use testkit::markdown::MarkdownPage;

use super::{files, read, root, words};

/// The pages with tables of steps.
const STORIES: [&str; 4] = [
    "src/purchase/README.md",
    "src/orders/README.md",
    "crates/lab/README.md",
    "crates/tools/README.md",
];

/// Every page for people, by its path from the root.
fn pages() -> BTreeMap<String, MarkdownPage> {
    let top = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name());
    let top = top.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".md"));
    let mut pages: Vec<_> = top.map(|name| (name.clone(), read(&name))).collect();
    for directory in ["src", "crates", "docs", "deploy", "loadtest"] {
        pages.extend(files(directory, "md"));
    }
    assert!(pages.len() > 100, "only {} pages", pages.len());
    pages.into_iter().map(|(name, text)| (name, MarkdownPage::of(&text))).collect()
}

/// The file of a link on `page`, from the root; `None` where it leads out of the repository.
fn target(page: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let file = link.split('#').next().filter(|file| !file.is_empty());
    let Some(file) = file else { return Some(page.to_owned()) };
    let mut path = PathBuf::new();
    for part in Path::new(page).parent().unwrap().join(file).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{page}: {link} leads out"),
            part => path.push(part),
        }
    }
    Some(path.to_str().unwrap().to_owned())
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading_in_it() {
    let (mut count, mut wrong) = (0, Vec::new());
    let pages = pages();
    for (page, found) in &pages {
        for link in &found.links {
            let Some(file) = target(page, link) else { continue };
            count += 1;
            if !root().join(&file).exists() {
                wrong.push(format!("{page}: there is no {link}"));
                continue;
            }
            let anchor = link.split_once('#').map(|(_, anchor)| anchor);
            // Of other files an anchor is a line.
            let Some(anchor) = anchor.filter(|_| file.ends_with(".md")) else { continue };
            if !pages[&file].anchors.contains(anchor) {
                wrong.push(format!("{page}: {link} is no heading there"));
            }
        }
    }
    assert!(count > 500, "only {count} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `Type::function` and `Type::Variant` of a story are in one file together.
#[test]
fn what_a_story_calls_by_its_name_is_in_the_code() {
    let sources = [files("src", "rs"), files("crates", "rs")].concat();
    let (mut count, mut wrong) = (0, Vec::new());
    for story in STORIES {
        for name in MarkdownPage::of(&read(story)).quoted {
            let Some((of, name)) = name.split_once("::") else { continue };
            let has_both = |source: &str| {
                [of, name].iter().all(|name| words(source).any(|word| word == *name))
            };
            count += 1;
            if !sources.iter().any(|(_, source)| has_both(source)) {
                wrong.push(format!("{story}: there is no {of}::{name}"));
            }
        }
    }
    assert!(count >= 10, "only {count} names");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn both_languages_name_the_same_things_and_lead_to_the_same_files() {
    let doors = ["README.md", "loadtest/README.md"].into_iter().chain(STORIES);
    let twins = doors.map(|page| (page, page.replace(".md", ".zh-CN.md")));
    let twins: Vec<_> = twins.filter(|(_, chinese)| root().join(chinese).exists()).collect();
    assert!(twins.len() >= 3, "{twins:?}");
    for (page, chinese) in twins {
        let [english, chinese] = [page, &chinese].map(|file| MarkdownPage::of(&read(file)));
        // The lab speaks English unless it is told otherwise.
        let names = |of: &MarkdownPage| -> BTreeSet<String> {
            of.quoted.iter().map(|name| name.replace(" --lang zh", "")).collect()
        };
        assert_eq!(names(&english), names(&chinese), "{page}");
        let leads_to = |of: &MarkdownPage| -> BTreeSet<String> {
            let files = of.links.iter().filter_map(|link| target(page, link));
            files.map(|file| file.replace(".zh-CN", "")).filter(|file| file != page).collect()
        };
        assert_eq!(leads_to(&english), leads_to(&chinese), "{page}");
    }
}

#[test]
fn the_readme_names_every_crate() {
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let manifests =
        crates.map(|found| fs::read_to_string(found.unwrap().path().join("Cargo.toml")));
    // It begins with its name.
    let names = manifests.map(|text| text.unwrap().split('"').nth(1).unwrap().to_owned());
    let names: Vec<String> = names.collect();
    assert!(names.len() > 8, "{names:?}");
    for page in ["README.md", "README.zh-CN.md"] {
        let quoted = MarkdownPage::of(&read(page)).quoted;
        let missing: Vec<_> = names.iter().filter(|name| !quoted.contains(name)).collect();
        assert!(missing.is_empty(), "{page} does not name {missing:?}");
    }
}
