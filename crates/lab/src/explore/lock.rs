//! Every interleaving of clients of the lock itself, over its production scripts.

use std::collections::BTreeMap;
use std::time::Instant;

use futures_util::future::try_join_all;
use serde::Serialize;

use super::exploration::ExploreLimits;
use super::lock_books::LockInvariant;
use super::lock_clients::{LockPart, LockRunner, PlayedByClients};
use super::walk::{Walk, play_all};
use crate::game::{Schedule, Step};
use crate::report::counted;
use crate::timeline::TimelineLine;
use crate::world::World;

/// Schedules that are played at a time: what one waits for, another one uses.
const RUNNERS: usize = 4;

/// What was explored of the lock.
#[derive(Debug, Serialize)]
pub struct LockExploration {
    /// Clients.
    pub actors: usize,
    /// What was left out of the protocol.
    pub without: Option<LockPart>,
    /// How much of it.
    #[serde(flatten)]
    pub limits: ExploreLimits,
    /// Schedules that were played.
    pub schedules: usize,
    /// How many schedules break each promise that any of them breaks, and the shortest of them.
    pub broken: BTreeMap<LockInvariant, LockBreak>,
    /// Schedules that came out otherwise the second time.
    pub unknown: Vec<Schedule>,
    /// At least so many schedules were left out.
    pub left_out: usize,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// The schedules that break one promise.
#[derive(Debug, Serialize)]
pub struct LockBreak {
    /// How many.
    pub schedules: usize,
    /// The shortest.
    pub shortest: Schedule,
    /// What happens in it.
    pub timeline: Vec<TimelineLine>,
}

impl LockExploration {
    /// Nothing yet.
    pub fn new(actors: usize, without: Option<LockPart>, limits: ExploreLimits) -> Self {
        Self {
            actors,
            without,
            limits,
            schedules: 0,
            broken: BTreeMap::new(),
            unknown: Vec::new(),
            left_out: 0,
            elapsed_ms: 0,
        }
    }

    /// Whether every promise was kept in every schedule that was played.
    pub fn holds(&self) -> bool {
        self.schedules > 0 && self.broken.is_empty() && self.unknown.is_empty()
    }

    /// Schedules a second.
    pub fn rate(&self) -> f64 {
        self.schedules as f64 * 1000.0 / self.elapsed_ms.max(1) as f64
    }

    /// In a line: "lock, 2 clients: 9 schedules, 0 break a promise, 0 unknown".
    pub fn sum(&self) -> String {
        let mut parts = vec![counted(self.schedules, "schedule")];
        let counts = self.broken.iter();
        parts.extend(counts.map(|(invariant, it)| format!("{} break {invariant}", it.schedules)));
        if self.broken.is_empty() {
            parts.push("0 break a promise".to_owned());
        }
        parts.push(format!("{} unknown", self.unknown.len()));
        if self.left_out > 0 {
            parts.push(format!("at least {} left out", self.left_out));
        }
        format!("lock, {} clients: {}", self.actors, parts.join(", "))
    }

    fn add(&mut self, played: &PlayedByClients) {
        let schedule = played.schedule();
        for broken in &played.broken {
            let found = || (schedule.clone(), played.timeline.clone());
            let known = self.broken.entry(broken.invariant).or_insert_with(|| {
                let (shortest, timeline) = found();
                LockBreak { schedules: 0, shortest, timeline }
            });
            known.schedules += 1;
            if schedule.rank() < known.shortest.rank() {
                (known.shortest, known.timeline) = found();
            }
        }
    }
}

/// Explores what `exploration` says on the Redis of `world`, and adds to it; `progress` hears of each
/// schedule how many were played and how many more are known of.
///
/// # Errors
/// When the server is gone.
pub async fn explore_lock(
    world: &World,
    exploration: &mut LockExploration,
    progress: impl Fn(usize, usize),
) -> anyhow::Result<()> {
    let begun = Instant::now();
    let LockExploration { actors, without, limits, .. } = *exploration;
    let runners = (0..RUNNERS)
        .map(|_| LockRunner::start(world.redis_url(), world.next_cell().1, actors, without));
    let runners = try_join_all(runners).await?;
    let walk = Walk::new(limits.bound, limits.max_schedules);
    let heard = |(played, is_known): (PlayedByClients, bool), left_out| {
        exploration.schedules += 1;
        match is_known {
            true => exploration.add(&played),
            false => exploration.unknown.push(played.schedule()),
        }
        exploration.elapsed_ms = begun.elapsed().as_millis() as u64;
        exploration.left_out = left_out;
        progress(exploration.schedules, left_out);
    };
    play_all(runners, walk, play_and_check, |(played, _)| &played.branches, heard).await?;
    Ok(())
}

/// A schedule that breaks something is played twice: whether it came out the same.
async fn play_and_check(
    runner: &mut LockRunner,
    prefix: &[Step],
) -> anyhow::Result<(PlayedByClients, bool)> {
    let first = runner.play(prefix).await?;
    if first.broken.is_empty() {
        return Ok((first, true));
    }
    let second = runner.play(&first.schedule().0).await?;
    let is_same = first == second;
    Ok((first, is_same))
}
