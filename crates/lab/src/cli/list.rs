//! `seckill lab list`.

use clap::Args;

use crate::report::terminal::{Look, filled};
use ladder::Rung;
use load::rungs::ListedRung;
use program::{OutputFile, say};
use report::Table;

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
    let table = table(&rungs);
    if look.fits(&table) {
        return say(table);
    }
    let paragraphs: Vec<_> = rungs.iter().map(|rung| paragraph(rung, look)).collect();
    say(paragraphs.join("\n\n"))
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

/// A line a rung.
fn table(rungs: &[&Rung]) -> String {
    let mut table = Table::new(&["RUNG", "IDEA", "KEEPS", "BREAKS IN"], &[1, 2, 3]);
    for rung in rungs {
        let (keeps, breaks) = (names(claims(rung)), names(scenarios(rung)));
        table.add([rung.id.to_owned(), rung.line("Idea"), keeps, breaks]);
    }
    table.text()
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
