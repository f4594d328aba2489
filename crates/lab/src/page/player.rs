//! The player: it plays one session at a time, on servers that live as long as somebody plays.
//!
//! A thread of its own has the servers and the session; a request for a step is sent to it. It ends
//! what nobody has used for a while, and everything when the program ends.

use std::time::Duration;

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::session::{
    LabSession, PlanOfSession, Schedule, ScheduleStep, SessionState, StepError, StepRefusal,
};
use crate::{World, missing};

/// Requests that may wait for the one under way; one more is refused.
const QUEUE: usize = 16;

/// How long the program's end waits for the player.
const CLOSES_WITHIN: Duration = Duration::from_secs(10);

/// Where sessions are played, and when they end.
#[derive(Debug, Clone)]
pub struct PlayerOptions {
    /// PostgreSQL, in which scratch databases are made; `None` for a private one.
    pub database_url: Option<String>,
    /// Redis; `None` for a private one.
    pub redis_url: Option<String>,
    /// A session that was not used for so long may be taken over.
    pub free_after: Duration,
    /// A session that was not used for so long ends, and its servers with it.
    pub ends_after: Duration,
}

impl PlayerOptions {
    /// Private servers.
    pub fn private() -> Self {
        Self {
            database_url: None,
            redis_url: None,
            free_after: Duration::from_secs(60),
            ends_after: Duration::from_secs(300),
        }
    }
}

/// What a session shows, and how it is called.
#[derive(Debug, Clone, Serialize)]
pub struct PlayedState {
    /// Its name, which only the client that opened it knows.
    pub session: String,
    /// The step at which a schedule could not go on, and why.
    pub refused: Option<String>,
    /// What there is to see.
    #[serde(flatten)]
    pub state: SessionState,
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum PlayerError {
    /// Somebody else plays.
    #[error("somebody else plays {rung}; if nothing happens there it is free in {} s", free_in.as_secs() + 1)]
    Busy {
        /// What is played.
        rung: &'static str,
        /// When it may be taken over, if nothing happens until then.
        free_in: Duration,
    },
    /// It has ended, or somebody else has taken over, or it never was.
    #[error("this session has ended, or somebody else has taken over: begin another one")]
    NoSession,
    /// The step makes no sense now.
    #[error(transparent)]
    Refused(#[from] StepRefusal),
    /// A server or a process is gone, or cannot be had.
    #[error("{0}")]
    Failed(String),
    /// Too many ask at once, or the program ends.
    #[error("too many requests wait for a step, or the player has ended")]
    Overloaded,
}

enum Action {
    Open(PlanOfSession, Schedule),
    Step(ScheduleStep),
    Look,
    End,
}

type Answered = Result<Option<PlayedState>, PlayerError>;

struct PlayerRequest {
    /// The session that the request names.
    session: Uuid,
    action: Action,
    answer: oneshot::Sender<Answered>,
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
        let (requests, queue) = mpsc::channel(QUEUE);
        let stop = CancellationToken::new();
        let (ended, has_ended) = oneshot::channel();
        let state = PlayerLoop { options, queue, stop: stop.clone() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("player".to_owned()).spawn(move || {
            runtime.block_on(state.run());
            drop(runtime);
            let _ = ended.send(());
        })?;
        Ok((Self { requests }, PlayerThread { stop, ended: has_ended }))
    }

    /// Plays a schedule from its beginning, in the session of this name. The client makes the name
    /// up, and so has it also when the answer is lost.
    ///
    /// # Errors
    /// When somebody else plays, or what is needed cannot be had.
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

    /// Ends a session, so that somebody else may play.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn end(&self, session: Uuid) -> Result<(), PlayerError> {
        self.ask(session, Action::End).await.map(drop)
    }

    async fn seen(&self, session: Uuid, action: Action) -> Result<PlayedState, PlayerError> {
        self.ask(session, action).await?.ok_or(PlayerError::NoSession)
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
    /// Ends the session, its processes and its servers, and waits until they are gone, which takes a
    /// while in the middle of a step. What is there after that ends with the program.
    pub async fn close(self) {
        self.stop.cancel();
        // A panic is on standard error.
        let _ = timeout(CLOSES_WITHIN, self.ended).await;
    }
}

struct PlayerLoop {
    options: PlayerOptions,
    queue: mpsc::Receiver<PlayerRequest>,
    stop: CancellationToken,
}

/// The session that is played.
struct Current<'a> {
    id: Uuid,
    session: LabSession<'a>,
    used: Instant,
}

impl PlayerLoop {
    async fn run(mut self) {
        while let Some(request) = self.next(None).await {
            if !matches!(request.action, Action::Open(..)) {
                let _ = request.answer.send(Err(PlayerError::NoSession));
                continue;
            }
            let PlayerOptions { database_url, redis_url, .. } = self.options.clone();
            match World::open(database_url, redis_url).await {
                Ok(world) => {
                    self.play(&world, request).await;
                    if let Err(error) = world.close().await {
                        tracing::warn!("the lab's servers did not end in good order: {error:#}");
                    }
                }
                Err(error) => {
                    let _ = request.answer.send(Err(failed(&error)));
                }
            }
        }
    }

    async fn next(&mut self, until: Option<Instant>) -> Option<PlayerRequest> {
        let request = async {
            match until {
                Some(until) => timeout_at(until, self.queue.recv()).await.ok().flatten(),
                None => self.queue.recv().await,
            }
        };
        tokio::select! {
            () = self.stop.cancelled() => None,
            request = request => request,
        }
    }

    /// Until nobody has asked for anything for a while.
    async fn play(&mut self, world: &World, first: PlayerRequest) {
        let (mut current, mut request) = (None, first);
        loop {
            let PlayerRequest { session, action, answer } = request;
            let answered = self.answer(world, &mut current, session, action).await;
            // The servers may be what failed: the next session has new ones.
            let has_failed = matches!(answered, Err(PlayerError::Failed(_)));
            // The client may have left.
            let _ = answer.send(answered);
            if has_failed {
                break;
            }
            let Some(next) = self.next(Some(Instant::now() + self.options.ends_after)).await else {
                break;
            };
            request = next;
        }
        if let Some(Current { session, .. }) = current {
            session.close().await;
        }
    }

    async fn answer<'a>(
        &self,
        world: &'a World,
        current: &mut Option<Current<'a>>,
        session: Uuid,
        action: Action,
    ) -> Answered {
        let answered = match action {
            Action::Open(plan, schedule) => {
                self.open(world, current, session, plan, schedule).await.map(Some)
            }
            _ if current.as_ref().is_none_or(|it| it.id != session) => Err(PlayerError::NoSession),
            Action::End => {
                end(current).await;
                return Ok(None);
            }
            Action::Look => show(current, None).await.map(Some),
            Action::Step(step) => match current {
                Some(it) => match it.session.step(step).await {
                    Ok(()) => show(current, None).await.map(Some),
                    Err(error) => Err(error.into()),
                },
                None => Err(PlayerError::NoSession),
            },
        };
        if let Err(PlayerError::Failed(_)) = &answered {
            end(current).await;
        }
        answered
    }

    async fn open<'a>(
        &self,
        world: &'a World,
        current: &mut Option<Current<'a>>,
        id: Uuid,
        plan: PlanOfSession,
        schedule: Schedule,
    ) -> Result<PlayedState, PlayerError> {
        if let Some(it) = current.as_ref().filter(|it| it.id != id) {
            let free_in = self.options.free_after.saturating_sub(it.used.elapsed());
            if !free_in.is_zero() {
                return Err(PlayerError::Busy { rung: it.session.rung().id, free_in });
            }
        }
        if current.as_ref().is_some_and(|it| it.session.rung().id != plan.rung.id) {
            end(current).await;
        }
        let session = match current.take() {
            Some(mut it) => {
                let started = it.session.start_over(plan).await;
                if let Err(error) = started {
                    it.session.close().await;
                    return Err(failed(&error));
                }
                it.session
            }
            None => LabSession::start(world, plan).await.map_err(|error| failed(&error))?,
        };
        let it = current.insert(Current { id, session, used: Instant::now() });
        let refused = match it.session.play(&schedule).await {
            Ok(()) => None,
            Err(StepError::Refused(refusal)) => Some(refusal.to_string()),
            Err(StepError::Failed(error)) => return Err(failed(&error)),
        };
        show(current, refused).await
    }
}

async fn show(
    current: &mut Option<Current<'_>>,
    refused: Option<String>,
) -> Result<PlayedState, PlayerError> {
    let it = current.as_mut().ok_or(PlayerError::NoSession)?;
    it.used = Instant::now();
    let state = it.session.state().await.map_err(|error| failed(&error))?;
    Ok(PlayedState { session: it.id.to_string(), refused, state })
}

async fn end(current: &mut Option<Current<'_>>) {
    if let Some(Current { session, .. }) = current.take() {
        session.close().await;
    }
}

impl From<StepError> for PlayerError {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Refused(refusal) => refusal.into(),
            StepError::Failed(error) => failed(&error),
        }
    }
}

/// What is not installed is said; anything else is for the log.
fn failed(error: &anyhow::Error) -> PlayerError {
    PlayerError::Failed(missing(error).unwrap_or_else(|| {
        tracing::warn!("a session of the lab has failed: {error:#}");
        "the session has failed: begin another one".to_owned()
    }))
}
