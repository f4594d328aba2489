//! What `explore` found, for the page: how many schedules it played of each rung, the shortest that break each
//! promise, and some of all. `make explored` writes the file beside this one.

use std::sync::LazyLock;

use serde::Serialize;

use ladder::{Invariant, Rung};
use seckill_lab::game::{GamePlan, InitialState};

const FILE: &str = include_str!("explored.tsv");

/// A schedule in its short form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExploredSchedule {
    /// The steps.
    pub schedule: String,
    /// The promises that it breaks.
    pub broken: Vec<Invariant>,
}

/// What was explored from one beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExploredSetting {
    /// The rung.
    pub rung: String,
    /// Where its schedules begin.
    pub from: String,
    /// Different users.
    pub users: u8,
    /// Processes that sell.
    pub processes: u8,
    /// Vouchers at the beginning.
    pub stock: i32,
    /// How many schedules were played.
    pub schedules: usize,
    /// At most so many preemptions each; all schedules where there is no bound.
    pub bound: Option<usize>,
    /// How many of them break a promise.
    pub breaking: usize,
    /// For each promise that breaks the shortest that is known.
    pub shortest: Vec<ExploredSchedule>,
    /// Some of the others.
    pub some: Vec<ExploredSchedule>,
}

static SETTINGS: LazyLock<Vec<ExploredSetting>> = LazyLock::new(|| {
    let lines = FILE.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| parsed(line).unwrap_or_else(|| unreachable!("a generated line: {line}")))
        .collect()
});

/// What was explored of a rung.
pub fn explored(rung: &Rung) -> Vec<&'static ExploredSetting> {
    SETTINGS.iter().filter(|setting| setting.rung == rung.id).collect()
}

fn parsed(line: &str) -> Option<ExploredSetting> {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    Some(ExploredSetting {
        rung: next()?.to_owned(),
        from: next()?.to_owned(),
        users: next()?.parse().ok()?,
        processes: next()?.parse().ok()?,
        stock: next()?.parse().ok()?,
        schedules: next()?.parse().ok()?,
        bound: match next()? {
            "all" => None,
            bound => Some(bound.parse().ok()?),
        },
        breaking: next()?.parse().ok()?,
        shortest: schedules(next()?)?,
        some: schedules(next()?)?,
    })
}

/// "ABAB=one_per_user AABB".
fn schedules(text: &str) -> Option<Vec<ExploredSchedule>> {
    let one = |word: &str| {
        let (schedule, broken) = word.split_once('=').unwrap_or((word, ""));
        let broken = broken.split(',').filter(|name| !name.is_empty());
        let broken = broken.map(|name| name.parse().ok()).collect::<Option<Vec<_>>>()?;
        Some(ExploredSchedule { schedule: schedule.to_owned(), broken })
    };
    text.split_whitespace().map(one).collect()
}

impl ExploredSetting {
    /// What is played.
    pub fn plan(&self, rung: &'static Rung) -> GamePlan {
        let is_unpaid = self.from.parse().is_ok_and(InitialState::has_unpaid_order);
        GamePlan { is_unpaid, ..GamePlan::new(rung, self.users, self.processes, self.stock) }
    }

    /// As a line of the file.
    pub fn line(&self) -> String {
        let bound = self.bound.map_or_else(|| "all".to_owned(), |bound| bound.to_string());
        let numbers = [self.users.into(), self.processes.into(), i64::from(self.stock)];
        let numbers = numbers.map(|number| number.to_string());
        [
            &[self.rung.clone(), self.from.clone()][..],
            &numbers,
            &[self.schedules.to_string(), bound, self.breaking.to_string()],
            &[written(&self.shortest), written(&self.some)],
        ]
        .concat()
        .join("\t")
    }
}

fn written(schedules: &[ExploredSchedule]) -> String {
    let one = |it: &ExploredSchedule| {
        let broken: Vec<&str> = it.broken.iter().map(|broken| broken.as_str()).collect();
        match broken.is_empty() {
            true => it.schedule.clone(),
            false => format!("{}={}", it.schedule, broken.join(",")),
        }
    };
    schedules.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_written_as_it_is_read() {
        for line in FILE.lines().filter(|line| !line.starts_with('#')) {
            assert_eq!(parsed(line).map(|setting| setting.line()).as_deref(), Some(line));
        }
    }
}
