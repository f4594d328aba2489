//! What was explored, as a page: one file that needs no network and no JavaScript. It shows the schedules
//! that break a promise, the shortest first, each with its timeline; the others are only counted.

use maud::{DOCTYPE, Markup, html};

use super::claims::place;
use super::exploration::{Exploration, Leaf};
use super::report::ExploreReport;
use crate::report::html::{objections, page_head, timeline_table};

/// Schedules of one setting on the page: more are not read.
const MAX_SHOWN: usize = 50;

/// The page.
pub fn page(report: &ExploreReport) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (page_head("seckill lab explore: every interleaving"))
            body {
                header {
                    p.kicker { "seckill lab explore" }
                    h1 { "Every interleaving" }
                    p.lead {
                        "Every schedule was played on a real PostgreSQL and a real Redis. These are "
                        "the schedules that break a promise, and those of which nothing is known."
                    }
                    p.environment { (report.environment.parts().join(" · ")) }
                }
                main {
                    (objections(&report.objections()))
                    section {
                        h2 { "What was explored" }
                        ul { @for line in report.coverage() { li { (line) } } }
                    }
                    @for exploration in &report.explorations { (section(exploration)) }
                }
            }
        }
    };
    page.into_string()
}

fn section(exploration: &Exploration) -> Markup {
    let mut leaves: Vec<&Leaf> =
        exploration.leaves.iter().filter(|leaf| leaf.tells_something()).collect();
    leaves.sort_by_key(|leaf| leaf.schedule.rank());
    html! {
        section {
            h2 { (place(&exploration.setting)) }
            p { (exploration.sum()) "." }
            @for leaf in leaves.iter().take(MAX_SHOWN) { (schedule(leaf)) }
            @if leaves.len() > MAX_SHOWN { p { "And " (leaves.len() - MAX_SHOWN) " longer schedules." } }
        }
    }
}

fn schedule(leaf: &Leaf) -> Markup {
    let class = if leaf.unknown.is_some() { "unknown" } else { "breaks" };
    let broken: Vec<&str> = leaf.broken.iter().map(|broken| broken.invariant.as_str()).collect();
    html! {
        details.cell.(class) {
            summary { code { (leaf.schedule) } " " span.outcome { (class) " " (broken.join(", ")) } }
            div.body {
                (timeline_table(&leaf.timeline))
                @for broken in &leaf.broken { p.witness { (broken.invariant) ": " (broken.witness) } }
                @if let Some(why) = &leaf.unknown { p.witness { (why) } }
            }
        }
    }
}
