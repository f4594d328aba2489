//! What stands in a region that the registry alone decides.

use ladder::{RUNGS, Rung, find};
use seckill::http::Language;

use super::page::{Block, Page, suffix};
use super::tables::{self, entry, is_label, link, word};

pub fn region(page: &Page, block: &Block) -> Vec<String> {
    let rung = || page.rung().unwrap_or_else(|| panic!("{}: no rung's page", block.place));
    match block.info()[1..] {
        ["nav"] => vec![nav(page)],
        ["lesson"] => lesson(page, rung()),
        ["claims"] => claims(page, rung()),
        ["rungs"] => tables::rungs(page),
        ["claims-table"] => tables::claims(page),
        ["matrix"] => tables::matrix(),
        ["promises"] => tables::promises(page),
        ["glossary"] => tables::glossary(page),
        _ => panic!("{}: nothing generates this", block.place),
    }
}

/// The other language, the index, the neighbours.
fn nav(page: &Page) -> String {
    let other = word(page, Language::Chinese, Language::English);
    let name = page.stem.rsplit('/').next().unwrap_or_default();
    let mut links = vec![format!("[{}]({name}{})", word(page, "中文", "English"), suffix(other))];
    if page.stem != "docs/ladder" {
        let index = word(page, "the ladder", "阶梯目录");
        links.push(format!("[{index}](../ladder{})", suffix(page.language)));
    }
    if let Some(at) = page.rung().and_then(|rung| RUNGS.iter().position(|it| it.id == rung.id)) {
        let neighbours = [
            (word(page, "before: ", "上一级："), at.checked_sub(1)),
            (word(page, "next: ", "下一级："), Some(at + 1)),
        ];
        links.extend(
            neighbours
                .into_iter()
                .filter_map(|(label, at)| Some(format!("{label}{}", link(page, RUNGS.get(at?)?)))),
        );
    }
    links.join(" · ")
}

/// What a rung teaches, in four sentences.
fn lesson(page: &Page, rung: &Rung) -> Vec<String> {
    let language = page.language;
    let lines = [
        (word(page, "**Idea.** ", "**做法**："), rung.idea(language)),
        (word(page, "**Holds.** ", "**守得住**："), rung.holds(language)),
        (word(page, "**Breaks when** ", "**何时打破**："), rung.breaks_when(language)),
        (word(page, "**Next.** ", "**下一步**："), rung.next_step(language)),
    ];
    lines.map(|(label, text)| format!("* {label}{}", linked(page, rung, &text))).to_vec()
}

/// The text with its labels of rungs, "r08b", as links; the page's own rung needs none.
fn linked(page: &Page, of: &Rung, text: &str) -> String {
    let mut linked = String::new();
    for piece in text.split_inclusive(|one: char| !one.is_ascii_alphanumeric()) {
        let label = piece.trim_end_matches(|one: char| !one.is_ascii_alphanumeric());
        match find(label) {
            Ok(rung) if is_label(label) && rung.id != of.id => {
                linked += &format!("[{label}]({}{})", rung.id, suffix(page.language));
                linked += &piece[label.len()..];
            }
            _ => linked += piece,
        }
    }
    linked
}

/// What a rung claims, and where its file is.
fn claims(page: &Page, rung: &Rung) -> Vec<String> {
    let entries = |names: Vec<&str>| match names.is_empty() {
        true => word(page, "nothing", "无").to_owned(),
        false => {
            let entries: Vec<String> = names.iter().map(|name| entry(page, name)).collect();
            entries.join(word(page, ", ", "、"))
        }
    };
    let keeps = entries(rung.claims.iter().map(|claim| claim.as_str()).collect());
    let breaks = entries(rung.breaks.iter().map(|scenario| scenario.as_str()).collect());
    let mut lines = vec![
        format!("* {}{keeps}", word(page, "Keeps: ", "守住：")),
        format!("* {}{breaks}", word(page, "Breaks in: ", "在这些场景里打破：")),
    ];
    if let Some(stage) = rung.chapter(page.language) {
        lines.push(format!("* {}{stage}", word(page, "In the course: ", "课程里：")));
    }
    let file = format!("{}.rs", rung.id);
    let source = word(page, "Source: ", "源码：");
    lines.push(format!("* {source}[{file}](../../crates/ladder/src/{file})"));
    lines
}
