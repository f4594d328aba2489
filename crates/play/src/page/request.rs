//! What the player is asked, and what it answers.

use std::time::Duration;

use serde::Serialize;
use tokio::sync::oneshot;
use uuid::Uuid;

use seckill_lab::game::{GamePlan, Schedule, Step};
use seckill_lab::session::{SessionState, StepError, StepRefusal};
use seckill_lab::told::{NotInstalled, words};

/// Requests that may wait for those under way; one more is refused.
pub(super) const REQUESTS: usize = 64;

/// Where sessions are played, and when they end.
#[derive(Debug, Clone)]
pub struct PlayerOptions {
    /// PostgreSQL, in which scratch databases are made; `None` for a private one.
    pub database_url: Option<String>,
    /// Redis; `None` for a private one.
    pub redis_url: Option<String>,
    /// Sessions that are played at a time.
    pub seats: usize,
    /// A session that was not used for so long makes room for a newcomer.
    pub free_after: Duration,
    /// A session that was not used for so long ends; so do the servers that nobody has used for so long.
    pub ends_after: Duration,
}

impl PlayerOptions {
    /// Private servers.
    pub fn private() -> Self {
        Self {
            database_url: None,
            redis_url: None,
            seats: 4,
            free_after: Duration::from_secs(60),
            ends_after: Duration::from_secs(300),
        }
    }
}

/// What a session shows, and how it is called. For a client the refusal is in its language.
#[derive(Debug, Clone, Serialize)]
pub struct PlayedState<Refusal = StepRefusal> {
    /// Its name, which only the client that opened it knows.
    pub session: String,
    /// The step at which a schedule could not go on, and why.
    pub refused: Option<Refusal>,
    /// What there was to see before each step of the schedule, where it was opened.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<SessionState>,
    /// What there is to see.
    #[serde(flatten)]
    pub state: SessionState,
}

words! {
    /// Why there is nothing to show: all seats are taken; the session has ended, or its server or process is gone; the
    /// step makes no sense now; this machine lacks something; too many ask at once.
    pub PlayerError {
        Full { seats: usize } => "all {seats} seats are taken: try again in a moment", "{seats} 个位置都有人在玩：请稍后再试";
        NoSession => "this session has ended, or was idle and somebody else has its seat: begin another one", "这次会话已经结束，或者因闲置把位置让给了别人：请重新开始";
        Refused { refusal: StepRefusal } => "{refusal}", "{refusal}";
        Failed => "the session has failed: begin another one", "这次会话失败了：请重新开始";
        NotInstalled { missing: NotInstalled } => "{missing}", "{missing}";
        Overloaded => "too many requests wait for a step, or the player has ended", "等待的请求太多，或者服务正在停止";
    }
}

pub(super) enum Action {
    Open(GamePlan, Schedule),
    Step(Step),
    Look,
    End,
}

/// What a request comes to: a state, or nothing where something was ended.
pub(super) enum Outcome {
    Seen(Box<PlayedState>),
    Ended,
}

pub(super) type Answered = Result<Outcome, PlayerError>;

pub(super) struct PlayerRequest {
    /// The session that the request names.
    pub(super) session: Uuid,
    pub(super) action: Action,
    pub(super) answer: oneshot::Sender<Answered>,
}

impl From<StepError> for PlayerError {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Refused(refusal) => Self::Refused { refusal },
            StepError::Failed(error) => failed(&error),
        }
    }
}

/// What is not installed is said; anything else is for the log.
pub(super) fn failed(error: &anyhow::Error) -> PlayerError {
    if let Some(missing) = NotInstalled::of(error) {
        return PlayerError::NotInstalled { missing };
    }
    tracing::warn!("a session of the lab has failed: {error:#}");
    PlayerError::Failed
}
