//! What the page asks for. Not in the OpenAPI document, which describes the production API: a build
//! without the lab has none of this.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use uuid::Uuid;

use super::player::{Opened, PlayedState, Player, PlayerError};
use crate::course;
use crate::session::{PlanOfSession, Schedule, ScheduleStep};
use ladder::{self, Rung};
use seckill::http::body::JsonBody;
use seckill::http::problem::Code;
use seckill::http::{ApiError, Language};

/// More vouchers than two buyers can show anything with.
const MAX_STOCK: i32 = 9;

/// When a place in the queue may be free.
const FULL: Duration = Duration::from_secs(5);

/// When it is worth the while to ask again after a failure.
const FAILED: Duration = Duration::from_secs(30);

/// A session to be played from its beginning.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenBody {
    rung: String,
    #[serde(default)]
    schedule: String,
    #[serde(default = "two")]
    users: u8,
    #[serde(default = "two")]
    processes: u8,
    #[serde(default = "one")]
    stock: i32,
    /// The name of the session, a UUID: one of one's own, or that of the session to go on in.
    session: Option<String>,
}

const fn two() -> u8 {
    2
}

const fn one() -> i32 {
    1
}

/// A step.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepBody {
    actor: String,
}

/// Opens a session, or plays another schedule in one.
pub(super) async fn open(
    State(player): State<Player>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<OpenBody>,
) -> Result<Response, ApiError> {
    let rung = known(&body.rung).ok_or_else(|| invalid_rung(&body.rung))?;
    let schedule = body.schedule.parse::<Schedule>();
    let schedule = schedule.map_err(|error| ApiError::invalid(error.to_string()))?;
    for (name, value) in [("users", body.users), ("processes", body.processes)] {
        if !(1..=2).contains(&value) {
            return Err(ApiError::invalid(format!("{name} must be 1 or 2, not {value}")));
        }
    }
    if !(0..=MAX_STOCK).contains(&body.stock) {
        let stock = body.stock;
        return Err(ApiError::invalid(format!("stock must be 0 to {MAX_STOCK}, not {stock}")));
    }
    let OpenBody { users, processes, stock, .. } = body;
    let plan = PlanOfSession { rung, users, processes, stock };
    let session = match body.session {
        Some(session) => {
            session.parse().map_err(|_| ApiError::invalid("session must be a UUID"))?
        }
        None => Uuid::new_v4(),
    };
    Ok(match player.open(session, plan, schedule).await? {
        Opened::Played(played) => {
            (StatusCode::CREATED, Json(told_in(&headers, *played))).into_response()
        }
        Opened::Waits(place) => {
            (StatusCode::ACCEPTED, [(header::RETRY_AFTER, "1")], Json(place)).into_response()
        }
    })
}

/// What is said in it, in the language of the request.
fn told_in(headers: &HeaderMap, mut played: PlayedState) -> PlayedState {
    let language = Language::preferred(headers);
    let frames = played.frames.iter_mut().flat_map(|frame| &mut frame.broken);
    let witnesses = frames.chain(&mut played.state.broken).map(|broken| &mut broken.witness);
    let events = played.state.timeline.iter_mut().map(|event| &mut event.text);
    for said in witnesses.chain(events).chain(&mut played.refused) {
        if let Cow::Owned(translated) = course::event(said, language) {
            *said = translated;
        }
    }
    played
}

/// Says in the language of the request why it is refused.
pub(super) async fn refuse_in_language(request: Request, next: Next) -> Response {
    let language = Language::preferred(request.headers());
    let response = next.run(request).await;
    let Some(refused) = response.extensions().get::<Arc<ApiError>>() else { return response };
    let said = refused.detail.as_deref().map(|detail| course::event(detail, language));
    let Some(Cow::Owned(translated)) = said else { return response };
    ApiError::clone(refused).detail(translated).into_response()
}

/// Takes a step.
pub(super) async fn step(
    State(player): State<Player>,
    Path(session): Path<String>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<StepBody>,
) -> Result<Json<PlayedState>, ApiError> {
    let session = named(&session)?;
    let step = ScheduleStep::ALL.into_iter().find(|step| step.letter().to_string() == body.actor);
    let step = step.ok_or_else(|| ApiError::invalid("actor must be A, B, C, L or K"))?;
    Ok(Json(told_in(&headers, player.step(session, step).await?)))
}

/// Shows a session.
pub(super) async fn find(
    State(player): State<Player>,
    Path(session): Path<String>,
    headers: HeaderMap,
) -> Result<Json<PlayedState>, ApiError> {
    Ok(Json(told_in(&headers, player.look(named(&session)?).await?)))
}

/// Ends a session.
pub(super) async fn end(
    State(player): State<Player>,
    Path(session): Path<String>,
) -> Result<StatusCode, ApiError> {
    player.end(named(&session)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) fn known(name: &str) -> Option<&'static Rung> {
    ladder::find(name).ok()
}

fn invalid_rung(name: &str) -> ApiError {
    let name: String = name.chars().take(64).collect();
    ApiError::invalid(format!("there is no rung {name:?}; GET /lab shows all of them"))
}

fn named(session: &str) -> Result<Uuid, PlayerError> {
    session.parse().map_err(|_| PlayerError::NoSession)
}

impl From<PlayerError> for ApiError {
    fn from(error: PlayerError) -> Self {
        let detail = error.to_string();
        match error {
            PlayerError::Full { .. } => Self::unavailable().retry_after(FULL).detail(detail),
            PlayerError::NoSession => Self::new(Code::NotFound).detail(detail),
            PlayerError::Refused(_) => Self::invalid(detail),
            // What is not installed will not be there in a second.
            PlayerError::Failed(_) | PlayerError::NotInstalled(_) => {
                Self::unavailable().retry_after(FAILED).detail(detail)
            }
            PlayerError::Overloaded => Self::unavailable().detail(detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::player::failed;
    use super::*;

    #[test]
    fn whatever_the_player_refuses_is_said_in_chinese_too() {
        let errors = [
            PlayerError::Full { seats: 4, waiting: 16 },
            PlayerError::NoSession,
            failed(&anyhow::anyhow!("a cause")),
            PlayerError::Overloaded,
        ];
        let said = errors.map(|error| error.to_string());
        let missing = "ZooKeeper is not installed: run scripts/setup.sh lab, or apt-get install it";
        let schedule = "AXB".parse::<Schedule>().err().map(|error| error.to_string());
        let also = [Some(missing.to_owned()), schedule, invalid_rung("r99").detail];
        for text in said.into_iter().chain(also.into_iter().flatten()) {
            let translated = course::event(&text, Language::Chinese);
            assert!(matches!(translated, Cow::Owned(_)), "{text}");
        }
    }
}
