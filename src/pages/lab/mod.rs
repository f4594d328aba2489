//! The ladder in the browser: somebody is the scheduler of two buyers on a rung.
//!
//! `player` plays one session at a time; `api` is what the page asks it for; `page` is the page,
//! and `course` what it says of the rungs.

mod api;
mod course;
mod page;
mod player;

use axum::Router;
use axum::routing::{get, post};

pub use player::{PlayedState, Player, PlayerError, PlayerOptions, PlayerThread};

/// The page and what it asks for. Without a player, because the stores are not the program's own,
/// the page says how to get one.
pub fn routes(player: Option<Player>) -> Router {
    let Some(player) = player else {
        return Router::new().route("/lab", get(page::without_player));
    };
    Router::new()
        .route("/lab", get(page::page))
        .route("/lab/course", get(page::course))
        .route("/api/lab/rungs/{rung}", get(api::rung))
        .route("/api/lab/sessions", post(api::open))
        .route("/api/lab/sessions/{session}", get(api::find).delete(api::end))
        .route("/api/lab/sessions/{session}/steps", post(api::step))
        .with_state(player)
}
