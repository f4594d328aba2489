//! Pages for people: HTML in English and Chinese, written here, and the scripts and styles of
//! `web/`, which the program carries. The scripts use the public API and nothing else.
//!
//! A page is a file of this room with its texts, its script in `web/`, and a route below.

mod assets;
mod board;
mod board_texts;
#[cfg(feature = "lab")]
pub mod lab;
mod page;
mod storefront;
mod texts;

use axum::Router;
use axum::routing::get;

use crate::http::App;

/// The routes of all pages, and of what they load.
pub fn routes(app: App) -> Router {
    Router::new()
        .route("/", get(storefront::page))
        .route("/board", board::route(&app))
        .route("/assets/{version}/{*name}", get(assets::file))
        .with_state(app)
}
