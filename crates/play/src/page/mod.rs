//! The ladder in the browser: somebody is the scheduler of two buyers on a rung.
//!
//! `player` plays a few sessions at a time, each in one of its `seats`; `request` is what it is asked, and `api` how
//! the page asks it; `html` is the page, its texts in `player.toml`; `rung_summary` is what it says of the rungs, and
//! `rung_file` the file of one, with what every interleaving came to, `explored`. The nudges are in `nudges.toml`.

mod api;
mod explored;
mod html;
mod player;
mod request;
mod rung_file;
mod rung_summary;
mod seats;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::{get, post};
use seckill::pages::Site;

pub use explored::{ExploredSchedule, ExploredSetting, explored};
pub use player::{Player, PlayerThread};
pub use request::{PlayedState, PlayerError, PlayerOptions};

/// The page and what it asks for.
pub fn routes(player: Player, site: &Arc<Site>) -> Router {
    Router::new()
        .route("/lab", html::route(site))
        .merge(course::routes(site))
        .merge(asked_by_page().route_layer(from_fn(api::refuse_in_language)))
        .with_state(player)
}

fn asked_by_page() -> Router<Player> {
    Router::new()
        .route("/api/lab/rungs/{rung}", get(rung_file::rung_file))
        .route("/api/lab/sessions", post(api::open))
        .route("/api/lab/sessions/{session}", get(api::find).delete(api::end))
        .route("/api/lab/sessions/{session}/steps", post(api::step))
}
