//! What was explored, as a page: one file that needs no network. It shows the schedules that break a
//! promise, the shortest first, each with its timeline. With JavaScript one goes through all schedules,
//! step by step: what was played is on the page, so that it needs no server.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::claims::place;
use super::exploration::{Exploration, Leaf, MAX_REPLAYED};
use super::replay_tree::ReplayTree;
use super::report::ExploreReport;
use crate::report::html::{objections, page_head, timeline_table};

/// Schedules of one setting on the page: more are not read.
const MAX_SHOWN: usize = 50;

const SCRIPT: &str = include_str!("replay.js");

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
                        "Every schedule was played on a real PostgreSQL and a real Redis. Be the "
                        "scheduler: decide who takes the next step, and see what was recorded. Below "
                        "it are the schedules that break a promise, the shortest first."
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
                script { (PreEscaped(SCRIPT)) }
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
            (player(exploration))
            @for leaf in leaves.iter().take(MAX_SHOWN) { (schedule(leaf)) }
            @if leaves.len() > MAX_SHOWN { p { "And " (leaves.len() - MAX_SHOWN) " longer schedules." } }
        }
    }
}

/// The recorded schedules, for `replay.js`. Without it nothing is shown.
fn player(exploration: &Exploration) -> Markup {
    let Some(tree) = ReplayTree::of(&exploration.leaves) else {
        return html! {
            p { "More than " (MAX_REPLAYED) " schedules: only those that break something are on this page." }
        };
    };
    // Inside a script element both its end tag and a comment have a meaning.
    let Ok(json) = serde_json::to_string(&tree) else { unreachable!("a tree of texts is JSON") };
    let json = json.replace('<', "\\u003c");
    html! {
        div.replay hidden {
            div.replay-moves {
                span.replay-next {}
                button.replay-undo type="button" { "Undo" }
                button.replay-again type="button" { "From the beginning" }
                code.replay-schedule {}
            }
            div.scroll { table.timeline { thead {} tbody {} } }
            p.replay-verdict role="status" {}
            script type="application/json" { (PreEscaped(json)) }
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
