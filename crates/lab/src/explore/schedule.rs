//! The steps of a schedule, and its name: `A1 B1 L A2`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::walk::WalkStep;

/// The actors, by their places in a schedule: the buyers, a consumer, and what ends unpaid orders.
pub(super) const ACTOR_NAMES: [&str; 5] = ["A", "B", "C", "W", "T"];

/// The place of the consumer.
pub(super) const CONSUMER: usize = 3;

/// The place of what ends orders whose time to pay is over.
pub(super) const TIME: usize = 4;

/// More steps than any schedule has.
const MAX_STEPS: usize = 100;

/// One step of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExploreStep {
    /// The actor goes on to its next pause point.
    Go(usize),
    /// The lease of the lock that is held ends, as if its time had passed.
    EndLease,
    /// `SIGKILL` of the actor's process.
    Kill(usize),
    /// `SIGSTOP` of the actor's process, until the lease of its lock has ended. It goes on with
    /// the next step of an actor in it.
    Pause(usize),
}

impl ExploreStep {
    /// Whether it is nobody's own step.
    pub(super) fn is_fault(self) -> bool {
        self.actor().is_none()
    }
}

impl WalkStep for ExploreStep {
    fn actor(self) -> Option<usize> {
        match self {
            Self::Go(actor) => Some(actor),
            Self::EndLease | Self::Kill(_) | Self::Pause(_) => None,
        }
    }
}

/// The steps, in order. As text an actor's step has the actor's letter and says which of its steps
/// it is; `L` ends a lease, `K:A` kills the process of A, `P:A` pauses it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ExploreSchedule(pub Vec<ExploreStep>);

impl ExploreSchedule {
    /// Where the schedule turns from one actor to another.
    pub(super) fn turns(&self) -> usize {
        let actors: Vec<usize> = self.0.iter().filter_map(|step| step.actor()).collect();
        actors.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    /// How many buyers there are: no fewer than two, and no fewer than the last by name.
    pub fn actors(&self) -> usize {
        let named = self.0.iter().filter_map(|step| match *step {
            ExploreStep::Go(actor) | ExploreStep::Kill(actor) | ExploreStep::Pause(actor) => {
                Some(actor + 1)
            }
            ExploreStep::EndLease => None,
        });
        let named = named.filter(|count| *count <= CONSUMER);
        named.max().unwrap_or_default().max(2)
    }

    /// Whether the actor at this place takes part.
    pub(super) fn names(&self, actor: usize) -> bool {
        let of_actor = [ExploreStep::Go(actor), ExploreStep::Kill(actor)];
        self.0.iter().any(|step| of_actor.contains(step))
    }

    /// The lower rank is told first: of two schedules the shorter one, of several as short that which
    /// turns from one actor to another least often, and the first by name.
    pub(super) fn rank(&self) -> (usize, usize, String) {
        (self.0.len(), self.turns(), self.to_string())
    }

    /// What happens in it beside the actors' own steps.
    pub(super) fn faults(&self) -> impl Iterator<Item = ExploreStep> {
        self.0.iter().copied().filter(|step| step.is_fault())
    }
}

impl fmt::Display for ExploreSchedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut taken = [0; ACTOR_NAMES.len()];
        for (place, step) in self.0.iter().enumerate() {
            if place > 0 {
                formatter.write_str(" ")?;
            }
            match *step {
                ExploreStep::Go(actor) => {
                    taken[actor] += 1;
                    write!(formatter, "{}{}", ACTOR_NAMES[actor], taken[actor])?;
                }
                ExploreStep::EndLease => formatter.write_str("L")?,
                ExploreStep::Kill(actor) => write!(formatter, "K:{}", ACTOR_NAMES[actor])?,
                ExploreStep::Pause(actor) => write!(formatter, "P:{}", ACTOR_NAMES[actor])?,
            }
        }
        Ok(())
    }
}

impl Serialize for ExploreSchedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why a text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoExploreSchedule {
    /// A word means nothing.
    #[error("{0:?} is no step: A1 is the first step of A, L ends a lease, K:A kills, P:A pauses")]
    Word(String),
    /// An actor's steps are not counted from 1.
    #[error("{found} is out of place: the next step of that actor is {expected}")]
    Count {
        /// What stands there.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// There is nothing in it.
    #[error("a schedule has at least one step")]
    Empty,
    /// It is too long.
    #[error("a schedule has at most {MAX_STEPS} steps")]
    TooLong,
}

impl FromStr for ExploreSchedule {
    type Err = NoExploreSchedule;

    fn from_str(text: &str) -> Result<Self, NoExploreSchedule> {
        let (mut steps, mut taken) = (Vec::new(), [0; ACTOR_NAMES.len()]);
        for word in text.split_whitespace() {
            let step = step(word).ok_or_else(|| NoExploreSchedule::Word(word.to_owned()))?;
            if let ExploreStep::Go(actor) = step {
                taken[actor] += 1;
                let expected = format!("{}{}", ACTOR_NAMES[actor], taken[actor]);
                if word != expected {
                    return Err(NoExploreSchedule::Count { found: word.to_owned(), expected });
                }
            }
            steps.push(step);
        }
        match steps.len() {
            0 => Err(NoExploreSchedule::Empty),
            1..=MAX_STEPS => Ok(Self(steps)),
            _ => Err(NoExploreSchedule::TooLong),
        }
    }
}

fn step(word: &str) -> Option<ExploreStep> {
    let actor = |name: &str| ACTOR_NAMES.iter().position(|known| *known == name);
    if let Some(("K", name)) = word.split_once(':') {
        return actor(name).map(ExploreStep::Kill);
    }
    if let Some(("P", name)) = word.split_once(':') {
        return actor(name).map(ExploreStep::Pause);
    }
    if word == "L" {
        return Some(ExploreStep::EndLease);
    }
    let (name, number) = word.split_at_checked(1)?;
    number.parse::<usize>().ok()?;
    actor(name).map(ExploreStep::Go)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_as_it_is_written() {
        for name in
            ["A1 B1 A2 B2", "A1 L B1", "B1 K:B A1", "C1 P:C A1 B1 C2", "A1 W1 K:W B1", "T1 A1 K:T"]
        {
            assert_eq!(name.parse().map(|it: ExploreSchedule| it.to_string()), Ok(name.to_owned()));
        }
        let two = "A1 B1 P:A B2 A2".parse::<ExploreSchedule>().unwrap_or_default();
        assert_eq!((two.turns(), two.actors()), (2, 2));
        assert!(two.faults().eq([ExploreStep::Pause(0)]));
    }

    #[test]
    fn nothing_else_is_read() {
        for (text, words) in [
            ("", "at least one step"),
            ("A1 D1", "\"D1\" is no step"),
            ("AB", "\"AB\" is no step"),
            ("K:D", "\"K:D\" is no step"),
            ("é1", "is no step"),
            ("A1 A3", "A3 is out of place: the next step of that actor is A2"),
            ("A01", "A01 is out of place"),
            (&"L ".repeat(MAX_STEPS + 1), "at most"),
        ] {
            let refused = text.parse::<ExploreSchedule>().map_err(|error| error.to_string());
            assert!(
                refused.as_ref().is_err_and(|error| error.contains(words)),
                "{text}: {refused:?}"
            );
        }
    }
}
