//! The registry as tables: the index, the claims, the matrix, promises and scenarios.

use ladder::{Invariant, RUNGS, Rung, Scenario};
use seckill::http::Language;
use seckill_lab::absent;

use super::page::{Page, suffix};

/// In either language.
pub fn word<T>(page: &Page, english: T, chinese: T) -> T {
    if page.language == Language::English { english } else { chinese }
}

/// A link to the page of a rung.
pub fn link(page: &Page, rung: &Rung) -> String {
    let id = rung.id;
    format!("[{id}]({}{id}{})", page.to_ladder(), suffix(page.language))
}

/// A link to the entry of a promise or a scenario.
pub fn entry(page: &Page, name: &str) -> String {
    format!("[`{name}`]({}glossary{}#{name})", page.to_ladder(), suffix(page.language))
}

fn row(cells: &[&str]) -> String {
    format!("| {} |", cells.join(" | "))
}

fn table(heads: &[&str], rows: impl Iterator<Item = String>) -> Vec<String> {
    let rule = vec!["---"; heads.len()];
    [row(heads), row(&rule)].into_iter().chain(rows).collect()
}

/// The rungs, by the parts of the ladder.
pub fn rungs(page: &Page) -> Vec<String> {
    let heads = word(
        page,
        ["rung", "what it does", "stage of the course"],
        ["级", "做法", "课程里的哪一步"],
    );
    let mut lines = Vec::new();
    for part in ladder::parts() {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend([format!("### {}", part[0].part(page.language)), String::new()]);
        let rows = part.iter().map(|rung| {
            let stage = rung.chapter(page.language);
            let stage = stage.unwrap_or(word(page, "beyond the course", "课程之外"));
            row(&[&link(page, rung), rung.title(page.language), stage])
        });
        lines.extend(table(&heads, rows));
    }
    lines
}

fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    if names.is_empty() { "–".to_owned() } else { names.join(", ") }
}

/// Whether a word is the label of a rung: "r08b".
pub fn is_label(word: &str) -> bool {
    let number = word.strip_prefix('r').and_then(|rest| rest.get(..2));
    number.is_some_and(|number| number.bytes().all(|one| one.is_ascii_digit()))
}

/// The rungs that a rung's file names as the next: "r02, r03".
fn next(rung: &Rung) -> String {
    let line = rung.line("Next");
    let words = line.split(|one: char| !one.is_ascii_alphanumeric());
    listed(words.filter(|word| is_label(word)).map(str::to_owned))
}

/// What each rung claims.
pub fn claims(page: &Page) -> Vec<String> {
    let heads =
        word(page, ["rung", "keeps", "breaks in", "next"], ["级", "守住", "在哪里打破", "接下来"]);
    let rows = RUNGS.iter().map(|rung| {
        let keeps = listed(rung.claims.iter().map(|claim| format!("`{claim}`")));
        let breaks = listed(rung.breaks.iter().map(|scenario| format!("`{scenario}`")));
        row(&[&link(page, rung), &keeps, &breaks, &next(rung)])
    });
    table(&heads, rows)
}

/// The promises.
pub fn promises(page: &Page) -> Vec<String> {
    let heads = word(page, ["name", "promise"], ["名称", "承诺"]);
    let rows = Invariant::ALL.iter().map(|invariant| {
        row(&[&entry(page, invariant.as_str()), invariant.sentence(page.language)])
    });
    table(&heads, rows)
}

/// Every promise, and under it the scenarios that put it at stake.
pub fn glossary(page: &Page) -> Vec<String> {
    let mut lines = Vec::new();
    for invariant in Invariant::ALL {
        lines.extend([format!("## {invariant}"), String::new()]);
        lines.extend([invariant.sentence(page.language).to_owned(), String::new()]);
        let at_stake = Scenario::ALL.iter().filter(|scenario| scenario.invariant() == *invariant);
        for scenario in at_stake {
            lines.extend([format!("### {scenario}"), String::new()]);
            lines.extend([sentence(page, *scenario), String::new()]);
        }
    }
    lines.pop();
    lines
}

fn sentence(page: &Page, scenario: Scenario) -> String {
    let story = scenario.story(page.language);
    let stop = word(page, ".", "。");
    let stop = if story.ends_with(['?', '？']) { "" } else { stop };
    let mut letters = story.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase).collect::<String>();
    let story = format!("{first}{}{stop}", letters.as_str());
    let breaks = RUNGS.iter().filter(|rung| rung.breaks.contains(&scenario));
    let breaks: Vec<String> = breaks.map(|rung| link(page, rung)).collect();
    match (page.language, breaks.is_empty()) {
        (Language::English, true) => format!("{story} It breaks no rung."),
        (Language::Chinese, true) => format!("{story}没有哪一级因此打破承诺。"),
        (Language::English, false) => format!("{story} It breaks {}.", breaks.join(", ")),
        (Language::Chinese, false) => format!("{story}打破承诺的有 {}。", breaks.join("、")),
    }
}

/// The registry as a matrix.
pub fn matrix() -> Vec<String> {
    let label = |rung: &Rung| {
        let label = rung.id.trim_start_matches('r').split('_').next().unwrap_or_default();
        label.trim_start_matches('0').to_owned()
    };
    let row = |name: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>4}")).collect();
        format!("{name:<19}{cells}").trim_end().to_owned()
    };
    let mut lines = vec!["```text matrix".to_owned(), row("", RUNGS.iter().map(label).collect())];
    for invariant in Invariant::ALL {
        let at_stake = Scenario::ALL.iter().filter(|scenario| scenario.invariant() == *invariant);
        let rows: Vec<String> = at_stake
            .map(|scenario| {
                let sign = |rung: &Rung| match absent(*scenario, rung) {
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
    lines.push("```".to_owned());
    lines
}
