//! `seckill lab list`.

use clap::Args;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

use crate::report::terminal::{Look, filled};
use ladder::Rung;
use load::rungs::ListedRung;
use program::{OutputFile, say};

/// A table in fewer columns than this has lines of one word.
const TABLE_FROM: usize = 90;

/// The ladder: each rung, its idea, what it claims
#[derive(Debug, Args)]
pub struct LabListArgs {
    /// The rungs, by their names or the beginnings of them (r04); all when none is named
    #[arg(value_name = "RUNG")]
    rungs: Vec<String>,
    /// Write it as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,
}

/// Runs the command.
pub(super) fn run(args: &LabListArgs) -> anyhow::Result<()> {
    let rungs = super::rungs(&args.rungs)?;
    if let Some(file) = &args.json {
        file.write_json(&rungs.iter().map(|rung| row(rung)).collect::<Vec<_>>())?;
        if file.is_stdout() {
            return Ok(());
        }
    }
    let look = Look::stdout();
    if look.width.is_some_and(|width| width < TABLE_FROM) {
        let paragraphs: Vec<_> = rungs.iter().map(|rung| paragraph(rung, look)).collect();
        return say(paragraphs.join("\n\n"));
    }
    say(table(&rungs, look.width).trim_fmt())
}

fn row(rung: &Rung) -> ListedRung {
    ListedRung {
        rung: rung.id.to_owned(),
        idea: rung.line("Idea"),
        holds: rung.line("Holds"),
        breaks_when: rung.line("Breaks when"),
        next: rung.line("Next"),
        keeps: claims(rung).map(str::to_owned).collect(),
        breaks_in: scenarios(rung).map(str::to_owned).collect(),
    }
}

/// A line a rung, where nobody says how long a line may be.
fn table(rungs: &[&Rung], width: Option<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["RUNG", "IDEA", "KEEPS", "BREAKS IN"]);
    for rung in rungs {
        let (keeps, breaks) = (names(claims(rung)), names(scenarios(rung)));
        table.add_row([rung.id.to_owned(), rung.line("Idea"), keeps, breaks]);
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
    let keeps = filled(&format!("keeps {}", names(claims(rung))), "  ", look);
    let breaks = filled(&format!("breaks in {}", names(scenarios(rung))), "  ", look);
    let idea = filled(&rung.line("Idea"), "  ", look);
    [look.heading(rung.id), idea, look.aside(&keeps), look.aside(&breaks)].join("\n")
}

fn claims(rung: &Rung) -> impl Iterator<Item = &'static str> {
    rung.claims.iter().map(|claim| claim.as_str())
}

fn scenarios(rung: &Rung) -> impl Iterator<Item = &'static str> {
    rung.breaks.iter().map(|scenario| scenario.as_str())
}

fn names(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
