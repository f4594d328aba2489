//! `/` of a demonstration: the stage, and three doors, to watch, to break, to buy.

use std::sync::Arc;

use axum::Router;
use maud::{Markup, html};
use seckill::http::{Language, TextFile, Texts};
use seckill::pages::page::{HtmlPage, PageFiles};
use seckill::pages::{NavigationEntry, Site};

use crate::stage::{ShowPageData, ShowSize};

/// Where the shop is in a demonstration.
pub(super) const SHOP: &str = "/shop";

/// The pages of a demonstration.
pub(super) const NAVIGATION: [NavigationEntry; 5] = [
    ("/watch", ["Watch a sale", "看一场抢购"]),
    (SHOP, ["Shop", "商城"]),
    ("/board", ["Board", "看板"]),
    ("/lab", ["Break a design", "攻破一个设计"]),
    ("/lab/course", ["Course", "教程"]),
];

/// The texts of the first page.
static TEXTS: TextFile = TextFile::new(include_str!("doors.toml"));

/// The page.
pub(super) fn routes(site: &Arc<Site>, size: ShowSize) -> Router {
    Router::new().route("/", PageFiles::new(|language| render(site, language, size)).route())
}

fn render(site: &Site, language: Language, size: ShowSize) -> String {
    let (texts, show) = (TEXTS.of(language), ShowPageData::new(size, language));
    let page = HtmlPage {
        language,
        title: texts["title"],
        path: "/",
        styles: &["stage.css", "doors.css"],
        libraries: &[],
        modules: &["stage.js"],
        needs_scripts: false,
        texts: &show,
        main: content(texts, &show),
    };
    page.render(site)
}

fn content(texts: &Texts, show: &ShowPageData) -> Markup {
    let doors = [
        ("/watch", "watch", texts["watch"], texts["watch_about"]),
        ("/lab", "break", texts["break_it"], texts["break_about"]),
        (SHOP, "buy", texts["buy"], texts["buy_about"]),
    ];
    html! {
        h1 { (texts["title"]) }
        p.lead { (texts["lead"]) }
        div.first { (show.content(false)) }
        ul.doors {
            @for (path, id, name, about) in doors {
                li {
                    a.door id=(id) href=(path) {
                        svg.sign viewBox="0 0 96 40" aria-hidden="true" { (sign(id)) }
                        strong { (name) }
                        span { (about) }
                    }
                }
            }
        }
        p.also {
            (texts["also"]) a href="/board" { (texts["board"]) } (texts["also_course"])
            a href="/lab/course" { (texts["course"]) } (texts["end"])
        }
    }
}

/// A picture of what is behind the door: dots of which some are gold; two steps that cross; a ticket.
fn sign(door: &str) -> Markup {
    match door {
        "watch" => html! {
            @for at in 0..36 {
                circle.gold[at % 5 == 2] cx=(5 + at % 12 * 8) cy=(8 + at / 12 * 12) r="2.6" {}
            }
        },
        "break" => html! {
            path.lane d="M4 10h30l20 20h38" {}
            path.lane.other d="M4 30h30l20-20h38" {}
        },
        _ => html! {
            path.ticket d="M14 6h68v9a5 5 0 0 0 0 10v9H14v-9a5 5 0 0 0 0-10z" {}
            path.lane.other d="M56 9v22" {}
        },
    }
}
