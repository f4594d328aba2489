//! The player: it plays a few sessions at a time; whoever comes when all places are taken waits in a queue.
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
use crate::game::{GamePlan, Schedule, Step};
use crate::session::{SessionState, StepError, StepRefusal};
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
    /// How many may wait for a place; one more is refused.
    pub waiting: usize,
    /// A session that waits and has not asked for so long has left the queue.
    pub waits_for: Duration,
    /// A session that was not used for so long makes room for somebody who waits.
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
            waiting: 16,
            waits_for: Duration::from_secs(15),
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

/// A place in the queue for a place to play.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct QueuePlace {
    /// Which it is, from 1.
    pub place: usize,
    /// Sessions that are played meanwhile.
    pub seats: usize,
}

/// What became of a request to play.
#[derive(Debug, Clone)]
pub enum Opened {
    /// The session is played.
    Played(Box<PlayedState>),
    /// All places are taken. A session that asks again in time keeps its place in the queue.
    Waits(QueuePlace),
}

words! {
    /// Why there is nothing to show: all places are taken, to play and to wait; the session has ended, or its server
    /// or process is gone; the step makes no sense now; this machine lacks something; too many ask at once.
    pub PlayerError {
        Full { seats: usize, waiting: usize } => "{seats} people play, and {waiting} wait: no more can wait now", "{seats} 人在玩，{waiting} 人在排队：现在不能再排了";
        NoSession => "this session has ended, or somebody else has its place: begin another one", "这次会话已经结束，或者位置让给了别人：请重新开始";
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

/// What a request comes to: a state, a place in the queue, or nothing where something was ended.
pub(super) enum Outcome {
    Seen(Box<PlayedState>),
    Waits(QueuePlace),
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

    /// Plays a schedule from its beginning, in the session of this name, or says where it stands in the
    /// queue. The client makes the name up, and so has it also when the answer is lost.
    ///
    /// # Errors
    /// When the queue is full, or what is needed cannot be had.
    pub async fn open(
        &self,
        session: Uuid,
        plan: GamePlan,
        schedule: Schedule,
    ) -> Result<Opened, PlayerError> {
        match self.ask(session, Action::Open(plan, schedule)).await? {
            Outcome::Seen(played) => Ok(Opened::Played(played)),
            Outcome::Waits(place) => Ok(Opened::Waits(place)),
            Outcome::Ended => Err(PlayerError::NoSession),
        }
    }

    /// Takes a step.
    ///
    /// # Errors
    /// When it makes no sense, or the session has ended.
    pub async fn step(&self, session: Uuid, step: Step) -> Result<PlayedState, PlayerError> {
        self.seen(session, Action::Step(step)).await
    }

    /// What there is to see.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn look(&self, session: Uuid) -> Result<PlayedState, PlayerError> {
        self.seen(session, Action::Look).await
    }

    /// Ends a session, or gives up a place in the queue.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn end(&self, session: Uuid) -> Result<(), PlayerError> {
        self.ask(session, Action::End).await.map(drop)
    }

    async fn seen(&self, session: Uuid, action: Action) -> Result<PlayedState, PlayerError> {
        match self.ask(session, action).await? {
            Outcome::Seen(played) => Ok(*played),
            Outcome::Waits(_) | Outcome::Ended => Err(PlayerError::NoSession),
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
