//! Where a link of the Markdown leads, which was written for a reader of the repository.

use ladder::RUNGS;
use seckill::http::Language;

use super::chapter::{CHAPTERS, Chapter};

/// What stands in the Markdown for the address of this server.
const THIS_SERVER: &str = "http://127.0.0.1:8080/";

/// Where a rung's page shows its file.
pub(super) const SOURCE_ANCHOR: &str = "source";

/// The address that a link of a chapter has here; `None` for a file of the repository that no server has.
pub fn address(target: &str, chapter: &Chapter, language: Language) -> Option<String> {
    if let Some(path) = target.strip_prefix(THIS_SERVER) {
        return Some(format!("/{path}?lang={}", language.tag()));
    }
    if target.starts_with("https://") || target.starts_with("http://") || target.starts_with('#') {
        return Some(target.to_owned());
    }
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, format!("#{anchor}")),
        None => (target, String::new()),
    };
    let file = joined(chapter.directory(), path);
    let rung = RUNGS.iter().find(|rung| file == format!("crates/ladder/src/{}.rs", rung.id));
    if let Some(page) = rung.and_then(Chapter::of) {
        return Some(format!("{}#{SOURCE_ANCHOR}", page.address(language)));
    }
    let (stem, language) = match file.strip_suffix(".zh-CN.md") {
        Some(stem) => (stem, Language::Chinese),
        None => (file.strip_suffix(".md")?, Language::English),
    };
    let name = match stem {
        "docs/ladder" => None,
        _ => Some(stem.strip_prefix("docs/ladder/")?),
    };
    let page = CHAPTERS.iter().find(|chapter| chapter.name == name)?;
    Some(format!("{}{anchor}", page.address(language)))
}

/// A path of the repository, as seen from one of its directories.
fn joined(directory: &str, path: &str) -> String {
    let mut parts: Vec<&str> = directory.split('/').collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}
