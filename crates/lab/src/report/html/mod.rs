//! The report as a page: one file that needs no network, and says so to the browser.
//!
//! What the page is made of: `matrix`, every cell at a glance, each a link; `rushes`, speed against
//! promises kept; `rung`, a chapter a rung; `timeline`, a replay in lanes. Colours are variables of `style.css`, so that light, dark and paper
//! are one page; no colour says anything that a sign or a word does not.

mod matrix;
mod rung;
mod rushes;
mod timeline;

use maud::{Markup, PreEscaped, html};
use report::{Document, Scripts};

use super::sentences::{label, mechanism};
use super::{LabReport, Outcome};
use ladder::{RUNGS, Rung, Scenario};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

/// The page.
pub fn page(report: &LabReport) -> String {
    let body = html! {
        (head(report))
        main {
            (matrix::section(report))
            (objections(&report.objections()))
            (skipped(report))
            (rushes::section(report))
            section aria-labelledby="ladder" {
                h2 #ladder { "The ladder, rung by rung" }
                p.tools {
                    button type="button" data-open="true" { "Open everything" }
                    button type="button" data-open="false" { "Close everything" }
                }
                @for rung in &report.rungs { (rung::chapter(report, rung)) }
            }
        }
        footer { p { (report.environment.parts().join(" · ")) } }
        script { (PreEscaped(SCRIPT)) }
    };
    let title = "seckill lab: what each design keeps, and where it breaks";
    Document { title, style: STYLE, scripts: Scripts::Own }.page(&body)
}

fn head(report: &LabReport) -> Markup {
    let right = report.is_as_claimed();
    html! {
        header {
            p.kicker { "seckill lab" }
            h1 { "What each design keeps, and where it breaks" }
            p.lead {
                "Every rung is a way to run a flash sale that somebody really ships. Each was put "
                "through the same schedules, step by step, on a real PostgreSQL and a real Redis, "
                "in real processes, and judged by the orders in the database."
            }
            p.(if right { "verdict right" } else { "verdict wrong" }) role="status" {
                span.sign aria-hidden="true" { (if right { "✓" } else { "!" }) }
                span { (report.verdict()) }
            }
            p.environment { (report.environment.parts().join(" · ")) }
        }
    }
}

/// What speaks against the registry, where anything does.
fn objections(objections: &[String]) -> Markup {
    html! {
        @if !objections.is_empty() {
            section.wrong aria-labelledby="objections" {
                h2 #objections { "Not as claimed" }
                ul { @for objection in objections { li { (objection) } } }
            }
        }
    }
}

fn skipped(report: &LabReport) -> Markup {
    let skipped = report.skipped();
    html! {
        @if !skipped.is_empty() {
            section aria-labelledby="skipped" {
                h2 #skipped { "Skipped" }
                ul {
                    @for (how, names) in &skipped {
                        li { (names.join(", ")) ": " (how) }
                    }
                }
            }
        }
    }
}

/// The anchor of a cell, and of a rung's rush.
fn cell_anchor(rung: &str, scenario: Option<Scenario>) -> String {
    format!("{rung}--{}", scenario.map_or("rush", Scenario::as_str))
}

/// The sign of a mark, for the eye; the words stand beside it, or in the element's label.
fn sign(mark: Outcome, wrong: bool) -> Markup {
    html! {
        span.sign aria-hidden="true" {
            (mark.sign()) @if wrong { b { "!" } }
        }
    }
}

/// The class of a mark.
fn class(mark: Outcome, wrong: bool) -> String {
    match mark {
        _ if wrong => "wrong".to_owned(),
        Outcome::Absent => "absent".to_owned(),
        mark => mark.to_string(),
    }
}

/// A rung's name in full, and the short one where there is little room.
fn name(rung: &Rung) -> Markup {
    html! { b { (label(rung)) } span.mechanism { " " (mechanism(rung)) } }
}

/// A sentence of a rung's documentation: code in backquotes, and other rungs by their numbers.
fn prose(text: &str) -> Markup {
    html! {
        @for (nth, part) in text.split('`').enumerate() {
            @if nth % 2 == 1 { code { (part) } } @else { (linked(part)) }
        }
    }
}

fn linked(text: &str) -> Markup {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(begin) = rest.find(is_name) {
        let after = &rest[begin..];
        let (word, next) = after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len()));
        words.push((&rest[..begin], word));
        rest = next;
    }
    let named = |word: &str| RUNGS.iter().find(|rung| label(rung) == word || rung.id == word);
    html! {
        @for (between, word) in words {
            (between)
            @match named(word) {
                Some(rung) => a href=(format!("#{}", rung.id)) { (word) },
                None => (word),
            }
        }
        (rest)
    }
}
