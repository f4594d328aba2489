//! Pages for people: HTML in English and Chinese, written here, and the scripts and styles of
//! `web/`, which the program carries. The scripts use the public API and nothing else.
//!
//! A page is a file of this room with its texts, its script in `web/`, and a route below.

mod assets;
mod board;
mod board_texts;
pub mod page;
mod site;
mod storefront;
mod texts;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

pub use assets::{Asset, SCRIPT, STYLE};
pub use board::field;
pub use site::{BoardAdditions, Site, SiteAdditions};

/// The routes of all pages, and of what they load.
pub fn routes(site: Arc<Site>) -> Router {
    Router::new()
        .route("/", storefront::route(&site))
        .route("/board", board::route(&site))
        .route("/assets/{version}/{*name}", get(assets::file))
        .with_state(site)
}
