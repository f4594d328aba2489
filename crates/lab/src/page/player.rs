//! The player: it plays a few sessions at a time. Whoever comes when all seats are taken gets one that is idle, or
//! is told so.
//!
//! A thread of its own has the servers and the sessions (`seats`); a request for a step is sent to it. It
//! ends what nobody has used for a while, and everything when the program ends.

use std::time::Duration;

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::seats::SeatsLoop;
use crate::session::{PlanOfSession, Schedule, ScheduleStep, SessionState, StepError, StepRefusal};
use crate::told::{NotInstalled, words};

/// Requests that may wait for those under way; one more is refused.
pub(super) const REQUESTS: usize = 64;

/// How long the program's end waits for the player.
const CLOSES_WITHIN: Duration = Duration::from_secs(10);

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
    Open(PlanOfSession, Schedule),
    Step(ScheduleStep),
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

/// A handle on the player. Cheap to clone.
#[derive(Clone)]
pub struct Player {
    requests: mpsc::Sender<PlayerRequest>,
}

impl Player {
    /// A player; nothing is started before somebody plays.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn start(options: PlayerOptions) -> std::io::Result<(Self, PlayerThread)> {
        let (requests, queue) = mpsc::channel(REQUESTS);
        let stop = CancellationToken::new();
        let (ended, has_ended) = oneshot::channel();
        let stopped = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("player".to_owned()).spawn(move || {
            let seats = SeatsLoop::new(options, queue, stopped);
            tokio::task::LocalSet::new().block_on(&runtime, seats.run());
            drop(runtime);
            let _ = ended.send(());
        })?;
        Ok((Self { requests }, PlayerThread { stop, ended: has_ended }))
    }

    /// Plays a schedule from its beginning, in the session of this name. The client makes the name up, and so has it
    /// also when the answer is lost.
    ///
    /// # Errors
    /// When all seats are taken, or what is needed cannot be had.
    pub async fn open(
        &self,
        session: Uuid,
        plan: PlanOfSession,
        schedule: Schedule,
    ) -> Result<PlayedState, PlayerError> {
        self.seen(session, Action::Open(plan, schedule)).await
    }

    /// Takes a step.
    ///
    /// # Errors
    /// When it makes no sense, or the session has ended.
    pub async fn step(
        &self,
        session: Uuid,
        step: ScheduleStep,
    ) -> Result<PlayedState, PlayerError> {
        self.seen(session, Action::Step(step)).await
    }

    /// What there is to see.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn look(&self, session: Uuid) -> Result<PlayedState, PlayerError> {
        self.seen(session, Action::Look).await
    }

    /// Ends a session.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn end(&self, session: Uuid) -> Result<(), PlayerError> {
        self.ask(session, Action::End).await.map(drop)
    }

    async fn seen(&self, session: Uuid, action: Action) -> Result<PlayedState, PlayerError> {
        match self.ask(session, action).await? {
            Outcome::Seen(played) => Ok(*played),
            Outcome::Ended => Err(PlayerError::NoSession),
        }
    }

    async fn ask(&self, session: Uuid, action: Action) -> Answered {
        let (answer, answered) = oneshot::channel();
        let request = PlayerRequest { session, action, answer };
        self.requests.try_send(request).map_err(|_| PlayerError::Overloaded)?;
        answered.await.unwrap_or(Err(PlayerError::Overloaded))
    }
}

/// The player's thread.
pub struct PlayerThread {
    stop: CancellationToken,
    ended: oneshot::Receiver<()>,
}

impl PlayerThread {
    /// Ends the sessions, their processes and their servers, and waits until they are gone, which takes a
    /// while in the middle of a step. What is there after that ends with the program.
    pub async fn close(self) {
        self.stop.cancel();
        // A panic is on standard error.
        let _ = timeout(CLOSES_WITHIN, self.ended).await;
    }
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
