//! What `explore` found, for the page: how many schedules it played of each rung, the shortest that break each
//! promise, and some of all. `make explored` writes the file beside this one, a setting a line.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use ladder::{Invariant, Lesson, Rung, Scenario};
use seckill_lab::game::{GamePlan, InitialState};

const FILE: &str = include_str!("explored.jsonl");

/// A schedule in its short form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExploredSchedule {
    /// The steps.
    pub schedule: String,
    /// The promises that it breaks.
    pub broken: Vec<Invariant>,
}

/// What was explored from one beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    let read: Result<_, serde_json::Error> = FILE.lines().map(serde_json::from_str).collect();
    read.unwrap_or_else(|error| unreachable!("explored.jsonl is generated: {error}"))
});

/// What was explored of a rung.
pub fn explored(rung: &Rung) -> Vec<&'static ExploredSetting> {
    SETTINGS.iter().filter(|setting| setting.rung == rung.id).collect()
}

impl ExploredSetting {
    /// What is played.
    pub fn plan(&self, rung: &'static Rung) -> GamePlan {
        let is_unpaid = self.is_unpaid();
        GamePlan { is_unpaid, ..GamePlan::new(rung, self.users, self.processes, self.stock) }
    }

    /// Whether it begins with an order that was not paid in time.
    pub fn is_unpaid(&self) -> bool {
        self.from.parse().is_ok_and(InitialState::has_unpaid_order)
    }

    /// Whether what a page teaches is played from here.
    pub(super) fn is_played_as(&self, lesson: &Lesson) -> bool {
        let plan = (self.users, self.processes, self.stock);
        plan == (lesson.users, lesson.processes, lesson.stock) && !self.is_unpaid()
    }

    /// A schedule from here, as a page would teach it.
    pub(super) fn lesson(&self, rung: &Rung, scenario: Scenario, schedule: &str) -> Lesson {
        let Self { users, processes, stock, .. } = *self;
        Lesson { rung: rung.id, scenario, schedule: schedule.to_owned(), users, processes, stock }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_written_as_it_is_read() {
        for (line, setting) in FILE.lines().zip(SETTINGS.iter()) {
            assert_eq!(serde_json::to_string(setting).unwrap(), line);
        }
    }
}
