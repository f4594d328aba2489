//! All schedules of one setting: several are played at a time, each on processes of its own.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::bail;
use futures_util::future::try_join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde::Serialize;

use super::walk::{Branch, Walk, default_choice};
use crate::game::{FaultKind, Game, Schedule, Setting, Step};
use crate::judge::Breach;
use crate::lock_servers::LockServers;
use crate::report::counted;
use crate::timeline::TimelineLine;
use crate::told::Event;
use crate::world::World;
use ladder::{Capability, Invariant, LockKind};

/// Schedules that are played at a time: what one waits for, another one uses.
const RUNNERS: usize = 4;

/// The same where most of the time goes by in waiting for leases to end.
const RUNNERS_THAT_PAUSE: usize = 10;

/// How often a schedule of three buyers is tried until something can be said of it.
const TRIES_OF_THREE: usize = 4;

/// How much is explored.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ExploreLimits {
    /// At most so many preemptions a schedule; all where there is no bound.
    pub bound: Option<usize>,
    /// At most so many schedules a setting.
    pub max_schedules: usize,
}

/// A schedule that was played to its end.
#[derive(Debug, Clone, Serialize)]
pub struct Leaf {
    /// Its steps.
    pub schedule: Schedule,
    /// The promises that it broke.
    pub broken: Vec<Breach>,
    /// Why nothing can be said of it.
    pub unknown: Option<String>,
    /// What happened; of an exploration only where something is to be told.
    #[serde(skip)]
    pub timeline: Vec<TimelineLine>,
}

impl Leaf {
    /// Whether it broke a promise.
    pub fn breaks(&self, invariant: Invariant) -> bool {
        self.broken.iter().any(|broken| broken.invariant == invariant)
    }

    /// Whether it broke a promise, or nothing is known of it.
    pub(super) fn tells_something(&self) -> bool {
        !self.broken.is_empty() || self.unknown.is_some()
    }
}

/// What was explored of a setting.
#[derive(Debug, Clone, Serialize)]
pub struct Exploration {
    /// What was explored.
    #[serde(flatten)]
    pub setting: Setting,
    /// How much of it.
    #[serde(flatten)]
    pub limits: ExploreLimits,
    /// The schedules, in the order in which they came to their ends.
    pub leaves: Vec<Leaf>,
    /// At least so many schedules were left out.
    pub left_out: usize,
    /// How long it took.
    pub elapsed_ms: u64,
}

impl Exploration {
    /// Nothing of `setting` yet.
    pub fn new(setting: Setting, limits: ExploreLimits) -> Self {
        Self { setting, limits, leaves: Vec::new(), left_out: 0, elapsed_ms: 0 }
    }

    /// How many schedules break each promise that any of them breaks.
    pub fn broken(&self) -> BTreeMap<Invariant, usize> {
        let mut counts = BTreeMap::new();
        for broken in self.leaves.iter().flat_map(|leaf| &leaf.broken) {
            *counts.entry(broken.invariant).or_default() += 1;
        }
        counts
    }

    /// How many schedules came to no verdict.
    pub fn unknown(&self) -> usize {
        self.leaves.iter().filter(|leaf| leaf.unknown.is_some()).count()
    }

    /// The shortest schedule that breaks the promise, as its rank says.
    pub fn shortest(&self, invariant: Invariant) -> Option<&Leaf> {
        self.shortest_of(|leaf| leaf.breaks(invariant))
    }

    /// The same of those that `which` says.
    pub(super) fn shortest_of(&self, which: impl Fn(&Leaf) -> bool) -> Option<&Leaf> {
        self.leaves.iter().filter(|leaf| which(leaf)).min_by_key(|leaf| leaf.schedule.rank())
    }

    /// Whether every schedule was played, within the bound.
    pub fn is_complete(&self) -> bool {
        !self.leaves.is_empty() && self.left_out == 0
    }

    /// In a line: "6 schedules, 4 break one_per_user, 0 unknown".
    pub fn sum(&self) -> String {
        let mut parts = vec![counted(self.leaves.len(), "schedule")];
        let bound = self.limits.bound;
        parts.extend(bound.map(|bound| format!("at most {} each", counted(bound, "preemption"))));
        let broken = self.broken();
        parts.extend(broken.iter().map(|(invariant, count)| {
            format!("{count} break{} {invariant}", if *count == 1 { "s" } else { "" })
        }));
        if broken.is_empty() {
            parts.push("none breaks a promise".to_owned());
        }
        parts.push(format!("{} unknown", self.unknown()));
        if self.left_out > 0 {
            parts.push(format!("at least {} left out", self.left_out));
        }
        parts.join(", ")
    }

    /// Schedules a second.
    pub fn rate(&self) -> f64 {
        self.leaves.len() as f64 * 1000.0 / self.elapsed_ms.max(1) as f64
    }
}

/// A schedule that was played.
#[derive(Debug, Clone)]
struct Played {
    branches: Vec<Branch>,
    broken: Vec<Breach>,
    timeline: Vec<TimelineLine>,
    /// Why nothing can be said of it.
    unknown: Option<String>,
}

impl Played {
    fn schedule(&self) -> Schedule {
        Schedule(self.branches.iter().map(|branch| branch.chosen).collect())
    }
}

/// Plays schedules, one after the other, with processes of its own.
struct ScheduleRunner<'w> {
    setting: Setting,
    game: Game<'w>,
}

impl<'w> ScheduleRunner<'w> {
    /// Nothing is played yet.
    async fn start(
        world: &'w World,
        setting: &Setting,
        servers: LockServers,
    ) -> anyhow::Result<Self> {
        let game = Game::start(world, setting.plan(), servers).await?;
        Ok(Self { setting: setting.clone(), game })
    }

    /// Plays one schedule. What fails on the way makes it unknown.
    async fn play(&mut self, prefix: &[Step]) -> anyhow::Result<Played> {
        let mut branches = Vec::new();
        let played = self.play_to_the_end(prefix, &mut branches).await;
        let timeline = self.game.driver.scheduler.log.take();
        let (broken, unknown) = match played {
            Ok(broken) => match self.game.failure() {
                None => (broken, None),
                Some(witness) => (Vec::new(), Some(witness.to_string())),
            },
            Err(error) => {
                self.game.restart_processes().await?;
                (Vec::new(), Some(format!("{error:#}")))
            }
        };
        Ok(Played { branches, broken, timeline, unknown })
    }

    async fn play_to_the_end(
        &mut self,
        prefix: &[Step],
        branches: &mut Vec<Branch>,
    ) -> anyhow::Result<Vec<Breach>> {
        self.game.begin(self.setting.plan(), prefix).await?;
        self.play_prefix(prefix, branches).await?;
        self.game.settle().await?;
        let broken = self.game.verdict().unwrap_or_default().to_vec();
        for Breach { invariant, witness } in broken.clone() {
            self.game.driver.scheduler.log.say(Event::Broken { invariant, witness });
        }
        Ok(broken)
    }

    /// Takes the steps of `prefix`, and default choices after them. `branches` also has what was done
    /// before a step that failed.
    async fn play_prefix(
        &mut self,
        prefix: &[Step],
        branches: &mut Vec<Branch>,
    ) -> anyhow::Result<()> {
        let mut before = Vec::new();
        loop {
            let possible = self.possible().await?;
            let planned = prefix.get(before.len()).copied();
            let Some(chosen) = planned.or_else(|| default_choice(&possible, &before)) else {
                return Ok(());
            };
            let is_possible = possible.contains(&chosen);
            before.push(chosen);
            if !is_possible {
                bail!("the last step of {} was not possible", Schedule(before));
            }
            branches.push(Branch { possible, chosen });
            self.game.take(chosen).await?;
        }
    }

    /// One fault a schedule, of those of the setting.
    async fn possible(&self) -> anyhow::Result<Vec<Step>> {
        let mut possible = self.game.possible().await?;
        let has_fault = self.game.steps.iter().any(|step| step.is_fault());
        possible.retain(|step| match FaultKind::of(*step) {
            None => true,
            Some(fault) => !has_fault && self.setting.faults.contains(&fault),
        });
        Ok(possible)
    }

    /// Ends the processes.
    async fn close(self) {
        self.game.close().await;
    }
}

/// Explores what `exploration` says, and adds to it; `progress` hears of each schedule how many were
/// played and how many more are known of.
///
/// # Errors
/// When servers or processes do not start, or are gone.
pub async fn explore(
    world: &World,
    exploration: &mut Exploration,
    progress: impl Fn(usize, usize),
) -> anyhow::Result<()> {
    world.prepare_for_exploring().await?;
    let servers = LockServers::start(world, exploration.setting.rung).await?;
    let begun = Instant::now();
    let Setting { rung, faults, .. } = &exploration.setting;
    // The sessions of ZooKeeper end by themselves where many processes want the processor.
    let pauses = faults.contains(&FaultKind::Pause) && rung.lock != LockKind::ZooKeeper;
    let runners = match pauses {
        // PostgreSQL is asked which batch waits, and would name those of other runners, too.
        _ if rung.can(Capability::OneStep) => 1,
        true => RUNNERS_THAT_PAUSE,
        false => RUNNERS,
    };
    let runners = (0..runners).map(|_| {
        let shared = LockServers {
            redis_urls: servers.redis_urls.clone(),
            zookeeper: servers.zookeeper.clone(),
            ..LockServers::default()
        };
        ScheduleRunner::start(world, &exploration.setting, shared)
    });
    let runners = try_join_all(runners).await?;
    let ExploreLimits { bound, max_schedules } = exploration.limits;
    let walk = Walk::new(bound, max_schedules);
    let heard = |played, left_out| {
        let mut leaf = leaf(played);
        if !leaf.tells_something() {
            leaf.timeline = Vec::new();
        }
        exploration.leaves.push(leaf);
        exploration.elapsed_ms = begun.elapsed().as_millis() as u64;
        exploration.left_out = left_out;
        progress(exploration.leaves.len(), left_out);
    };
    for runner in play_all(runners, walk, heard).await? {
        runner.close().await;
    }
    Ok(())
}

/// Plays what the walk asks for until it asks for nothing more, and returns the runners. `heard` is told
/// of each schedule, in the order in which they end, with how many more are known of.
async fn play_all<'w>(
    mut idle: Vec<ScheduleRunner<'w>>,
    mut walk: Walk,
    mut heard: impl FnMut(Played, usize),
) -> anyhow::Result<Vec<ScheduleRunner<'w>>> {
    let mut busy = FuturesUnordered::new();
    loop {
        while let Some(mut runner) = idle.pop() {
            let Some(prefix) = walk.next() else {
                idle.push(runner);
                break;
            };
            busy.push(async move {
                let played = play_and_check(&mut runner, &prefix).await;
                (runner, prefix, played)
            });
        }
        let Some((runner, prefix, played)) = busy.next().await else { return Ok(idle) };
        let played = played?;
        walk.played(prefix.len(), &played.branches);
        heard(played, walk.open() + busy.len());
        idle.push(runner);
    }
}

/// Plays one schedule alone: its steps, and default choices after them.
///
/// # Errors
/// When servers or processes do not start, or are gone.
pub async fn play_schedule(
    world: &World,
    setting: &Setting,
    schedule: &Schedule,
) -> anyhow::Result<Leaf> {
    world.prepare_for_exploring().await?;
    let servers = LockServers::start(world, setting.rung).await?;
    let mut runner = ScheduleRunner::start(world, setting, servers).await?;
    let played = runner.play(&schedule.0).await;
    runner.close().await;
    Ok(leaf(played?))
}

/// PostgreSQL decides which of several waiters of a row is served first, and it is not always the one that
/// came first: what is unknown with a third buyer is played again. What broke a claimed promise stays
/// unknown, for nothing that comes after takes it back.
async fn play_and_check(
    runner: &mut ScheduleRunner<'_>,
    prefix: &[Step],
) -> anyhow::Result<Played> {
    let tries = if runner.setting.buyers > 2 { TRIES_OF_THREE } else { 1 };
    let claims = runner.setting.rung.claims;
    let mut played = play_twice(runner, prefix).await?;
    for _ in 1..tries {
        let breaks_a_claim = played.broken.iter().any(|it| claims.contains(&it.invariant));
        if played.unknown.is_none() || breaks_a_claim {
            break;
        }
        played = play_twice(runner, prefix).await?;
    }
    if played.unknown.is_some() {
        played.broken.clear();
    }
    Ok(played)
}

/// A schedule that breaks something is played twice: what does not come out the same is unknown.
async fn play_twice(runner: &mut ScheduleRunner<'_>, prefix: &[Step]) -> anyhow::Result<Played> {
    let mut first = runner.play(prefix).await?;
    if first.broken.is_empty() || first.unknown.is_some() {
        return Ok(first);
    }
    let mut second = runner.play(&first.schedule().0).await?;
    if second.unknown.is_some()
        || second.branches != first.branches
        || second.broken != first.broken
    {
        let what = |played: &Played| match (&played.unknown, &played.broken[..]) {
            (Some(why), _) => why.clone(),
            (None, []) => "nothing was broken".to_owned(),
            (None, broken) => {
                broken.iter().map(|it| it.witness.to_string()).collect::<Vec<_>>().join("; ")
            }
        };
        let (one, other) = (what(&first), what(&second));
        first.unknown = Some(format!("it came out otherwise the second time: {one}, then {other}"));
        first.broken.append(&mut second.broken);
    }
    Ok(first)
}

fn leaf(played: Played) -> Leaf {
    let schedule = played.schedule();
    let Played { broken, timeline, unknown, .. } = played;
    Leaf { schedule, broken, unknown, timeline }
}
