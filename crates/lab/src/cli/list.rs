//! `seckill lab list`.

use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use serde_json::{Value, json};

use super::session::stdout_look;
use crate::report::terminal::{Look, filled};
use ladder::{RUNGS, Rung};
use program::say;
use program::write_json;

/// A table in fewer columns than this has lines of one word.
const TABLE_FROM: usize = 90;

/// The ladder: each rung, its idea, what it claims
#[derive(Debug, Args)]
pub struct LabListArgs {
    /// Write it as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: &LabListArgs) -> anyhow::Result<()> {
    if let Some(path) = &args.json {
        write_json(path, &RUNGS.iter().map(row).collect::<Vec<_>>())?;
        if path == Path::new("-") {
            return Ok(());
        }
    }
    let look = stdout_look();
    if look.width.is_some_and(|width| width < TABLE_FROM) {
        return say(RUNGS
            .iter()
            .map(|rung| paragraph(rung, look))
            .collect::<Vec<_>>()
            .join("\n\n"));
    }
    say(table(look.width).trim_fmt())
}

fn row(rung: &Rung) -> Value {
    json!({
        "rung": rung.id,
        "idea": rung.line("Idea"),
        "holds": rung.line("Holds"),
        "breaks_when": rung.line("Breaks when"),
        "next": rung.line("Next"),
        "keeps": rung.claims,
        "breaks_in": rung.breaks,
    })
}

/// A line a rung, where nobody says how long a line may be.
fn table(width: Option<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["RUNG", "IDEA", "KEEPS", "BREAKS IN"]);
    for rung in RUNGS {
        table.add_row([rung.id.to_owned(), rung.line("Idea"), keeps(rung), breaks_in(rung)]);
    }
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        if let Some(column) = table.column_mut(0) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}

fn paragraph(rung: &Rung, look: Look) -> String {
    let keeps = filled(&format!("keeps {}", keeps(rung)), "  ", look);
    let breaks = filled(&format!("breaks in {}", breaks_in(rung)), "  ", look);
    let idea = filled(&rung.line("Idea"), "  ", look);
    [look.heading(rung.id), idea, look.aside(&keeps), look.aside(&breaks)].join("\n")
}

fn keeps(rung: &Rung) -> String {
    names(rung.claims.iter().map(|claim| claim.as_str()))
}

fn breaks_in(rung: &Rung) -> String {
    names(rung.breaks.iter().map(|scenario| scenario.as_str()))
}

fn names(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
