//! One cell of the matrix: a case on a server at a level, played and judged.

use std::time::Instant;

use serde::Serialize;
use tokio::time::timeout;

use super::case::{IsolationCase, IsolationClaim, IsolationPromise};
use super::player::CasePlayer;
use super::server::{DatabaseKind, IsolationLevel, IsolationServer};
use crate::told::Witness;
use crate::{Cell, MatrixPlace, Outcome};
use seckill::http::Language;

/// A cell of the matrix.
pub type IsolationCell = Cell<IsolationPlace>;

/// A case on a server at a level.
#[derive(Debug, Clone, Serialize)]
pub struct IsolationPlace {
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
}

impl MatrixPlace for IsolationPlace {
    fn name(&self) -> String {
        format!("{} {} {}", self.case, self.server, self.level)
    }

    fn story(&self, _language: Language) -> &'static str {
        self.story
    }

    fn promise(&self) -> &'static str {
        self.promise.into()
    }
}

/// A cell that was not played, and why.
pub fn unplayed_cell(
    case: &'static IsolationCase,
    server: DatabaseKind,
    level: IsolationLevel,
    claim: IsolationClaim,
    (observed, why): (Outcome, Option<Witness>),
) -> IsolationCell {
    let IsolationCase { name, story, promise, .. } = case;
    Cell {
        of: IsolationPlace { case: name, story, server, level, promise: *promise },
        claimed: claim.outcome,
        claimed_errors: Some(claim.errors),
        observed,
        errors: Some(String::new()),
        witness: why,
        elapsed_ms: 0,
        timeline: Vec::new(),
    }
}

/// Plays a cell. Where the server does not answer, the outcome is unknown, and the witness says why.
pub async fn play_cell(
    server: &IsolationServer,
    case: &'static IsolationCase,
    level: IsolationLevel,
    claim: IsolationClaim,
) -> IsolationCell {
    let begun = Instant::now();
    let mut cell = unplayed_cell(case, server.kind(), level, claim, (Outcome::Unknown, None));
    let mut errors = Vec::new();
    let played = async {
        let timeline = &mut cell.timeline;
        CasePlayer::new(server, case, level, timeline, &mut errors).await?.play().await
    };
    match timeout(server.patience(), played).await {
        Ok(Ok(played)) => {
            cell.witness =
                played.books.broken(case, played.deadlock, played.endless).map(Witness::from);
            let broken = cell.witness.is_some();
            cell.observed = if broken { Outcome::Breaks } else { Outcome::Holds };
        }
        Ok(Err(error)) => cell.witness = Some(format!("{error:#}").into()),
        Err(_) => {
            let patience = humantime::format_duration(server.patience());
            let kind = server.kind().title();
            let why = format!("{kind} came to no answer within {patience}");
            cell.witness = Some(why.into());
        }
    }
    cell.errors = Some(errors.join(" "));
    cell.elapsed_ms = begun.elapsed().as_millis() as u64;
    cell
}
