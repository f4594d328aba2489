//! What the page says of the rungs.

use serde::Serialize;

use ladder::{self, Capability, Invariant, Lesson, LockKind, RUNGS, Rung};
use seckill::http::{Language, TextFile};
use seckill_lab::game;

/// What players are told beside what the ladder says: a nudge towards a scenario. There is none where the player has
/// no schedule for it.
static NUDGES: TextFile = TextFile::new(include_str!("nudges.toml"));

/// A rung in the picker.
#[derive(Debug, Serialize)]
pub(super) struct RungSummary {
    pub(super) id: &'static str,
    /// "r07a".
    pub(super) label: &'static str,
    /// "r07a: a mutex per user, inside the transaction".
    pub(super) title: String,
    /// The part of the ladder that it belongs to.
    pub(super) part: &'static str,
    /// Whether a lease can be ended.
    has_lease: bool,
    /// Whether a process can be killed.
    has_kill: bool,
    /// Whether one can be stopped past its lease.
    has_pause: bool,
    idea: String,
    breaks_when: String,
    claims: &'static [Invariant],
    lock: &'static str,
    lessons: Vec<LessonSummary>,
}

/// A schedule that shows something.
#[derive(Debug, Serialize)]
struct LessonSummary {
    #[serde(flatten)]
    lesson: &'static Lesson,
    story: &'static str,
    /// The promise that breaks; `None` where the rung withstands.
    breaks: Option<Invariant>,
    /// Where to look, for whoever does not find it.
    nudge: Option<&'static str>,
}

/// All rungs.
pub(super) fn rungs(language: Language) -> Vec<RungSummary> {
    RUNGS.iter().map(|rung| summary(rung, language)).collect()
}

fn summary(rung: &'static Rung, language: Language) -> RungSummary {
    let label = rung.id.split('_').next().unwrap_or_default();
    let title = rung.title(language).replace('`', "");
    let colon = language.choose(": ", "：");
    RungSummary {
        id: rung.id,
        label,
        part: rung.part(language),
        has_lease: game::can_end_lease(rung),
        has_kill: game::can_be_killed(rung),
        has_pause: game::can_be_paused(rung),
        title: format!("{label}{colon}{title}"),
        idea: rung.idea(language),
        breaks_when: rung.breaks_when(language),
        claims: rung.claims,
        lock: match rung.lock {
            LockKind::NoLock if rung.can(Capability::LockRow) => "row",
            LockKind::NoLock => "none",
            LockKind::Database => "database",
            LockKind::Mutex => "mutex",
            LockKind::Redis(_) => "redis",
            LockKind::ZooKeeper => "zookeeper",
            LockKind::Stream => "stream",
        },
        lessons: rung.lessons().iter().map(|lesson| lesson_summary(lesson, language)).collect(),
    }
}

fn lesson_summary(lesson: &'static Lesson, language: Language) -> LessonSummary {
    let scenario = lesson.scenario;
    let survives = ladder::find(lesson.rung).is_ok_and(|rung| rung.claims_to_survive(scenario));
    LessonSummary {
        lesson,
        story: scenario.story(language),
        breaks: (!survives).then(|| scenario.invariant()),
        nudge: NUDGES.of(language).get(scenario.as_str()).filter(|_| !survives),
    }
}
