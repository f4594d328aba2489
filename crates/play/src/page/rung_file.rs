//! A rung's file as the page shows it: its tokens, how its neighbours differ, and what was explored. Made once, and
//! sent compressed.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use serde::Serialize;

use super::api::known;
use super::explored::{ExploredSetting, explored};
use course::source_code::{self, SourceToken};
use ladder::{RUNGS, Rung};
use seckill::http::ApiError;
use seckill::http::problem::Code;
use seckill::http::static_file::StaticFile;
use seckill_lab::session::{DiffLine, diff};

/// A rung's file.
#[derive(Debug, Serialize)]
struct RungFile {
    id: &'static str,
    lines: Vec<Vec<SourceToken<'static>>>,
    /// Against the rung before, every line of code.
    from_previous: Vec<DiffLine>,
    /// What the next one changes.
    to_next: Vec<DiffLine>,
    /// What every interleaving came to.
    explored: Vec<&'static ExploredSetting>,
}

static FILES: LazyLock<Vec<StaticFile>> = LazyLock::new(|| {
    let neighbour = |at: Option<usize>| at.and_then(|at| RUNGS.get(at));
    let file = |(at, rung): (usize, &'static Rung)| {
        let previous = neighbour(at.checked_sub(1));
        let file = RungFile {
            id: rung.id,
            lines: source_code::lines(rung.source),
            from_previous: previous.map(|previous| diff(previous, rung)).unwrap_or_default(),
            to_next: neighbour(Some(at + 1)).map(|next| diff(rung, next)).unwrap_or_default(),
            explored: explored(rung),
        };
        let Ok(json) = serde_json::to_vec(&file) else { unreachable!("a rung's file is JSON") };
        StaticFile::new(HeaderValue::from_static("application/json"), json.into())
    };
    RUNGS.iter().enumerate().map(file).collect()
});

/// The file of a rung.
pub(super) async fn rung_file(
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let rung = known(&id);
    let at = rung.and_then(|rung| RUNGS.iter().position(|known| known.id == rung.id));
    let no_such = || ApiError::new(Code::NotFound).detail("there is no such rung");
    // Made on a thread where that may take a while.
    let files = tokio::task::spawn_blocking(|| LazyLock::force(&FILES)).await;
    let file = files.ok().and_then(|files| files.get(at?)).ok_or_else(no_such)?;
    Ok(file.answer(&headers).await)
}
