//! Speed against promises kept: what each mend costs.

use maud::{Markup, html};

use super::{cell_anchor, class, name, sign};
use crate::report::{LabReport, Outcome};
use ladder::Invariant;

/// Nothing where there was no rush.
pub(super) fn section(report: &LabReport) -> Markup {
    if report.rushes.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="rushes" {
            h2 #rushes { "Speed against promises kept" }
            p {
                "The same crowd on every rung: " (report.crowd.users) " buyers for "
                (report.crowd.stock) " vouchers. A promise counts as broken when a replay or the rush "
                "broke it."
            }
            div.scroll tabindex="0" role="region" aria-labelledby="rushes" {
                table.rushes {
                    thead {
                        tr {
                            th scope="col" { "design" }
                            th scope="col" { "rush" }
                            th scope="col" { "orders/s" }
                            th scope="col" { "promises broken" }
                        }
                    }
                    tbody { (rows(report)) }
                }
            }
        }
    }
}

fn rows(report: &LabReport) -> Markup {
    let rushes = report.rungs.iter().filter_map(|rung| Some((rung, report.rush(rung)?)));
    html! {
        @for (rung, rush) in rushes {
            @let (mark, wrong) = (Outcome::from(rush), !rush.as_claimed);
            @let broken: Vec<&str> = report.broken(rung).into_iter().map(Invariant::as_str).collect();
            tr {
                th scope="row" { a href=(format!("#{}", rung.id)) { (name(rung)) } }
                td.(class(mark, wrong)) {
                    @let title = format!("{}, rush: {}", rung.id, rush.outcome());
                    a href=(format!("#{}", cell_anchor(rung.id, None))) title=(title) aria-label=(title) {
                        (sign(mark, wrong))
                    }
                }
                td.rate { (format!("{:.0}", rush.crowd.orders_per_s)) }
                td { @if broken.is_empty() { "none" } @else { (broken.join(", ")) } }
            }
        }
    }
}
