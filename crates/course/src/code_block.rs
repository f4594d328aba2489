//! The fenced blocks of a chapter. The words after the fence say what stands in one: `rust r01_naive`,
//! `text r01_naive last_one`, `text isolation CASE SERVER LEVEL`, `mermaid`.

use ladder::{Rung, Scenario};
use maud::{Markup, html};
use seckill::http::Language;

use super::TEXTS;
use super::diagram::SequenceDiagram;
use super::{drawing, playing};
use crate::source_code;

/// A rung and a scenario, as a block names them.
pub(super) fn played(rung: &str, scenario: &str) -> Option<(&'static Rung, Scenario)> {
    Some((ladder::find(rung).ok()?, scenario.parse().ok()?))
}

/// A block as HTML. `shown`: what the region around a diagram says that it shows.
pub(super) fn html(
    info: &str,
    text: &str,
    shown: Option<(&Rung, Scenario)>,
    language: Language,
) -> Markup {
    let words: Vec<&str> = info.split_whitespace().collect();
    match words[..] {
        ["rust", ..] => rust(&at_the_margin(text)),
        ["mermaid"] => diagram(text, shown, language),
        ["text", "isolation", "matrix"] => {
            html! { (plain(text)) (playing::isolation(None, language)) }
        }
        ["text", "isolation", case, ..] => {
            html! { (plain(text)) (playing::isolation(Some(case), language)) }
        }
        ["java" | "lua" | "sql", ..] => plain(&at_the_margin(text)),
        ["text", rung, scenario] => html! {
            (plain(text))
            @if let Some((rung, scenario)) = played(rung, scenario) {
                (playing::scenario(rung, scenario, language))
            }
        },
        _ => plain(text),
    }
}

/// The tab stop is for readers without a mouse, who scroll it with the arrows.
fn plain(text: &str) -> Markup {
    html! { pre tabindex="0" { code { (text) } } }
}

/// A quotation from the inside of a function, without the indentation that all its lines have.
fn at_the_margin(text: &str) -> String {
    let indentation = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let least = lines().map(indentation).min().unwrap_or_default();
    let moved = text.lines().map(|line| line.get(least..).unwrap_or_default());
    moved.flat_map(|line| [line, "\n"]).collect()
}

/// Rust in colours.
pub(super) fn rust(text: &str) -> Markup {
    html! {
        pre tabindex="0" {
            code {
                @for token in source_code::tokens(text) {
                    @match token.class {
                        Some(class) => span class=(class) { (token.text) },
                        None => (token.text),
                    }
                }
            }
        }
    }
}

fn diagram(text: &str, shown: Option<(&Rung, Scenario)>, language: Language) -> Markup {
    // A test draws all of them.
    let Ok(diagram) = text.parse::<SequenceDiagram>() else { return plain(text) };
    let name = shown.map(|(rung, scenario)| format!("{}, {scenario}", rung.id)).unwrap_or_default();
    let label = TEXTS.of(language)["diagram"].replace("{name}", &name);
    html! {
        div.diagram tabindex="0" role="group" aria-label=(label) { (drawing::svg(&diagram)) }
        @if let Some((rung, scenario)) = shown {
            (playing::scenario(rung, scenario, language))
        }
    }
}
