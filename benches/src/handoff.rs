//! Contended: how long a lock is free between a release and the next waiter's entry.
//!
//! A *lane* is one lock with `waiters + 1` tasks that take it in turn: one holds it for a
//! random while and the others wait. A hand-off lasts from just before `release` is called
//! until the `acquire` of one who waited has returned. Whoever released stands back until
//! then: otherwise it would mostly take the lock again itself before a waiter that polls even
//! looked, and that is no hand-off.
//!
//! How long it is held matters where waiters poll: with a constant time the release would
//! always fall on the same spot between two polls. So it is spread over a whole pause of the
//! contender. Ours only has to be held until the next waiter sleeps. And where several poll,
//! each comes back after a random while: at once, it would fall into step with whoever has
//! just entered, and in the end all would poll at the same instant.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use rand::RngExt;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::contender::Contender;

/// Time enough for a waiter to try, subscribe, try again and fall asleep.
const ASLEEP_AFTER: Duration = Duration::from_millis(2);
/// Hand-offs at the beginning that do not count: connections and scripts are new.
const UNCOUNTED: u64 = 3;

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    /// Who wait while one holds.
    pub waiters: usize,
    /// Whether holder and waiters have a client each, as in processes of their own.
    pub own_clients: bool,
    /// Locks at once. One by one it would take minutes with those who poll.
    pub lanes: usize,
    /// To count in each lane.
    pub handoffs: u64,
}

/// Measures `scene`; the histogram is in nanoseconds.
///
/// # Errors
/// Those of the contender, and when two held one lock at once.
pub async fn measure<C: Contender>(url: &str, scene: Scene) -> anyhow::Result<Histogram<u64>> {
    let shared = C::connect(url).await?;
    let mut lanes = JoinSet::new();
    for lane in 0..scene.lanes {
        let mut clients = vec![shared.clone(); scene.waiters + 1];
        if scene.own_clients {
            for client in &mut clients {
                *client = C::connect(url).await?;
            }
        }
        // The number keeps a key that an aborted waiter left out of the next measurement.
        let name = format!("{}:handoff:{:08x}:{lane}", C::NAME, rand::random::<u32>());
        lanes.spawn(follow(clients, name, scene.handoffs));
    }
    let mut all = Histogram::new(3)?;
    while let Some(lane) = lanes.join_next().await {
        all.add(lane??)?;
    }
    Ok(all)
}

/// The hand-offs of one lane.
async fn follow<C: Contender>(
    clients: Vec<C>,
    name: String,
    handoffs: u64,
) -> anyhow::Result<Histogram<u64>> {
    let track = Arc::new(Track::default());
    let mut tasks = JoinSet::new();
    let others = clients.len() - 1;
    for client in clients {
        let away_for = C::POLLS_EVERY.filter(|_| others > 1).unwrap_or_default();
        let track = Arc::clone(&track);
        tasks.spawn(take_turns(client, name.clone(), away_for, handoffs, track));
    }
    // Whoever counts the last one ends, and the others with it.
    tasks.join_next().await.context("a lane has tasks")???;
    drop(tasks);
    let notes = track.notes()?;
    let mut counted = Histogram::new(3)?;
    for nanoseconds in notes.handoffs.iter().skip(UNCOUNTED as usize) {
        counted.record(*nanoseconds)?;
    }
    Ok(counted)
}

/// What the tasks of a lane have in common.
#[derive(Default)]
struct Track {
    notes: Mutex<Notes>,
    /// How often somebody has entered.
    entries: watch::Sender<u64>,
}

/// What the holders leave for each other. The lock under test orders them; the mutex only
/// satisfies the compiler.
#[derive(Default)]
struct Notes {
    released_at: Option<Instant>,
    ended: bool,
    /// In nanoseconds.
    handoffs: Vec<u64>,
}

impl Track {
    fn notes(&self) -> anyhow::Result<MutexGuard<'_, Notes>> {
        self.notes.lock().map_err(|_| anyhow::anyhow!("another task panicked"))
    }

    /// Somebody has entered. Whether the lane has seen enough.
    fn enter(&self, entered_at: Instant, handoffs: u64) -> anyhow::Result<bool> {
        let mut notes = self.notes()?;
        match notes.released_at.take() {
            Some(released_at) => {
                let handoff = entered_at.duration_since(released_at).as_nanos();
                notes.handoffs.push(u64::try_from(handoff)?);
            }
            // The first of all, or one who came in after the last that counts.
            None => ensure!(*self.entries.borrow() == 0 || notes.ended, "two held one lock"),
        }
        self.entries.send_modify(|entries| *entries += 1);
        notes.ended = notes.handoffs.len() as u64 >= handoffs + UNCOUNTED;
        Ok(notes.ended)
    }
}

async fn take_turns<C: Contender>(
    client: C,
    name: String,
    away_for: Duration,
    handoffs: u64,
    track: Arc<Track>,
) -> anyhow::Result<()> {
    let held_for = held_for::<C>();
    let mut entries = track.entries.subscribe();
    loop {
        if !away_for.is_zero() {
            let away = rand::rng().random_range(Duration::ZERO..away_for);
            tokio::time::sleep(away).await;
        }
        let held = client.acquire(&name).await?;
        if track.enter(Instant::now(), handoffs)? {
            return C::release(held).await;
        }
        let while_held = rand::rng().random_range(held_for.clone());
        tokio::time::sleep(while_held).await;
        let so_far = *entries.borrow_and_update();
        track.notes()?.released_at = Some(Instant::now());
        C::release(held).await?;
        entries.wait_for(|entries| *entries > so_far).await?;
    }
}

fn held_for<C: Contender>() -> Range<Duration> {
    ASLEEP_AFTER..ASLEEP_AFTER + C::POLLS_EVERY.unwrap_or(ASLEEP_AFTER)
}
