//! Pages for people: HTML in English and Chinese, written here, and the scripts and styles of
//! `web/`, which the program carries. The scripts use the public API and nothing else.
//!
//! A page is a file of this module, its texts in TOML beside it, its script in `web/`, and a route below.

mod asset_routes;
mod assets;
pub mod board;
mod board_orders;
mod board_sale;
mod form_field;
mod login_form;
mod missing_page;
pub mod page;
mod question;
pub mod sandbox;
mod site;
pub mod storefront;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

pub use assets::{Asset, SCRIPT, STYLE};
pub use missing_page::MissingPage;
pub use site::{NavigationEntry, Site};

use self::page::PageFiles;
use crate::http::App;

/// The shop, the board, and what stands beside every page.
pub fn routes(app: &App, site: &Arc<Site>) -> Router {
    let shop = PageFiles::new(|language| storefront::page(language).render(site));
    let board = PageFiles::new(|language| board::page(language).render(site));
    Router::new().route("/", shop.route()).route("/board", board.route()).merge(beside(app, site))
}

/// What every page loads, the sandbox where buyers pay in one, and the page that is not there.
pub fn beside(app: &App, site: &Arc<Site>) -> Router {
    let sandbox = if app.has_sandbox { sandbox::routes(app, site) } else { Router::new() };
    Router::new()
        .route("/assets/{version}/{*name}", get(asset_routes::file))
        // Browsers ask for it if a page names no icon: an answer of the API that is looked at, say.
        .route("/favicon.ico", get(asset_routes::icon))
        .route("/{*path}", missing_page::route(site))
        .with_state(Arc::clone(site))
        .merge(sandbox)
}
