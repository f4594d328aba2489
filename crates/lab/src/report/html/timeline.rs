//! A replay in lanes: time runs down, every actor has a column, and what the lab does goes
//! across. A real table, which a screen reader can walk.

use maud::{Markup, html};

use crate::TimelineLine;

pub(crate) fn table(lines: &[TimelineLine]) -> Markup {
    let mut actors: Vec<&str> = Vec::new();
    for actor in lines.iter().filter_map(|line| line.actor.as_deref()) {
        if !actors.contains(&actor) {
            actors.push(actor);
        }
    }
    // Wide enough to read, however many there are (the box around it scrolls), and not so wide
    // that the eye loses its way from one lane to the next.
    let lanes = actors.len().max(1);
    let width = format!("min-width: {}rem; max-width: {}rem", 2 + 8 * lanes, 2 + 19 * lanes);
    html! {
        div.scroll tabindex="0" role="region" aria-label="timeline" {
            table.timeline style=(width) {
                thead {
                    tr {
                        th.step scope="col" { span.unseen { "step" } }
                        @for actor in &actors { th scope="col" { span.actor { (actor) } } }
                    }
                }
                tbody {
                    @for (nth, line) in lines.iter().enumerate() { (row(nth + 1, line, &actors)) }
                }
            }
        }
    }
}

fn row(step: usize, line: &TimelineLine, actors: &[&str]) -> Markup {
    html! {
        tr {
            th.step scope="row" { (step) }
            @match &line.actor {
                Some(actor) => {
                    @for column in actors {
                        @if column == actor {
                            td.lane { span.event.(line.event.class()) { (line.event) } }
                        } @else {
                            td.lane {}
                        }
                    }
                }
                None => td.lab colspan=(actors.len().max(1)) { (line.event) },
            }
        }
    }
}
