//! A cell of a matrix: what was done to what, what was claimed of it, and what came of it. One matrix is the ladder's,
//! the other that of the levels of isolation.

use serde::Serialize;

use super::judge::Outcome;
use super::timeline::TimelineLine;
use super::told::{InWords, Witness};
use ladder::{Invariant, Scenario};
use seckill::http::Language;

/// A cell of a matrix, of the ladder's unless something else is said.
#[derive(Debug, Clone, Serialize)]
pub struct Cell<P = LadderPlace> {
    /// Which cell it is.
    #[serde(flatten)]
    pub of: P,
    /// What is claimed.
    pub claimed: Outcome,
    /// The errors that are claimed, in a matrix that has errors: SQLSTATEs of PostgreSQL, numbers of MariaDB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_errors: Option<&'static str>,
    /// What was seen.
    pub observed: Outcome,
    /// The errors that were seen, in a matrix that has errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<String>,
    /// What the verdict rests on.
    pub witness: Option<Witness>,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
    /// What happened, a line an event.
    pub timeline: Vec<TimelineLine>,
}

/// Where a cell stands in its matrix.
pub trait MatrixPlace {
    /// The cell's name.
    fn name(&self) -> String;

    /// What happens there.
    fn story(&self, language: Language) -> &'static str;

    /// The promise at stake.
    fn promise(&self) -> &'static str;

    /// The name above a timeline.
    fn heading(&self) -> String {
        self.name()
    }
}

/// A rung, and what happens to it.
#[derive(Debug, Clone, Serialize)]
pub struct LadderPlace {
    /// The rung.
    pub rung: &'static str,
    /// What happened to it.
    pub scenario: Scenario,
    /// What was at stake.
    pub invariant: Invariant,
}

impl MatrixPlace for LadderPlace {
    fn name(&self) -> String {
        format!("{} {}", self.rung, self.scenario)
    }

    fn story(&self, language: Language) -> &'static str {
        self.scenario.story(language)
    }

    fn promise(&self) -> &'static str {
        self.invariant.as_str()
    }

    fn heading(&self) -> String {
        format!("{}  {}", self.rung, self.scenario)
    }
}

impl<P: MatrixPlace> Cell<P> {
    /// Whether it came out as claimed, with the errors that are claimed.
    pub fn is_as_claimed(&self) -> bool {
        self.claimed == self.observed && self.claimed_errors == self.errors.as_deref()
    }

    /// Whether it was not played, for want of something.
    pub fn is_skipped(&self) -> bool {
        self.observed == Outcome::Skipped
    }

    /// Whether it speaks against the claims: it came out otherwise, or nobody knows how.
    pub fn is_wrong(&self) -> bool {
        !self.is_as_claimed() && !self.is_skipped()
    }

    /// "holds with 40001, as claimed".
    pub fn outcome(&self) -> String {
        self.outcome_in(Language::English)
    }

    /// The same in either language.
    pub fn outcome_in(&self, language: Language) -> String {
        let with = |errors: Option<&str>| {
            let errors = errors.filter(|errors| !errors.is_empty());
            errors.map_or_else(String::new, |errors| format!(" with {errors}"))
        };
        let seen = self.observed.in_words(language) + &with(self.errors.as_deref());
        match language {
            _ if self.is_skipped() => seen,
            Language::English if self.is_as_claimed() => format!("{seen}, as claimed"),
            Language::English => {
                let (claimed, errors) = (self.claimed.infinitive(), with(self.claimed_errors));
                format!("{seen}, NOT as claimed: it is claimed to {claimed}{errors}")
            }
            Language::Chinese if self.is_as_claimed() => format!("{seen}，与声明相符"),
            Language::Chinese => {
                format!("{seen}，与声明不符：声明的是{}", self.claimed.in_words(language))
            }
        }
    }

    /// What the verdict rests on, in either language.
    pub fn witness_in(&self, language: Language) -> Option<String> {
        self.witness.as_ref().map(|witness| witness.in_words(language))
    }

    /// "r03_version_cas herd: no_undersell holds, NOT as claimed (…)".
    pub(crate) fn in_full(&self) -> String {
        let witness = self.witness.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let (name, promise) = (self.of.name(), self.of.promise());
        format!("{name}: {promise} {}{witness}", self.outcome())
    }
}
