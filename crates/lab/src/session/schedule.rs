//! A schedule as text: `ABAB`, a letter a step.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// More steps than two buyers can take on any rung.
pub const MAX_STEPS: usize = 64;

/// One step of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum ScheduleStep {
    /// The first buyer goes on to its next pause point.
    A,
    /// So does the second.
    B,
    /// So does the consumer of the first process, where the rung has one.
    C,
    /// The lock's lease ends on one of its servers, as if its time had passed.
    L,
    /// `SIGKILL` of the first process, with the first buyer and the consumer in it. Nothing starts it again.
    K,
}

impl ScheduleStep {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::A, Self::B, Self::C, Self::L, Self::K];

    /// The letter.
    pub const fn letter(self) -> char {
        match self {
            Self::A => 'A',
            Self::B => 'B',
            Self::C => 'C',
            Self::L => 'L',
            Self::K => 'K',
        }
    }
}

/// The steps, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule(pub Vec<ScheduleStep>);

impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| write!(formatter, "{}", step.letter()))
    }
}

/// Why a text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSchedule {
    /// A letter means nothing.
    #[error("a schedule is made of A, B, C, L and K; {0:?} is none of them")]
    Letter(char),
    /// It is too long.
    #[error("a schedule has at most {MAX_STEPS} steps")]
    TooLong,
}

impl FromStr for Schedule {
    type Err = NoSchedule;

    fn from_str(text: &str) -> Result<Self, NoSchedule> {
        if text.len() > MAX_STEPS {
            return Err(NoSchedule::TooLong);
        }
        let step = |letter: char| {
            let upper = letter.to_ascii_uppercase();
            let known = ScheduleStep::ALL.into_iter().find(|step| step.letter() == upper);
            known.ok_or(NoSchedule::Letter(letter))
        };
        text.chars().map(step).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_as_it_is_written_and_nothing_else_is_read() {
        assert_eq!("abLack".parse::<Schedule>().map(|it| it.to_string()), Ok("ABLACK".to_owned()));
        assert_eq!("".parse::<Schedule>(), Ok(Schedule::default()));
        assert_eq!("ABX".parse::<Schedule>(), Err(NoSchedule::Letter('X')));
        assert_eq!("A".repeat(65).parse::<Schedule>(), Err(NoSchedule::TooLong));
    }
}
