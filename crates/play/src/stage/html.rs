//! `/watch`: the sale as one watches it.

use std::sync::Arc;

use axum::Router;
use maud::{Markup, html};
use serde::Serialize;

use super::director::ShowSize;
use super::show::CrowdKind;
use crate::doors::SHOP;
use ladder::{RUNGS, Rung};
use seckill::http::{Language, TextFile, Texts};
use seckill::pages::Site;
use seckill::pages::page::{HtmlPage, PageFiles};

/// The texts of the page. `{…}` is filled in by its scripts.
static TEXTS: TextFile = TextFile::new(include_str!("show.toml"));

/// What the page's script is given.
#[derive(Serialize)]
struct ShowPageData {
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
}

fn rung(rung: &'static Rung, language: Language) -> ShowRung {
    let label = rung.id.split('_').next().unwrap_or_default();
    let title = rung.title(language).replace('`', "");
    let colon = language.choose(": ", "：");
    let breaks = rung.breaks_when(language).replace('`', "");
    ShowRung { id: rung.id, title: format!("{label}{colon}{title}"), breaks }
}

/// The page.
pub(super) fn routes(site: &Arc<Site>, size: ShowSize) -> Router {
    let files = PageFiles::new(|language| {
        let crowd = size.crowd(CrowdKind::Rush, 0);
        let data = ShowPageData {
            texts: TEXTS.of(language),
            users: crowd.users,
            stock: crowd.stock,
            rungs: RUNGS.iter().map(|of| rung(of, language)).collect(),
        };
        render(site, language, &data)
    });
    Router::new().route("/watch", files.route())
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
        main: content(data.texts, &data.rungs),
    };
    page.render(site)
}

fn content(texts: &Texts, rungs: &[ShowRung]) -> Markup {
    html! {
        div.controls {
            h1 { (texts["title"]) }
            // Both texts have the room of the longer one: no button moves under the finger.
            button #start.primary.both type="button" disabled {
                span { (texts["start"]) }
                span.again { (texts["again"]) }
            }
            button #slow.quiet type="button" disabled { (texts["slow"]) }
            a #shop-link.primary.button href=(SHOP) target="_blank" hidden {}
        }
        div #beside.beside hidden {
            label for="design" { (texts["against"]) }
            select #design aria-describedby="breaks" {
                @for rung in rungs { option value=(rung.id) { (rung.title) } }
            }
            button #against.quiet type="button" disabled { (texts["against_button"]) }
            p #breaks.breaks {}
        }
        p #message.message role="status" data-kind="bad" hidden {}
        div #stage.stage data-phase="idle" {
            @for at in ["ours", "other"] { (half(texts, at)) }
        }
        ul.legend aria-label=(texts["dots"]) {
            li.caption aria-hidden="true" { (texts["dots"]) ": " }
            @for (kind, name) in [
                ("waiting", texts["dot_waiting"]), ("bought", texts["dot_bought"]),
                ("refused", texts["dot_refused"]), ("wrong", texts["dot_wrong"]),
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
            p.sentence role="status" {}
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
