//! What was explored, as a page: one file that needs no network and no JavaScript. The tree is a
//! picture in which every leaf is a link; the timeline of a leaf shows when its link is followed.

use maud::{DOCTYPE, Markup, html};

use super::claims::place;
use super::exploration::{Exploration, Leaf, MAX_DRAWN};
use super::report::ExploreReport;
use super::schedule::{ExploreSchedule, ExploreStep};
use crate::report::counted;
use crate::report::html::{page_head, timeline_table};

/// Between two leaves, and between two steps, in the picture.
const ROW: usize = 16;
const COLUMN: usize = 34;

/// Over the shared style: a timeline is there when its leaf was clicked.
const TREE_STYLE: &str = "
.leaf-timeline { display: none; } .leaf-timeline:target { display: block; }
svg.tree { font: 11px ui-monospace, monospace; } svg.tree line { stroke: #8888; }
svg.tree text { fill: currentColor; } svg.tree a text.holds { fill: #1a7f37; }
svg.tree a text.breaks { fill: #d1242f; font-weight: bold; } svg.tree a text.unknown { fill: #9a6700; }
svg.tree a:hover text, svg.tree a:focus text { text-decoration: underline; }
";

/// The page.
pub fn page(report: &ExploreReport) -> String {
    let objections = report.objections();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (page_head("seckill lab explore: every interleaving", TREE_STYLE))
            body {
                header {
                    p.kicker { "seckill lab explore" }
                    h1 { "Every interleaving" }
                    p.lead {
                        "A leaf is a schedule, played on a real PostgreSQL and a real Redis: ✓ every "
                        "promise was kept, ✗ one was broken, ? nobody knows. Follow a leaf to its "
                        "timeline."
                    }
                    p.environment { (report.environment.parts().join(" · ")) }
                }
                main {
                    @if !objections.is_empty() {
                        section.wrong {
                            h2 { "Not as claimed" }
                            ul { @for objection in &objections { li { (objection) } } }
                        }
                    }
                    section {
                        h2 { "What was explored" }
                        ul { @for line in report.coverage() { li { (line) } } }
                    }
                    @for (nth, exploration) in report.explorations.iter().enumerate() {
                        (section(nth, exploration))
                    }
                }
            }
        }
    };
    page.into_string()
}

/// A word for what came of a setting: "6 schedules, 4 break one_per_user, 0 unknown".
pub fn sum(exploration: &Exploration) -> String {
    let mut parts = vec![counted(exploration.leaves.len(), "schedule")];
    let bound = exploration.limits.bound;
    parts.extend(bound.map(|bound| format!("at most {} each", counted(bound, "preemption"))));
    let broken = exploration.broken();
    parts.extend(broken.iter().map(|(invariant, count)| {
        format!("{count} break{} {invariant}", if *count == 1 { "s" } else { "" })
    }));
    if broken.is_empty() {
        parts.push("none breaks a promise".to_owned());
    }
    parts.push(format!("{} unknown", exploration.unknown()));
    if exploration.left_out > 0 {
        parts.push(format!("at least {} left out", exploration.left_out));
    }
    parts.join(", ")
}

fn section(nth: usize, exploration: &Exploration) -> Markup {
    let leaves = chosen(exploration);
    let left_out = exploration.leaves.len() - leaves.len();
    html! {
        section {
            details open[nth == 0] {
                summary { b { (place(&exploration.setting)) } ": " (sum(exploration)) }
                @if left_out > 0 {
                    p { "Of the schedules " (left_out) " are left out of the picture; every promise "
                        "that any of them breaks is broken by one that is shown." }
                }
                div.scroll tabindex="0" role="region" aria-label="tree of schedules" {
                    (tree(nth, &leaves))
                }
                @for (place, leaf) in leaves.iter().enumerate() { (of_leaf(nth, place, leaf)) }
            }
        }
    }
}

/// The leaves of the picture, as a tree has them: the shortest of each break are among them.
fn chosen(exploration: &Exploration) -> Vec<&Leaf> {
    let mut leaves: Vec<&Leaf> =
        exploration.broken().keys().filter_map(|it| exploration.shortest(*it)).collect();
    for leaf in &exploration.leaves {
        if leaves.len() < MAX_DRAWN && !leaves.iter().any(|known| std::ptr::eq(*known, leaf)) {
            leaves.push(leaf);
        }
    }
    leaves.sort_by_key(|leaf| leaf.schedule.0.iter().map(order).collect::<Vec<_>>());
    leaves
}

fn order(step: &ExploreStep) -> (usize, usize) {
    match *step {
        ExploreStep::Go(actor) => (0, actor),
        ExploreStep::EndLease => (1, 0),
        ExploreStep::Kill(actor) => (2, actor),
        ExploreStep::Pause(actor) => (3, actor),
    }
}

fn mark(leaf: &Leaf) -> (&'static str, &'static str) {
    match (&leaf.unknown, leaf.broken.is_empty()) {
        (Some(_), _) => ("unknown", "?"),
        (None, true) => ("holds", "✓"),
        (None, false) => ("breaks", "✗"),
    }
}

/// How many steps two schedules have in common at their beginnings.
fn shared(one: &ExploreSchedule, other: &ExploreSchedule) -> usize {
    one.0.iter().zip(&other.0).take_while(|(one, other)| one == other).count()
}

/// Every leaf is a row. A step that a row shares with the one above it is drawn there alone.
fn tree(section: usize, leaves: &[&Leaf]) -> Markup {
    let depth = leaves.iter().map(|leaf| leaf.schedule.0.len()).max().unwrap_or_default();
    let (width, height) = (COLUMN * (depth + 1) + 300, ROW * leaves.len() + ROW);
    html! {
        svg.tree width=(width) height=(height) viewBox=(format!("0 0 {width} {height}"))
            role="img" aria-label="each row is a schedule" {
            @for (row, leaf) in leaves.iter().enumerate() {
                (of_row(section, row, leaf, leaves, row.checked_sub(1).map(|above| leaves[above])))
            }
        }
    }
}

fn of_row(
    section: usize,
    row: usize,
    leaf: &Leaf,
    leaves: &[&Leaf],
    above: Option<&Leaf>,
) -> Markup {
    let y = ROW * (row + 1);
    let known = above.map_or(0, |above| shared(&above.schedule, &leaf.schedule));
    let names: Vec<String> =
        leaf.schedule.to_string().split_whitespace().map(str::to_owned).collect();
    // Where this row leaves the tree: at the first row that shares those steps.
    let from = (0..row)
        .rev()
        .take_while(|earlier| shared(&leaves[*earlier].schedule, &leaf.schedule) >= known)
        .last()
        .unwrap_or(row);
    let (class, sign) = mark(leaf);
    let broken: Vec<&str> = leaf.broken.iter().map(|broken| broken.invariant.as_str()).collect();
    let x = COLUMN * names.len() + 8;
    html! {
        @if known > 0 {
            line x1=(COLUMN * known - 8) y1=(ROW * (from + 1) + 2) x2=(COLUMN * known - 8) y2=(y - 4) {}
        }
        @for (place, name) in names.iter().enumerate().skip(known) {
            text x=(COLUMN * place + 4) y=(y) { (name) }
        }
        a href=(format!("#leaf-{section}-{row}")) {
            text.(class) x=(x) y=(y) { (sign) " " (class) @if !broken.is_empty() { " " (broken.join(", ")) } }
        }
    }
}

fn of_leaf(section: usize, place: usize, leaf: &Leaf) -> Markup {
    let (class, sign) = mark(leaf);
    html! {
        div.leaf-timeline id=(format!("leaf-{section}-{place}")) {
            h3 { (sign) " " (class) ": " code { (leaf.schedule) } }
            @for broken in &leaf.broken { p { (broken.invariant) ": " (broken.witness) } }
            @if let Some(why) = &leaf.unknown { p { (why) } }
            (timeline_table(&leaf.timeline))
        }
    }
}
