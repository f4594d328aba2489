//! A schedule as text: `ABAB`, a letter a step.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::told::words;

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

words! {
    /// Why a text is no schedule: a letter, in quotation marks, means nothing, or it is too long.
    pub NoSchedule {
        Letter { letter: String } => "a schedule is made of A, B, C, L and K; {letter} is none of them", "调度只由 A、B、C、L 和 K 组成，不能有 {letter}";
        TooLong { most: usize } => "a schedule has at most {most} steps", "一份调度最多 {most} 步";
    }
}

impl std::error::Error for NoSchedule {}

impl FromStr for Schedule {
    type Err = NoSchedule;

    fn from_str(text: &str) -> Result<Self, NoSchedule> {
        if text.len() > MAX_STEPS {
            return Err(NoSchedule::TooLong { most: MAX_STEPS });
        }
        let step = |letter: char| {
            let upper = letter.to_ascii_uppercase();
            let known = ScheduleStep::ALL.into_iter().find(|step| step.letter() == upper);
            known.ok_or_else(|| NoSchedule::Letter { letter: format!("{letter:?}") })
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
        assert_eq!("ABX".parse::<Schedule>(), Err(NoSchedule::Letter { letter: "'X'".to_owned() }));
        assert_eq!(
            "A".repeat(65).parse::<Schedule>(),
            Err(NoSchedule::TooLong { most: MAX_STEPS })
        );
    }
}
