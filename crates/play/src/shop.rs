//! The server's shop and board, with what a demonstration has beside them.

use axum::Router;
use maud::html;
use seckill::http::{Language, TextFile};
use seckill::pages::page::{HtmlPage, PageFiles};
use seckill::pages::{Site, board, storefront};

use super::doors::SHOP;

/// The texts beside the board.
static TEXTS: TextFile = TextFile::new(include_str!("shop.toml"));

/// The pages. `admin_phone`: of the administrator whom nobody had to configure.
pub(super) fn routes(site: &Site, admin_phone: Option<&str>) -> Router {
    let shop = PageFiles::new(|language| shop(site, language));
    let board = PageFiles::new(|language| board(site, language, admin_phone));
    Router::new().route(SHOP, shop.route()).route("/board", board.route())
}

fn shop(site: &Site, language: Language) -> String {
    let page = storefront::page(language);
    let main = html! {
        (page.main)
        script type="module" src=(site.asset("shop_place.js")) {}
    };
    HtmlPage { path: SHOP, main, ..page }.render(site)
}

fn board(site: &Site, language: Language, admin_phone: Option<&str>) -> String {
    let texts = TEXTS.of(language);
    let page = board::page(language);
    let main = html! {
        p #show-note.note { (texts["stage_before"]) " " a href="/watch" { (texts["stage_link"]) } }
        (page.main)
        @if let Some(phone) = admin_phone {
            script #demo type="module" src=(site.asset("board_demo.js"))
                data-phone=(phone) data-login=(texts["login"]) {}
        }
    };
    HtmlPage { main, ..page }.render(site)
}
