//! The player: it plays a few sessions at a time. When all seats are taken, a newcomer gets one that is idle, or is
//! told so.
//!
//! A thread of its own has the servers and the sessions (`seats`); a request for a step is sent to it. It
//! ends what nobody has used for a while, and everything when the program ends.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::request::{
    Action, Answered, Outcome, PlayedState, PlayerError, PlayerOptions, PlayerRequest, REQUESTS,
};
use super::seats::SeatsLoop;
use seckill_lab::game::{GamePlan, Schedule, Step};

/// How long the program's end waits for the player.
const CLOSES_WITHIN: Duration = Duration::from_secs(10);

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
        plan: GamePlan,
        schedule: Schedule,
    ) -> Result<PlayedState, PlayerError> {
        self.seen(session, Action::Open(plan, schedule)).await
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
