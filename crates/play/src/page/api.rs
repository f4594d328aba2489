//! What the page asks for. Not in the OpenAPI document, which describes the production API: a build
//! without the lab has none of this.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use uuid::Uuid;

use super::player::Player;
use super::request::{PlayedState, PlayerError};
use ladder::{self, Capability, Rung};
use seckill::http::body::JsonBody;
use seckill::http::problem::Code;
use seckill::http::{ApiError, Language};
use seckill_lab::game::{GamePlan, NoSchedule, Schedule, Step};
use seckill_lab::told::{InWords, words};

/// More vouchers than two buyers can show anything with.
const MAX_STOCK: i32 = 9;

/// When a seat may be free.
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
    /// Begins with an order of A's that was not paid in time.
    #[serde(default)]
    unpaid: bool,
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
) -> Result<(StatusCode, Json<PlayedState<String>>), PageRefusal> {
    let rung = known(&body.rung).ok_or_else(|| no_rung(&body.rung))?;
    let schedule = body.schedule.parse::<Schedule>();
    let schedule = schedule.map_err(|error| PageRefusal::NoSchedule { error })?;
    for (name, value) in [("users", body.users), ("processes", body.processes)] {
        if !(1..=2).contains(&value) {
            return Err(PageRefusal::OneOrTwo { name, value });
        }
    }
    if !(0..=MAX_STOCK).contains(&body.stock) {
        return Err(PageRefusal::Stock { most: MAX_STOCK, stock: body.stock });
    }
    if body.unpaid && !rung.can(Capability::Expire) && !rung.can(Capability::Line) {
        return Err(PageRefusal::NothingToPay { rung: rung.id });
    }
    if body.unpaid && body.stock == 0 {
        return Err(PageRefusal::NothingSold { most: MAX_STOCK });
    }
    let OpenBody { users, processes, stock, unpaid, .. } = body;
    let plan = GamePlan { is_unpaid: unpaid, ..GamePlan::new(rung, users, processes, stock) };
    let session = match body.session {
        Some(session) => session.parse().map_err(|_| PageRefusal::NoUuid)?,
        None => Uuid::new_v4(),
    };
    let played = player.open(session, plan, schedule).await?;
    Ok((StatusCode::CREATED, Json(told_in(&headers, played))))
}

/// What is said in it, in the language of the request.
fn told_in(headers: &HeaderMap, played: PlayedState) -> PlayedState<String> {
    let language = Language::preferred(headers);
    let PlayedState { session, refused, mut frames, mut state } = played;
    for broken in frames.iter_mut().flat_map(|frame| &mut frame.broken).chain(&mut state.broken) {
        broken.witness = broken.witness.in_words(language).into();
    }
    for event in &mut state.timeline {
        event.text = event.text.in_words(language).into();
    }
    let refused = refused.map(|refusal| refusal.in_words(language));
    PlayedState { session, refused, frames, state }
}

/// Says in the language of the request why it is refused.
pub(super) async fn refuse_in_language(request: Request, next: Next) -> Response {
    let language = Language::preferred(request.headers());
    let response = next.run(request).await;
    match response.extensions().get::<PageRefusal>() {
        Some(refusal) => refusal.problem(language).into_response(),
        None => response,
    }
}

/// Takes a step.
pub(super) async fn step(
    State(player): State<Player>,
    Path(session): Path<String>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<StepBody>,
) -> Result<Json<PlayedState<String>>, PageRefusal> {
    let session = named(&session)?;
    let step = one_step(&body.actor).ok_or(PageRefusal::NoActor)?;
    Ok(Json(told_in(&headers, player.step(session, step).await?)))
}

/// A step in the short form of schedules.
fn one_step(text: &str) -> Option<Step> {
    match text.parse::<Schedule>().ok()?.0[..] {
        [step] if step.to_string() == text => Some(step),
        _ => None,
    }
}

/// Shows a session.
pub(super) async fn find(
    State(player): State<Player>,
    Path(session): Path<String>,
    headers: HeaderMap,
) -> Result<Json<PlayedState<String>>, PageRefusal> {
    Ok(Json(told_in(&headers, player.look(named(&session)?).await?)))
}

/// Ends a session.
pub(super) async fn end(
    State(player): State<Player>,
    Path(session): Path<String>,
) -> Result<StatusCode, PageRefusal> {
    player.end(named(&session)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) fn known(name: &str) -> Option<&'static Rung> {
    ladder::find(name).ok()
}

fn no_rung(name: &str) -> PageRefusal {
    let name: String = name.chars().take(64).collect();
    PageRefusal::NoRung { name: format!("{name:?}") }
}

fn named(session: &str) -> Result<Uuid, PlayerError> {
    session.parse().map_err(|_| PlayerError::NoSession)
}

words! {
    /// Why a request is refused.
    pub(super) PageRefusal {
        NoRung { name: String } => "there is no rung {name}; GET /lab shows all of them", "没有 {name} 这一级；GET /lab 列出所有的级";
        NoSchedule { error: NoSchedule } => "{error}", "{error}";
        OneOrTwo { name: &'static str, value: u8 } => "{name} must be 1 or 2, not {value}", "{name} 必须是 1 或 2，不能是 {value}";
        Stock { most: i32, stock: i32 } => "stock must be 0 to {most}, not {stock}", "stock 必须是 0 到 {most}，不能是 {stock}";
        NoUuid => "session must be a UUID", "session 必须是 UUID";
        NothingToPay { rung: &'static str } => "{rung} has no orders that have to be paid", "{rung} 没有要支付的订单";
        NothingSold { most: i32 } => "with unpaid, A has bought one already: stock must be 1 to {most}, not 0", "unpaid 表示 A 已经买了一张：stock 必须是 1 到 {most}，不能是 0";
        NoActor => "actor must be a step of a schedule: A, B, C, T, L, S, K, K:B or P:A", "actor 必须是调度中的一步：A、B、C、T、L、S、K、K:B 或 P:A";
        Player { error: PlayerError } => "{error}", "{error}";
    }
}

impl From<PlayerError> for PageRefusal {
    fn from(error: PlayerError) -> Self {
        Self::Player { error }
    }
}

impl PageRefusal {
    fn problem(&self, language: Language) -> ApiError {
        let detail = self.in_words(language);
        let Self::Player { error } = self else { return ApiError::invalid(detail) };
        match error {
            PlayerError::Full { .. } => ApiError::unavailable().retry_after(FULL),
            PlayerError::NoSession => ApiError::new(Code::NotFound),
            PlayerError::Refused { .. } => return ApiError::invalid(detail),
            // What is not installed will not be there in a second.
            PlayerError::Failed | PlayerError::NotInstalled { .. } => {
                ApiError::unavailable().retry_after(FAILED)
            }
            PlayerError::Overloaded => ApiError::unavailable(),
        }
        .detail(detail)
    }
}

/// In English; `refuse_in_language` says it anew where the request wants it otherwise.
impl IntoResponse for PageRefusal {
    fn into_response(self) -> Response {
        let mut response = self.problem(Language::English).into_response();
        response.extensions_mut().insert(self);
        response
    }
}
