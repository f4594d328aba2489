//! `seckill lab replay`.

use std::process::ExitCode;

use clap::Args;

use crate::explore::{Leaf, play_schedule};
use crate::game::{InitialState, Schedule, Setting, not_explorable};
use crate::report::counted;
use crate::report::terminal::{Look, filled};
use crate::told::InWords;
use crate::world::in_world;
use crate::{Cell, MatrixPlace, TimelineLine, World, absent, cells, replay};
use ladder::{Rung, Scenario};
use program::{FAILED, say};
use seckill::config::{ConfigError, StoreArgs};
use seckill::http::{Language, TextFile};

/// Play one cell, a rung's cells, or all, each with its timeline
///
/// Exit status 0 only when every cell came out as claimed; with --schedule, only when it broke
/// nothing that the rung claims to keep, and nothing is unknown.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The rung, by its name or the beginning of it (r04)
    rung: Option<String>,
    /// The scenario
    scenario: Option<Scenario>,
    /// Play this schedule instead of a scenario, as `lab explore` names it: 'A1 B1 A2 B2'
    #[arg(long, value_name = "STEPS", requires = "rung", conflicts_with = "scenario")]
    schedule: Option<Schedule>,
    /// Where the schedule begins: last_one, double_click or herd; where orders have to be paid, also
    /// unpaid or buys_again
    #[arg(long, value_name = "STATE", requires = "schedule", default_value = "last_one")]
    from: InitialState,
    /// Processes: 1, or one for each actor of the schedule
    #[arg(long, value_name = "N", requires = "schedule", default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=3))]
    nodes: u8,
    /// The language of the timelines: en or zh
    #[arg(long, value_name = "LANGUAGE", default_value = "en", value_parser = language)]
    lang: Language,
    #[command(flatten)]
    stores: StoreArgs,
}

fn language(tag: &str) -> Result<Language, String> {
    Language::named(tag).ok_or_else(|| "the languages are en and zh".to_owned())
}

/// What stands around a timeline.
static TEXTS: TextFile = TextFile::new(include_str!("replay.toml"));

/// Runs the command.
pub(super) async fn run(args: ReplayArgs) -> anyhow::Result<ExitCode> {
    if let (Some(rung), Some(schedule)) = (&args.rung, &args.schedule) {
        let setting = setting(super::rung(rung)?, schedule, &args)?;
        let played = async |world: &World| play_schedule(world, &setting, schedule).await;
        let leaf = in_world(args.stores.clone(), played).await?;
        say(told_schedule(&leaf, &setting, Look::stdout(), args.lang))?;
        let against = setting.rung.claims.iter().any(|claimed| leaf.breaks(*claimed));
        let failed = against || leaf.unknown.is_some();
        return Ok(if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS });
    }
    let chosen = chosen(args.rung.as_deref(), args.scenario)?;
    let language = args.lang;
    let played = async |world: &World| play(world, &chosen, language).await;
    let played = in_world(args.stores, played).await?;
    say(format_args!("\n{}", summary(&played, true, language)))?;
    let wrong = played.iter().any(Cell::is_wrong);
    Ok(if wrong { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// What a schedule is played in.
fn setting(
    rung: &'static Rung,
    schedule: &Schedule,
    args: &ReplayArgs,
) -> Result<Setting, ConfigError> {
    let buyers = schedule.buyers();
    if let Some(why) = not_explorable(rung, buyers) {
        return Err(ConfigError(format!("no schedule is played on {}: it {why}", rung.id)));
    }
    Setting::of_schedule(rung, schedule, args.from, args.nodes.into()).map_err(ConfigError)
}

/// A schedule with its timeline.
fn told_schedule(leaf: &Leaf, setting: &Setting, look: Look, language: Language) -> String {
    let words = TEXTS.of(language);
    let title = look.heading(&format!("{}  {}", setting.rung.id, setting.from));
    let mut lines = vec![String::new(), format!("{title}: {}", leaf.schedule)];
    lines.extend(timeline(&leaf.timeline, look, language));
    match (&leaf.unknown, &leaf.broken[..]) {
        (Some(why), _) => lines.push(filled(&format!("{}{why}", words["unknown"]), "  ", look)),
        (None, []) => lines.push(format!("  {}", words["all_kept"])),
        (None, broken) => lines.extend(broken.iter().map(|broken| {
            let witness = broken.witness.in_words(language);
            filled(&format!("{} {}{witness}", broken.invariant, words["breaks"]), "  ", look)
        })),
    }
    lines.join("\n")
}

async fn play(
    world: &World,
    chosen: &[(&'static Rung, Scenario)],
    language: Language,
) -> anyhow::Result<Vec<Cell>> {
    let look = Look::stdout();
    let mut played = Vec::new();
    for (rung, scenario) in chosen {
        let cell = replay(world, rung, *scenario).await;
        say(told(&cell, look, language))?;
        played.push(cell);
    }
    Ok(played)
}

/// A cell with its timeline.
pub(super) fn told<P: MatrixPlace>(cell: &Cell<P>, look: Look, language: Language) -> String {
    let (heading, colon) = (look.heading(&cell.of.heading()), TEXTS.of(language)["colon"]);
    let mut lines = vec![String::new(), format!("{heading}{colon}{}", cell.of.story(language))];
    lines.extend(timeline(&cell.timeline, look, language));
    let outcome = look.judged(cell.observed, cell.is_wrong(), &cell.outcome_in(language));
    lines.push(format!("  {} {outcome} ({} ms)", cell.of.promise(), cell.elapsed_ms));
    lines.extend(cell.witness_in(language).map(|witness| filled(&witness, "    ", look)));
    lines.join("\n")
}

/// A timeline, a line an event.
pub(super) fn timeline(
    lines: &[TimelineLine],
    look: Look,
    language: Language,
) -> impl Iterator<Item = String> {
    lines.iter().map(move |line| match &line.actor {
        Some(actor) => {
            let event = line.event.in_words(language);
            format!("    {} {event}", look.actor(&format!("{actor:<6}")))
        }
        None => look.aside(&format!("    {}", line.in_words(language))),
    })
}

/// "41 cells: 40 as claimed, 1 skipped", and, where names are wanted, "(r17_zookeeper herd)".
pub(super) fn summary<P: MatrixPlace>(
    cells: &[Cell<P>],
    with_names: bool,
    language: Language,
) -> String {
    let words = TEXTS.of(language);
    let right = cells.iter().filter(|cell| cell.is_as_claimed()).count();
    let mut counts = vec![format!("{right} {}", words["as_claimed"])];
    for (word, which) in [
        (words["not_as_claimed"], Cell::is_wrong as fn(&Cell<P>) -> bool),
        (words["skipped"], Cell::is_skipped),
    ] {
        let names: Vec<String> =
            cells.iter().filter(|cell| which(cell)).map(|cell| cell.of.name()).collect();
        if !names.is_empty() {
            let listed = with_names.then(|| format!(" ({})", names.join(", ")));
            counts.push(format!("{} {word}{}", names.len(), listed.unwrap_or_default()));
        }
    }
    let counted = match language {
        Language::English => counted(cells.len(), "cell"),
        Language::Chinese => format!("共 {} 格", cells.len()),
    };
    format!("{counted}{}{}", words["colon"], counts.join(words["comma"]))
}

/// The cells asked for.
fn chosen(
    rung: Option<&str>,
    scenario: Option<Scenario>,
) -> Result<Vec<(&'static Rung, Scenario)>, ConfigError> {
    let Some(name) = rung else { return Ok(cells().collect()) };
    let rung = super::rung(name)?;
    if let Some(scenario) = scenario {
        if let Some(reason) = absent(scenario, rung) {
            let sentence = format!("{scenario} makes no sense on {}: it {reason}", rung.id);
            return Err(ConfigError(sentence));
        }
        return Ok(vec![(rung, scenario)]);
    }
    Ok(cells().filter(|(known, _)| known.id == rung.id).collect())
}
