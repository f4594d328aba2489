//! The report for a program: what `--json` writes. The keys of cells and rushes are part of the
//! command's interface.

use serde::{Serialize, Serializer};

use super::{Environment, LabReport};
use crate::{Cell, RushOptions, RushReport};
use ladder::Scenario;
use seckill::http::Language;

#[derive(Serialize)]
struct Json<'a> {
    as_claimed: bool,
    cells: Vec<&'a Cell>,
    rushes: &'a [RushReport],
    /// The rushes that came to no end.
    rushes_unknown: Vec<Without>,
    /// What this machine lacks something for: cells, and rushes, which have no scenario.
    skipped: Vec<Without>,
    /// The cells that make no sense.
    absent: Vec<Without>,
    crowd: Crowd,
    environment: &'a Environment,
}

/// The crowd of each rush.
#[derive(Serialize)]
struct Crowd {
    users: u32,
    stock: i32,
}

/// Something of which nothing is known, and why.
#[derive(Serialize)]
struct Without {
    rung: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scenario: Option<Scenario>,
    reason: String,
}

impl Serialize for LabReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (skipped, played): (Vec<_>, Vec<_>) =
            self.cells.iter().partition(|cell| cell.is_skipped());
        let skipped = skipped.into_iter().map(|cell| Without {
            rung: cell.of.rung,
            scenario: Some(cell.of.scenario),
            reason: cell.witness_in(Language::English).unwrap_or_default(),
        });
        let no_rushes = |skipped: bool| {
            let rushes = self.no_rushes.iter().filter(move |rush| rush.skipped == skipped);
            rushes.map(|rush| {
                let reason = rush.reason.clone();
                Without { rung: rush.rung, scenario: None, reason }
            })
        };
        let absent = self.absent().map(|(rung, scenario, reason)| Without {
            rung: rung.id,
            scenario: Some(scenario),
            reason: reason.to_owned(),
        });
        let RushOptions { users, stock, .. } = self.crowd;
        let json = Json {
            as_claimed: self.is_as_claimed(),
            cells: played,
            rushes: &self.rushes,
            rushes_unknown: no_rushes(false).collect(),
            skipped: skipped.chain(no_rushes(true)).collect(),
            absent: absent.collect(),
            crowd: Crowd { users, stock },
            environment: &self.environment,
        };
        json.serialize(serializer)
    }
}
