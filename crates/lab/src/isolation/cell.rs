//! One cell of the matrix: a case on a server at a level, played and judged.

use std::time::Instant;

use serde::Serialize;
use tokio::time::timeout;

use super::case::{IsolationCase, IsolationClaim, IsolationPromise};
use super::player::CasePlayer;
use super::server::{DatabaseKind, IsolationLevel, IsolationServer};
use crate::{Outcome, TimelineLine};

/// A cell of the matrix.
#[derive(Debug, Clone, Serialize)]
pub struct IsolationCell {
    /// The case.
    pub case: &'static str,
    /// What happens in it.
    pub story: &'static str,
    /// On which server.
    pub server: DatabaseKind,
    /// At which level.
    pub level: IsolationLevel,
    /// What was at stake.
    pub promise: IsolationPromise,
    /// What is claimed.
    pub claimed: Outcome,
    /// The errors that are claimed: SQLSTATEs of PostgreSQL, numbers of MariaDB.
    pub claimed_errors: &'static str,
    /// What was seen.
    pub observed: Outcome,
    /// The errors that were seen.
    pub errors: String,
    /// What the verdict rests on.
    pub witness: Option<String>,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
    /// What happened, a line an event.
    pub timeline: Vec<TimelineLine>,
}

impl IsolationCell {
    /// Whether it came out as claimed: the promise, and the errors.
    pub fn is_as_claimed(&self) -> bool {
        self.claimed == self.observed && self.errors == self.claimed_errors
    }

    /// Whether it was not played, for want of a server.
    pub fn is_skipped(&self) -> bool {
        self.observed == Outcome::Skipped
    }

    /// Whether it came out otherwise than claimed, or nobody knows how.
    pub fn is_wrong(&self) -> bool {
        !self.is_as_claimed() && !self.is_skipped()
    }

    /// Its name: case, server, level.
    pub fn name(&self) -> String {
        format!("{} {} {}", self.case, self.server, self.level)
    }

    /// "holds with 40001, as claimed".
    pub fn outcome(&self) -> String {
        let with = |errors: &str| match errors {
            "" => String::new(),
            errors => format!(" with {errors}"),
        };
        if self.is_skipped() {
            return self.observed.to_string();
        }
        let seen = format!("{}{}", self.observed, with(&self.errors));
        if self.is_as_claimed() {
            return format!("{seen}, as claimed");
        }
        let claimed = self.claimed.infinitive();
        format!("{seen}, NOT as claimed: it is claimed to {claimed}{}", with(self.claimed_errors))
    }

    /// All of it, as a person reads it, without colours and without how long it took.
    pub fn told(&self) -> Vec<String> {
        let mut lines = vec![format!("{}: {}", self.name(), self.story)];
        lines.extend(self.timeline.iter().map(|line| format!("    {line}").trim_end().to_owned()));
        lines.push(format!("  {} {}", self.promise, self.outcome()));
        lines.extend(self.witness.as_deref().map(|witness| format!("    {witness}")));
        lines
    }

    fn new(
        case: &'static IsolationCase,
        server: DatabaseKind,
        level: IsolationLevel,
        claim: IsolationClaim,
    ) -> Self {
        Self {
            case: &case.name,
            story: &case.story,
            server,
            level,
            promise: case.promise,
            claimed: claim.outcome,
            claimed_errors: claim.errors,
            observed: Outcome::Unknown,
            errors: String::new(),
            witness: None,
            elapsed_ms: 0,
            timeline: Vec::new(),
        }
    }
}

/// A cell that is not played, because the server is not there; the sentence says how to get it.
pub fn skipped_cell(
    case: &'static IsolationCase,
    server: DatabaseKind,
    level: IsolationLevel,
    claim: IsolationClaim,
    how: String,
) -> IsolationCell {
    let cell = IsolationCell::new(case, server, level, claim);
    IsolationCell { observed: Outcome::Skipped, witness: Some(how), ..cell }
}

/// Plays a cell. Where the server does not answer, the outcome is unknown, and the witness says why.
pub async fn play_cell(
    server: &IsolationServer,
    case: &'static IsolationCase,
    level: IsolationLevel,
    claim: IsolationClaim,
) -> IsolationCell {
    let begun = Instant::now();
    let mut cell = IsolationCell::new(case, server.kind(), level, claim);
    let mut errors = Vec::new();
    let played = async {
        let timeline = &mut cell.timeline;
        CasePlayer::new(server, case, level, timeline, &mut errors).await?.play().await
    };
    match timeout(server.patience(), played).await {
        Ok(Ok(played)) => {
            cell.witness = played.books.broken(case, played.deadlock, played.endless);
            let broken = cell.witness.is_some();
            cell.observed = if broken { Outcome::Breaks } else { Outcome::Holds };
        }
        Ok(Err(error)) => cell.witness = Some(format!("{error:#}")),
        Err(_) => {
            let patience = humantime::format_duration(server.patience());
            let kind = server.kind().title();
            cell.witness = Some(format!("{kind} came to no answer within {patience}"));
        }
    }
    cell.errors = errors.join(" ");
    cell.elapsed_ms = begun.elapsed().as_millis() as u64;
    cell
}
