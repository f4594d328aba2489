//! The steps of a schedule, and its name: `A1 B1 L A2`, or in short `ABLA`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::told::words;
use ladder::Rung;

/// The actors, by their places in a schedule: the buyers, a consumer, and what ends unpaid orders.
pub(crate) const ACTOR_NAMES: [&str; 5] = ["A", "B", "C", "W", "T"];

/// The place of the third buyer.
const THIRD: usize = 2;

/// The place of the consumer.
pub(crate) const CONSUMER: usize = 3;

/// The place of what ends orders whose time to pay is over.
pub(crate) const TIME: usize = 4;

/// The actor that dies where `K` stands alone: the one that the first process is there for, as [`Schedule::on`] says.
const FIRST: usize = ACTOR_NAMES.len();

/// More steps than any schedule has.
pub const MAX_STEPS: usize = 100;

/// One step of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// The actor goes on to its next pause point.
    Go(usize),
    /// The lease of the lock that is held ends on the next of its servers, as if its time had passed.
    EndLease,
    /// `SIGKILL` of the actor's process. Nothing starts it again.
    Kill(usize),
    /// `SIGSTOP` of the actor's process, until the lease of its lock has ended. It goes on with
    /// the next step of an actor in it.
    Pause(usize),
    /// The answer to whoever bought is lost, and the client sends the request again.
    SendAgain,
}

impl Step {
    /// The actor that takes the step; `None` for a fault, which nobody takes.
    pub(crate) fn actor(self) -> Option<usize> {
        match self {
            Self::Go(actor) => Some(actor),
            Self::EndLease | Self::Kill(_) | Self::Pause(_) | Self::SendAgain => None,
        }
    }

    /// Whether it is nobody's own step.
    pub(crate) fn is_fault(self) -> bool {
        self.actor().is_none()
    }

    /// As one of several steps without their numbers: `A`, `C` for the consumer, `K` for the first process.
    pub(crate) fn short(self) -> String {
        match self {
            Self::Go(CONSUMER) => ACTOR_NAMES[THIRD].to_owned(),
            Self::Go(actor) => ACTOR_NAMES[actor].to_owned(),
            Self::Kill(0 | CONSUMER | TIME) => "K".to_owned(),
            fault => fault.to_string(),
        }
    }

    /// What the step means on a rung: beside a consumer there is no third buyer.
    fn on(self, rung: &Rung, is_unpaid: bool) -> Self {
        match self {
            Self::Go(THIRD) if rung.has_consumer() => Self::Go(CONSUMER),
            Self::Kill(FIRST) if is_unpaid => Self::Kill(TIME),
            Self::Kill(FIRST) if rung.has_consumer() => Self::Kill(CONSUMER),
            Self::Kill(FIRST) => Self::Kill(0),
            step => step,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Go(actor) => formatter.write_str(ACTOR_NAMES[actor]),
            Self::EndLease => formatter.write_str("L"),
            Self::SendAgain => formatter.write_str("S"),
            Self::Kill(FIRST) => formatter.write_str("K"),
            Self::Kill(actor) => write!(formatter, "K:{}", ACTOR_NAMES[actor]),
            Self::Pause(actor) => write!(formatter, "P:{}", ACTOR_NAMES[actor]),
        }
    }
}

/// The steps, in order. As text an actor's step has the actor's letter and says which of its steps
/// it is; `L` ends a lease, `K:A` kills the process of A, `P:A` pauses it, `S` loses an answer. The numbers and the spaces may
/// be left out, `C` is the consumer where there is one, and `K` alone kills the first process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Schedule(pub Vec<Step>);

impl Schedule {
    /// What it means on a rung, where schedules begin with an order that is not paid, or do not.
    #[must_use]
    pub fn on(&self, rung: &Rung, is_unpaid: bool) -> Self {
        Self(self.0.iter().map(|step| step.on(rung, is_unpaid)).collect())
    }

    /// Without numbers and spaces: `ABLA`.
    pub fn short(&self) -> String {
        self.0.iter().map(|step| step.short()).collect()
    }

    /// Where the schedule turns from one actor to another.
    pub(crate) fn turns(&self) -> usize {
        let actors: Vec<usize> = self.0.iter().filter_map(|step| step.actor()).collect();
        actors.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    /// How many buyers there are: no fewer than two, and no fewer than the last by name.
    pub fn buyers(&self) -> usize {
        let named = self.0.iter().filter_map(|step| match *step {
            Step::Go(actor) | Step::Kill(actor) | Step::Pause(actor) => Some(actor + 1),
            Step::EndLease | Step::SendAgain => None,
        });
        let named = named.filter(|count| *count <= CONSUMER);
        named.max().unwrap_or_default().max(2)
    }

    /// Whether the actor at this place takes part.
    pub(crate) fn names(&self, actor: usize) -> bool {
        let of_actor = [Step::Go(actor), Step::Kill(actor)];
        self.0.iter().any(|step| of_actor.contains(step))
    }

    /// The lower rank is told first: of two schedules the shorter one, of several as short that which
    /// turns from one actor to another least often, and the first by name.
    pub fn rank(&self) -> (usize, usize, String) {
        (self.0.len(), self.turns(), self.to_string())
    }

    /// What happens in it beside the actors' own steps.
    pub(crate) fn faults(&self) -> impl Iterator<Item = Step> {
        self.0.iter().copied().filter(|step| step.is_fault())
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut taken = [0; ACTOR_NAMES.len()];
        for (place, step) in self.0.iter().enumerate() {
            if place > 0 {
                formatter.write_str(" ")?;
            }
            write!(formatter, "{step}")?;
            if let Some(actor) = step.actor() {
                taken[actor] += 1;
                write!(formatter, "{}", taken[actor])?;
            }
        }
        Ok(())
    }
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

words! {
    /// Why a text is no schedule: a word means nothing, an actor's steps are not counted from 1, or it is too long.
    pub NoSchedule {
        Word { word: String } => "{word} is no step: A1 is the first step of A, L ends a lease, K:A kills, P:A pauses, S loses an answer", "{word} 不是一步：A1 是 A 的第一步，L 让租期到期，K:A 杀掉进程，P:A 暂停进程，S 丢掉一个响应";
        Count { found: String, expected: String } => "{found} is out of place: the next step of that actor is {expected}", "{found} 的位置不对：它的下一步是 {expected}";
        TooLong { most: usize } => "a schedule has at most {most} steps", "一份调度最多 {most} 步";
    }
}

impl std::error::Error for NoSchedule {}

impl FromStr for Schedule {
    type Err = NoSchedule;

    fn from_str(text: &str) -> Result<Self, NoSchedule> {
        let (mut steps, mut taken) = (Vec::new(), [0; ACTOR_NAMES.len()]);
        for word in text.split_whitespace() {
            let mut rest = word;
            while !rest.is_empty() {
                let read = read(rest).ok_or_else(|| NoSchedule::Word { word: format!("{word:?}") });
                let (step, number, after) = read?;
                if let Some(actor) = step.actor() {
                    taken[actor] += 1;
                    if !number.is_empty() && number != taken[actor].to_string() {
                        let name = ACTOR_NAMES[actor];
                        let expected = format!("{name}{}", taken[actor]);
                        return Err(NoSchedule::Count {
                            found: format!("{name}{number}"),
                            expected,
                        });
                    }
                }
                steps.push(step);
                if steps.len() > MAX_STEPS {
                    return Err(NoSchedule::TooLong { most: MAX_STEPS });
                }
                rest = after;
            }
        }
        Ok(Self(steps))
    }
}

/// The first step of a word, its number, and what comes after it.
fn read(word: &str) -> Option<(Step, &str, &str)> {
    let actor = |name: char| {
        let name = name.to_ascii_uppercase().to_string();
        ACTOR_NAMES.iter().position(|known| *known == name)
    };
    let mut letters = word.chars();
    let first = letters.next()?.to_ascii_uppercase();
    let rest = letters.as_str();
    if let Some(target) = rest.strip_prefix(':') {
        let mut target = target.chars();
        let whom = actor(target.next()?)?;
        let step = match first {
            'K' => Step::Kill(whom),
            'P' => Step::Pause(whom),
            _ => return None,
        };
        return Some((step, "", target.as_str()));
    }
    match first {
        'K' => Some((Step::Kill(FIRST), "", rest)),
        'L' => Some((Step::EndLease, "", rest)),
        'S' => Some((Step::SendAgain, "", rest)),
        name => {
            let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            Some((Step::Go(actor(name)?), &rest[..digits], &rest[digits..]))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_as_it_is_written() {
        for name in [
            "A1 B1 A2 B2",
            "A1 L B1",
            "B1 K:B A1",
            "C1 P:C A1 B1 C2",
            "A1 W1 K:W B1",
            "T1 A1 K:T",
            "A1 S B1",
        ] {
            assert_eq!(name.parse::<Schedule>().map(|it| it.to_string()), Ok(name.to_owned()));
        }
        let two = "A1 B1 P:A B2 A2".parse::<Schedule>().unwrap();
        assert_eq!((two.turns(), two.buyers(), two.short().as_str()), (2, 2, "ABP:ABA"));
        assert!(two.faults().eq([Step::Pause(0)]));
    }

    #[test]
    fn the_short_form_is_read_as_the_long_one_is() {
        let on = |text: &str, rung: &str, is_unpaid| {
            text.parse::<Schedule>().unwrap().on(ladder::find(rung).unwrap(), is_unpaid)
        };
        for (short, rung, is_unpaid, long) in [
            ("ABAB", "r05a", false, "A1 B1 A2 B2"),
            ("abLk", "r09", false, "A1 B1 L K:A"),
            ("AACKB", "r21a", false, "A1 A2 W1 K:W B1"),
            ("AP:ABK:B", "r13d", false, "A1 P:A B1 K:B"),
            ("ATK", "r26a", true, "A1 T1 K:T"),
            ("", "r01", false, ""),
        ] {
            let schedule = on(short, rung, is_unpaid);
            assert_eq!(schedule.to_string(), long, "{short}");
            assert_eq!(schedule.short(), short.to_uppercase());
            assert_eq!(schedule, on(long, rung, is_unpaid), "{short}");
        }
    }

    #[test]
    fn nothing_else_is_read() {
        for (text, words) in [
            ("A1 D1", "\"D1\" is no step"),
            ("ABX", "\"ABX\" is no step"),
            ("K:D", "\"K:D\" is no step"),
            ("K:", "\"K:\" is no step"),
            ("A:B", "\"A:B\" is no step"),
            ("P", "\"P\" is no step"),
            ("L1", "\"L1\" is no step"),
            ("é1", "is no step"),
            ("A1 A3", "A3 is out of place: the next step of that actor is A2"),
            ("A01", "A01 is out of place"),
            (&"L".repeat(MAX_STEPS + 1), "at most 100 steps"),
        ] {
            let refused = text.parse::<Schedule>().map_err(|error| error.to_string());
            assert!(
                refused.as_ref().is_err_and(|error| error.contains(words)),
                "{text}: {refused:?}"
            );
        }
        assert_eq!("L".repeat(MAX_STEPS).parse::<Schedule>().unwrap().0.len(), MAX_STEPS);
    }
}
