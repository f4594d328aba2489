//! `/watch`: the sale as one watches it.

use std::sync::Arc;

use axum::Router;
use maud::{Markup, html};
use serde::Serialize;

use super::director::ShowSize;
use super::show::CrowdKind;
use crate::doors::SHOP;
use ladder::{Lesson, RUNGS, Rung};
use seckill::http::{Language, TextFile, Texts};
use seckill::pages::Site;
use seckill::pages::page::{HtmlPage, PageFiles};

/// The rungs that the crowd of a rush has broken, each in a line: `make beaten` lets it meet all of them.
const BEATEN: &str = include_str!("beaten.txt");

/// The texts of the page. `{…}` is filled in by its scripts.
static TEXTS: TextFile = TextFile::new(include_str!("show.toml"));

/// What the page's script is given.
#[derive(Serialize)]
pub(crate) struct ShowPageData {
    #[serde(flatten)]
    texts: &'static Texts,
    /// Buyers and vouchers of a rush.
    users: u32,
    stock: i32,
    rungs: Vec<ShowRung>,
}

/// A design that may stand beside this server.
#[derive(Serialize)]
struct ShowRung {
    id: &'static str,
    title: String,
    breaks: String,
    /// Whether this crowd breaks it.
    is_beaten: bool,
    /// Where the game plays it, with the order of steps that breaks it where there is one.
    play: String,
}

fn rung(rung: &'static Rung, language: Language) -> ShowRung {
    let label = rung.id.split('_').next().unwrap_or_default();
    let title = rung.title(language).replace('`', "");
    let colon = language.choose(": ", "：");
    let breaks = rung.breaks_when(language).replace('`', "");
    let is_beaten = BEATEN.lines().any(|line| line == rung.id);
    ShowRung {
        id: rung.id,
        title: format!("{label}{colon}{title}"),
        breaks,
        is_beaten,
        play: play(rung),
    }
}

/// The game's page of the rung, and the steps of its first lesson that breaks it.
fn play(rung: &'static Rung) -> String {
    let breaking = rung.lessons().iter().find(|it| !rung.claims_to_survive(it.scenario));
    let steps = breaking.map(|Lesson { users, processes, stock, schedule, .. }| {
        format!("&users={users}&processes={processes}&stock={stock}&schedule={schedule}")
    });
    format!("/lab?rung={}{}", rung.id, steps.unwrap_or_default())
}

/// The page.
pub(super) fn routes(site: &Arc<Site>, size: ShowSize) -> Router {
    let files =
        PageFiles::new(|language| render(site, language, &ShowPageData::new(size, language)));
    Router::new().route("/watch", files.route())
}

impl ShowPageData {
    /// For a stage with such crowds.
    pub(crate) fn new(size: ShowSize, language: Language) -> Self {
        let crowd = size.crowd(CrowdKind::Rush, 0);
        let mut rungs: Vec<_> = RUNGS.iter().map(|of| rung(of, language)).collect();
        rungs.sort_by_key(|rung| !rung.is_beaten);
        Self { texts: TEXTS.of(language), users: crowd.users, stock: crowd.stock, rungs }
    }

    /// The stage, below a heading that a page has already, or with its own.
    pub(crate) fn content(&self, has_heading: bool) -> Markup {
        content(self.texts, &self.rungs, has_heading)
    }
}

fn render(site: &Site, language: Language, data: &ShowPageData) -> String {
    let page = HtmlPage {
        language,
        title: data.texts["title"],
        path: "/watch",
        styles: &["stage.css"],
        libraries: &[],
        modules: &["stage.js"],
        needs_scripts: true,
        texts: data,
        main: data.content(true),
    };
    page.render(site)
}

fn content(texts: &Texts, rungs: &[ShowRung], has_heading: bool) -> Markup {
    html! {
        div.show { (controls(texts, has_heading)) (beside(texts, rungs))
            p #message.message role="status" data-kind="bad" hidden {}
            div #stage.stage data-phase="idle" {
                @for at in ["ours", "other"] { (half(texts, at)) }
            }
            p #said.unseen role="status" {}
            (legend(texts))
        }
    }
}

fn controls(texts: &Texts, has_heading: bool) -> Markup {
    html! {
        div.controls {
            @if has_heading { h1 { (texts["title"]) } }
            // Both texts have the room of the longer one: no button moves under the finger.
            button #start.primary.both type="button" disabled {
                span { (texts["start"]) }
                span.again { (texts["again"]) }
            }
            button #slow.quiet type="button" disabled { (texts["slow"]) }
            button #failover.quiet type="button" disabled { (texts["failover"]) }
            a #shop-link.primary.button href=(SHOP) target="_blank" hidden {}
            button #kill.danger type="button" hidden { (texts["kill"]) }
        }
    }
}

/// The designs that may stand beside this server: first those that this crowd breaks.
fn beside(texts: &Texts, rungs: &[ShowRung]) -> Markup {
    html! {
        div #beside.beside hidden {
            label for="design" { (texts["against"]) }
            select #design aria-describedby="breaks" {
                @for group in rungs.chunk_by(|one, next| one.is_beaten == next.is_beaten) {
                    optgroup label=(texts[if group[0].is_beaten { "beaten" } else { "not_beaten" }]) {
                        @for rung in group { option value=(rung.id) { (rung.title) } }
                    }
                }
            }
            button #against.quiet type="button" disabled { (texts["against_button"]) }
            p #breaks.breaks {}
        }
    }
}

fn legend(texts: &Texts) -> Markup {
    html! {
        ul.legend aria-label=(texts["dots"]) {
            li.caption aria-hidden="true" { (texts["dots"]) " " }
            @for (kind, name) in [
                ("waiting", texts["dot_waiting"]), ("bought", texts["dot_bought"]),
                ("star", texts["dot_star"]), ("refused", texts["dot_refused"]), ("wrong", texts["dot_wrong"]),
            ] {
                li data-dot=(kind) { (name) }
            }
        }
    }
}

fn half(texts: &Texts, id: &str) -> Markup {
    html! {
        section.half id=(id) hidden[id == "other"] aria-labelledby={ (id) "-title" } {
            div.head {
                h2 id={ (id) "-title" } { @if id == "ours" { (texts["ours"]) } }
                p.left {
                    @if !texts["left_before"].is_empty() { span { (texts["left_before"]) } " " }
                    b.number {} " " span.of {}
                }
            }
            div.field {
                canvas.dots role="img" aria-label=(texts["dots"]) {}
                p.count aria-hidden="true" {}
            }
            p.sentence {}
            a.steps hidden {}
            div.figures {
                canvas.plot role="img" aria-label=(texts["plot"]) title=(texts["plot"]) {}
                dl {
                    @for (figure, name) in [
                        ("answers", texts["answers"]), ("orders", texts["orders"]),
                        ("p50", texts["p50"]), ("p99", texts["p99"]),
                    ] {
                        div { dt { (name) } dd data-figure=(figure) { "–" } }
                    }
                }
            }
        }
    }
}
