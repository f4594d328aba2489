//! What the page says of the rungs.

use serde::Serialize;

use super::explored::{ExploredSetting, explored};
use ladder::{self, Capability, Invariant, Lesson, LockKind, RUNGS, Rung, Scenario};
use seckill::http::{Language, TextFile};
use seckill_lab::game::{self, Schedule};

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
    /// Whether an answer can be lost, and the request comes again.
    has_again: bool,
    /// Whether buyers stand in line for what comes back.
    has_line: bool,
    idea: String,
    breaks_when: String,
    claims: &'static [Invariant],
    lock: &'static str,
    lessons: Vec<LessonSummary>,
    /// What breaks it, where nothing does that two buyers can play.
    elsewhere: Option<&'static str>,
}

/// A schedule that shows something.
#[derive(Debug, Serialize)]
struct LessonSummary {
    #[serde(flatten)]
    lesson: Lesson,
    /// Whether it begins with an order of A's that was not paid in time.
    unpaid: bool,
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
    let lessons = lessons(rung, language);
    let can_be_broken = lessons.iter().any(|lesson| lesson.breaks.is_some());
    let otherwise = rung.breaks.first().filter(|_| !can_be_broken);
    RungSummary {
        id: rung.id,
        label,
        part: rung.part(language),
        has_lease: game::can_end_lease(rung),
        has_kill: game::can_be_killed(rung),
        has_pause: game::can_be_paused(rung),
        has_again: rung.can(Capability::Retried),
        has_line: rung.can(Capability::Line),
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
        lessons,
        elsewhere: otherwise.map(|scenario| scenario.story(language)),
    }
}

/// The schedules of its page, the shortest that are known; and one for each other promise that explore found broken.
fn lessons(rung: &'static Rung, language: Language) -> Vec<LessonSummary> {
    let settings = explored(rung);
    let mut lessons: Vec<LessonSummary> = rung
        .lessons()
        .iter()
        .map(|lesson| lesson_summary(lesson.clone(), false, language))
        .collect();
    for LessonSummary { lesson, breaks, .. } in &mut lessons {
        let found = settings.iter().filter(|setting| setting.is_played_as(lesson));
        let found = breaks.and_then(|promise| shortest(found.copied(), promise));
        let shorter = found.filter(|(_, found)| steps(found) < steps(&lesson.schedule));
        lesson.schedule = shorter.map_or_else(|| lesson.schedule.clone(), |(_, it)| it.to_owned());
    }
    for promise in Invariant::ALL {
        let is_known = lessons.iter().any(|lesson| lesson.breaks == Some(*promise));
        let Some((setting, schedule)) = shortest(settings.iter().copied(), *promise) else {
            continue;
        };
        let of_promise = |scenario: &&Scenario| scenario.invariant() == *promise;
        let Some(scenario) = rung.breaks.iter().find(of_promise).filter(|_| !is_known) else {
            continue;
        };
        lessons.push(lesson_summary(
            setting.lesson(rung, *scenario, schedule),
            setting.is_unpaid(),
            language,
        ));
    }
    lessons
}

fn steps(schedule: &str) -> usize {
    schedule.parse::<Schedule>().map_or(usize::MAX, |schedule| schedule.0.len())
}

/// The shortest schedule in these settings that breaks the promise.
fn shortest(
    settings: impl Iterator<Item = &'static ExploredSetting>,
    promise: Invariant,
) -> Option<(&'static ExploredSetting, &'static str)> {
    let found =
        settings.flat_map(|setting| setting.shortest.iter().map(move |found| (setting, found)));
    let breaking = found.filter(|(_, found)| found.broken.contains(&promise));
    let schedules = breaking.map(|(setting, found)| (setting, found.schedule.as_str()));
    schedules.min_by_key(|(_, schedule)| steps(schedule))
}

fn lesson_summary(lesson: Lesson, unpaid: bool, language: Language) -> LessonSummary {
    let scenario = lesson.scenario;
    let survives = ladder::find(lesson.rung).is_ok_and(|rung| rung.claims_to_survive(scenario));
    LessonSummary {
        lesson,
        unpaid,
        story: scenario.story(language),
        breaks: (!survives).then(|| scenario.invariant()),
        nudge: NUDGES.of(language).get(scenario.as_str()).filter(|_| !survives),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_explore_found_broken_can_be_aimed_at_and_what_is_shown_is_never_longer_than_par() {
        for rung in RUNGS {
            let lessons = lessons(rung, Language::English);
            for setting in explored(rung) {
                for promise in setting.shortest.iter().flat_map(|found| &found.broken) {
                    let aim = lessons.iter().find(|lesson| lesson.breaks == Some(*promise));
                    assert!(aim.is_some(), "{} {promise}", rung.id);
                }
                for LessonSummary { lesson, breaks, .. } in &lessons {
                    let par = breaks.filter(|_| setting.is_played_as(lesson));
                    let par = par.and_then(|promise| shortest([setting].into_iter(), promise));
                    let shown = steps(&lesson.schedule);
                    assert!(par.is_none_or(|(_, par)| shown <= steps(par)), "{lesson:?}");
                }
                let can_be_broken = lessons.iter().any(|lesson| lesson.breaks.is_some());
                assert!(setting.breaking == 0 || can_be_broken, "{} has no goal", rung.id);
            }
        }
    }
}
