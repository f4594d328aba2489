//! Pages for people: HTML in English and Chinese, written here, and the scripts and styles of
//! `web/`, which the program carries. The scripts use the public API and nothing else.
//!
//! A page is a file of this module with its texts, its script in `web/`, and a route below.

mod asset_routes;
mod assets;
mod board;
mod board_orders;
mod board_sale;
mod board_texts;
mod form_field;
mod missing_page;
pub mod page;
pub mod sandbox;
mod site;
mod storefront;
mod texts;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

pub use assets::{Asset, SCRIPT, STYLE};
pub use form_field::field;
pub use missing_page::MissingPage;
pub use site::{BoardAdditions, NavigationEntry, Site, SiteAdditions};

use self::page::PageFiles;
use crate::http::Language;

/// The routes of all pages, and of what they load.
pub fn routes(site: Arc<Site>) -> Router {
    let page = |render: fn(&Site, Language) -> String| {
        PageFiles::new(|language| render(&site, language)).route()
    };
    let sandbox = if site.has_sandbox {
        Router::new().route("/sandbox/payments/{id}", page(sandbox::render))
    } else {
        Router::new()
    };
    Router::new()
        .route(site.shop, page(storefront::render))
        .route("/board", page(board::render))
        .route("/assets/{version}/{*name}", get(asset_routes::file))
        // Browsers ask for it where a page names no icon: an answer of the API that is looked at, say.
        .route("/favicon.ico", get(asset_routes::icon))
        .route("/{*path}", missing_page::route(&site))
        .merge(sandbox)
        .with_state(site)
}
