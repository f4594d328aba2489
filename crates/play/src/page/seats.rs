//! The seats: a task for each session, with scratch databases of its own on servers that all share.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{OnceCell, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::request::{
    Action, Answered, Outcome, PlayedState, PlayerError, PlayerOptions, PlayerRequest, REQUESTS,
    failed,
};
use seckill_lab::game::{GamePlan, Schedule};
use seckill_lab::session::LabSession;
use seckill_lab::{World, WorldServers};

/// The servers of all sessions, once somebody has played.
type SharedServers = Rc<OnceCell<WorldServers>>;

/// A session that is played, as the loop knows it. Dropped, it ends.
struct Seat {
    session: Uuid,
    requests: mpsc::Sender<PlayerRequest>,
    life: Rc<SeatLife>,
}

/// What a session's task says of itself.
struct SeatLife {
    used: Cell<Instant>,
    /// In the middle of a request.
    is_busy: Cell<bool>,
}

impl SeatLife {
    /// How long nobody has used it; `None` in the middle of a request.
    fn idle(&self, now: Instant) -> Option<Duration> {
        (!self.is_busy.get()).then(|| now.duration_since(self.used.get()))
    }
}

/// The seat that was idle longest, where that is long enough.
fn longest_idle(seats: &[Option<Duration>], free_after: Duration) -> Option<usize> {
    let idle = |at: &usize| seats[*at].is_some_and(|idle| idle >= free_after);
    (0..seats.len()).filter(idle).max_by_key(|at| seats[*at])
}

/// Gives requests to the sessions that they name.
pub(super) struct SeatsLoop {
    options: PlayerOptions,
    queue: mpsc::Receiver<PlayerRequest>,
    stop: CancellationToken,
    seats: Vec<Seat>,
    /// One for each session, until all is gone that it had started: whether the servers may be to blame for its end.
    tasks: JoinSet<bool>,
}

impl SeatsLoop {
    pub(super) fn new(
        options: PlayerOptions,
        queue: mpsc::Receiver<PlayerRequest>,
        stop: CancellationToken,
    ) -> Self {
        Self { options, queue, stop, seats: Vec::new(), tasks: JoinSet::new() }
    }

    /// Until the program ends.
    pub(super) async fn run(mut self) {
        let mut servers = SharedServers::default();
        loop {
            let idle_until = Instant::now() + self.options.ends_after;
            let is_idle = self.tasks.is_empty() && servers.initialized();
            let request = tokio::select! {
                () = self.stop.cancelled() => break,
                request = self.queue.recv() => match request {
                    Some(request) => Some(request),
                    None => break,
                },
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    let has_failed = ended.unwrap_or_else(|panic| {
                        tracing::error!("a session of the lab has panicked: {panic}");
                        true
                    });
                    if has_failed {
                        // The next session has new ones. Those who play keep the old ones to their end.
                        let old = std::mem::take(&mut servers);
                        self.tasks.spawn_local(async move {
                            stop(old).await;
                            false
                        });
                    }
                    None
                }
                () = sleep_until(idle_until), if is_idle => {
                    stop(std::mem::take(&mut servers)).await;
                    None
                }
            };
            self.seats.retain(|seat| !seat.requests.is_closed());
            if let Some(request) = request {
                self.give(request, &servers);
            }
        }
        self.seats.clear();
        while self.tasks.join_next().await.is_some() {}
        stop(servers).await;
    }

    fn give(&mut self, request: PlayerRequest, servers: &SharedServers) {
        let session = request.session;
        let at = self.seats.iter().position(|seat| seat.session == session);
        match (&request.action, at) {
            (Action::End, Some(at)) => pass(&self.seats.remove(at), request),
            (_, Some(at)) => pass(&self.seats[at], request),
            (Action::Open(..), None) if self.makes_room() => {
                let seat = self.sit_down(session, Rc::clone(servers));
                pass(&seat, request);
                self.seats.push(seat);
            }
            (Action::Open(..), None) => {
                let full = PlayerError::Full { seats: self.options.seats };
                let _ = request.answer.send(Err(full));
            }
            _ => {
                let _ = request.answer.send(Err(PlayerError::NoSession));
            }
        }
    }

    /// Whether a newcomer can play: there is a seat, or one that is idle is taken from its holder.
    fn makes_room(&mut self) -> bool {
        let PlayerOptions { seats, free_after, .. } = self.options;
        // A session that has ended still works until its processes and databases are gone: of those there may be
        // as many again.
        if self.tasks.len() >= 2 * seats {
            return false;
        }
        if self.seats.len() < seats {
            return true;
        }
        let now = Instant::now();
        let idle: Vec<_> = self.seats.iter().map(|seat| seat.life.idle(now)).collect();
        let freed = longest_idle(&idle, free_after);
        freed.map(|at| self.seats.remove(at)).is_some()
    }

    fn sit_down(&mut self, session: Uuid, servers: SharedServers) -> Seat {
        let (requests, queue) = mpsc::channel(REQUESTS);
        let life = Rc::new(SeatLife { used: Cell::new(Instant::now()), is_busy: Cell::new(true) });
        let task = SeatTask { options: self.options.clone(), queue, life: Rc::clone(&life) };
        self.tasks.spawn_local(async move {
            let has_failed = task.run(&servers).await;
            stop(servers).await;
            has_failed
        });
        Seat { session, requests, life }
    }
}

/// Gives a request to a session. One that has just ended, or has too much to do, says so.
fn pass(seat: &Seat, request: PlayerRequest) {
    // Nobody else gets the seat before it is answered.
    if let Err(refused) = seat.requests.try_send(request).inspect(|()| seat.life.is_busy.set(true))
    {
        let (request, why) = match refused {
            mpsc::error::TrySendError::Full(request) => (request, PlayerError::Overloaded),
            mpsc::error::TrySendError::Closed(request) => (request, PlayerError::NoSession),
        };
        let _ = request.answer.send(Err(why));
    }
}

/// Stops the servers when nobody else has them.
async fn stop(servers: SharedServers) {
    let Some(servers) = Rc::into_inner(servers).and_then(OnceCell::into_inner) else { return };
    if let Err(error) = servers.stop().await {
        tracing::warn!("the lab's servers did not end in good order: {error:#}");
    }
}

/// The task of one session.
struct SeatTask {
    options: PlayerOptions,
    queue: mpsc::Receiver<PlayerRequest>,
    life: Rc<SeatLife>,
}

impl SeatTask {
    /// Whether the servers may have failed.
    async fn run(mut self, servers: &SharedServers) -> bool {
        let Some(first) = self.queue.recv().await else { return false };
        match self.world(servers).await {
            Ok(world) => {
                let has_failed = self.play(&world, first).await;
                if let Err(error) = world.close().await {
                    tracing::warn!("a session's databases did not end in good order: {error:#}");
                }
                has_failed
            }
            Err(error) => {
                self.leave().await;
                let _ = first.answer.send(Err(failed(&error)));
                true
            }
        }
    }

    async fn world(&self, servers: &SharedServers) -> anyhow::Result<World> {
        let PlayerOptions { database_url, redis_url, .. } = self.options.clone();
        let servers =
            servers.get_or_try_init(async || WorldServers::start(database_url, redis_url).await);
        World::beside(servers.await?).await
    }

    /// Until nobody has asked for anything for a while, or the place is somebody else's. Whether the servers may
    /// have failed.
    async fn play(&mut self, world: &World, first: PlayerRequest) -> bool {
        let (mut current, mut request) = (None, first);
        let has_failed = loop {
            let PlayerRequest { session, action, answer } = request;
            let answered = self.answer(world, &mut current, session, action).await;
            let has_failed = matches!(answered, Err(PlayerError::Failed));
            let is_over =
                matches!(answered, Ok(Outcome::Ended) | Err(PlayerError::NotInstalled { .. }));
            let ends = has_failed || is_over;
            self.life.used.set(Instant::now());
            self.life.is_busy.set(false);
            if ends {
                // Before the answer: who hears it may come again at once.
                self.leave().await;
            }
            // The client may have left.
            let _ = answer.send(answered);
            if ends {
                break has_failed;
            }
            let until = Instant::now() + self.options.ends_after;
            match timeout_at(until, self.queue.recv()).await {
                Ok(Some(next)) => request = next,
                Ok(None) | Err(_) => {
                    self.leave().await;
                    break false;
                }
            }
            self.life.is_busy.set(true);
        };
        if let Some(session) = current {
            LabSession::close(session).await;
        }
        has_failed
    }

    /// Takes no more requests. Those that came too late are told.
    async fn leave(&mut self) {
        self.queue.close();
        while let Some(request) = self.queue.recv().await {
            let _ = request.answer.send(Err(PlayerError::NoSession));
        }
    }

    async fn answer<'a>(
        &self,
        world: &'a World,
        current: &mut Option<LabSession<'a>>,
        id: Uuid,
        action: Action,
    ) -> Answered {
        let played = match action {
            Action::End => return Ok(Outcome::Ended),
            Action::Open(plan, schedule) => open(world, current, id, plan, schedule).await?,
            Action::Look => {
                let session = current.as_mut().ok_or(PlayerError::NoSession)?;
                show(session, id).await?
            }
            Action::Step(step) => {
                let session = current.as_mut().ok_or(PlayerError::NoSession)?;
                session.step(step).await?;
                show(session, id).await?
            }
        };
        Ok(Outcome::Seen(Box::new(played)))
    }
}

async fn open<'a>(
    world: &'a World,
    current: &mut Option<LabSession<'a>>,
    id: Uuid,
    plan: GamePlan,
    schedule: Schedule,
) -> Result<PlayedState, PlayerError> {
    let has_this_rung = |session: &LabSession<'_>| session.rung().id == plan.rung.id;
    if let Some(other) = current.take_if(|session| !has_this_rung(session)) {
        other.close().await;
    }
    let session = match current {
        Some(session) => {
            session.start_over(plan).await.map_err(|error| failed(&error))?;
            session
        }
        None => {
            let started = LabSession::start(world, plan).await;
            current.insert(started.map_err(|error| failed(&error))?)
        }
    };
    let played = session.play_with_frames(&schedule).await;
    let (frames, refused) = played.map_err(|error| failed(&error))?;
    Ok(PlayedState { frames, refused, ..show(session, id).await? })
}

async fn show(session: &mut LabSession<'_>, id: Uuid) -> Result<PlayedState, PlayerError> {
    let state = session.state().await.map_err(|error| failed(&error))?;
    Ok(PlayedState { session: id.to_string(), refused: None, frames: Vec::new(), state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_handed_over_when_nobody_has_used_it_for_a_minute_and_not_before() {
        let free_after = PlayerOptions::private().free_after;
        assert_eq!(free_after, Duration::from_secs(60));
        let idle = |seconds: u64| Some(Duration::from_secs(seconds));
        let nearly = Some(free_after - Duration::from_millis(1));
        for (seats, freed) in [
            (&[][..], None),
            (&[nearly, idle(0)], None),
            (&[nearly, idle(60)], Some(1)),
            (&[idle(61), idle(60)], Some(0)),
            // In the middle of a request, however long that takes.
            (&[None, None], None),
            (&[None, idle(60)], Some(1)),
        ] {
            assert_eq!(longest_idle(seats, free_after), freed, "{seats:?}");
        }
    }
}
