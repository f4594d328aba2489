//! `seckill lab list`.

use clap::Args;
use comfy_table::{Table, presets};

use crate::ladder::RUNGS;

/// The ladder: each rung, its idea, what it claims
#[derive(Debug, Args)]
pub struct ListArgs {}

/// Runs the command.
///
/// # Errors
/// When standard output is closed.
pub(super) fn run(_: &ListArgs) -> anyhow::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["rung", "idea", "keeps", "breaks in"]);
    let names = |names: Vec<&str>| names.join(", ");
    for rung in RUNGS {
        table.add_row([
            rung.id.to_owned(),
            rung.line("Idea"),
            names(rung.claims.iter().map(|claim| claim.as_str()).collect()),
            names(rung.breaks.iter().map(|scenario| scenario.as_str()).collect()),
        ]);
    }
    crate::cli::say(table.trim_fmt())
}
