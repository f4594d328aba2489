//! `seckill lab explore`.

use std::process::ExitCode;

use clap::Args;

use super::replay::timeline;
use crate::explore::{Exploration, ExploreLimits, ExploreReport, explore, place};
use crate::game::{FaultKind, InitialState, Setting, SettingOptions, not_explorable};
use crate::report::terminal::Look;
use crate::report::{Environment, counted};
use crate::world::in_world;
use crate::{World, missing};
use ladder::{RUNGS, Rung};
use program::{FAILED, OutputFile, progress, say_beside};
use seckill::config::{ConfigError, StoreArgs};
use seckill::http::Language;

/// The bound for three actors, unless another one is named.
const BOUND_OF_THREE: usize = 2;

/// Every interleaving of a rung's steps, on the real servers: which schedules break a promise
///
/// A step takes one buyer to its next pause point. Each schedule is played from the beginning and
/// judged; one that breaks a promise is played twice. Exit status 0 only when nothing that the rung
/// claims to keep was broken, a scenario covers every break, and nothing is unknown;
/// with --all, when nothing was left out by --max-schedules, and every break of the registry that such
/// schedules can show was found, too; which rungs were skipped is printed.
#[derive(Debug, Args)]
pub struct ExploreArgs {
    /// The rungs, by their names or the beginnings of them (r04)
    #[arg(value_name = "RUNG", required_unless_present = "all", conflicts_with = "all")]
    rungs: Vec<String>,
    /// Every rung, with two buyers, held against what the registry claims
    #[arg(long, conflicts_with_all = ["from", "nodes", "actors", "faults"])]
    all: bool,
    /// Buyers: 2 or 3
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=3))]
    actors: u8,
    /// Processes: 1, or one for each buyer (2) [default: what the rung's lock is meant for, and for a
    /// mutex both]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=2))]
    nodes: Option<u8>,
    /// Begin only here: last_one, double_click or herd; where orders have to be paid, also unpaid or
    /// buys_again
    #[arg(long, value_name = "STATE")]
    from: Option<InitialState>,
    /// What may happen once in a schedule: none, or of lease, kill, pause, lost [default: what makes sense]
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    faults: Option<Vec<FaultChoice>>,
    /// At most so many preemptions a schedule [default: none for 2 buyers, 2 for 3]
    #[arg(long, value_name = "N")]
    bound: Option<usize>,
    /// At most so many schedules from each beginning
    #[arg(long, value_name = "N", default_value_t = 20_000,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_schedules: u32,
    /// Write the result as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,
    #[command(flatten)]
    stores: StoreArgs,
}

/// A fault, or none.
#[derive(Debug, Clone, Copy)]
struct FaultChoice(Option<FaultKind>);

impl std::str::FromStr for FaultChoice {
    type Err = ladder::UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if name == "none" { Ok(Self(None)) } else { name.parse().map(|fault| Self(Some(fault))) }
    }
}

/// Runs the command.
pub(super) async fn run(args: ExploreArgs) -> anyhow::Result<ExitCode> {
    let bound = args.bound.or((args.actors > 2).then_some(BOUND_OF_THREE));
    let limits = ExploreLimits { bound, max_schedules: args.max_schedules as usize };
    let (settings, unsuited) = settings(&args)?;
    let mut report = None;
    let done = in_world(args.stores.clone(), async |world| {
        let report = report.insert(ExploreReport {
            environment: Environment::of(world).await,
            explorations: Vec::new(),
            all: args.all,
            skipped: unsuited,
        });
        explore_all(world, settings, limits, report).await
    })
    .await;
    // Also what was explored before an interrupt.
    let Some(report) = report else { return done.map(|()| ExitCode::from(FAILED)) };
    let objections = report.objections();
    say_beside(&args.json, text(&report, &objections, Look::beside(&args.json)))?;
    done?;
    if let Some(file) = &args.json {
        file.write_json(&report)?;
    }
    Ok(if objections.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

type Settings = (Vec<Setting>, Vec<(&'static str, String)>);

/// What is to be explored, and why something is not.
fn settings(args: &ExploreArgs) -> Result<Settings, ConfigError> {
    let faults = args.faults.as_ref();
    let options = SettingOptions {
        buyers: args.actors.into(),
        processes: args.nodes.map(usize::from),
        from: args.from,
        faults: faults.map(|chosen| chosen.iter().filter_map(|choice| choice.0).collect()),
    };
    let rungs: Vec<&'static Rung> = match args.all {
        true => RUNGS.iter().collect(),
        false => args.rungs.iter().map(|name| super::rung(name)).collect::<Result<_, _>>()?,
    };
    let (mut settings, mut unsuited) = (Vec::new(), Vec::new());
    for rung in rungs {
        match not_explorable(rung, options.buyers) {
            None => {
                let own = Setting::of(rung, &options);
                if let (true, Some(from)) = (own.is_empty(), options.from) {
                    return Err(ConfigError(format!(
                        "{} is not explored from {from}: its orders cost nothing",
                        rung.id
                    )));
                }
                settings.extend(own);
            }
            Some(why) if args.all => unsuited.push((rung.id, format!("it {why}"))),
            Some(why) => return Err(ConfigError(format!("{} is not explored: it {why}", rung.id))),
        }
    }
    Ok((settings, unsuited))
}

async fn explore_all(
    world: &World,
    settings: Vec<Setting>,
    limits: ExploreLimits,
    report: &mut ExploreReport,
) -> anyhow::Result<()> {
    eprintln!("{}", report.environment.parts().join(", "));
    let bound = limits.bound.map_or_else(|| "all".to_owned(), |bound| bound.to_string());
    eprintln!("preemptions a schedule: {bound}; commits do not wait for the disk");
    for setting in settings {
        if report.skipped.iter().any(|(rung, _)| *rung == setting.rung.id) {
            continue;
        }
        let (rung, name) = (setting.rung.id, place(&setting));
        report.explorations.push(Exploration::new(setting, limits));
        let Some(exploration) = report.explorations.last_mut() else { continue };
        let bar = progress::of_waiting(&name);
        let told = |played, open| {
            bar.set_message(format!("{name}: {played} of {} schedules known", played + open));
        };
        let explored = explore(world, exploration, told).await;
        bar.finish_and_clear();
        match explored {
            Ok(()) => eprintln!("{}", line(exploration)),
            Err(error) => match missing(&error) {
                Some(how) => {
                    report.explorations.pop();
                    report.skipped.push((rung, how));
                }
                None => return Err(error),
            },
        }
    }
    Ok(())
}

fn line(exploration: &Exploration) -> String {
    let (place, sum) = (place(&exploration.setting), exploration.sum());
    format!("{place}: {sum} ({:.0}/s)", exploration.rate())
}

fn text(report: &ExploreReport, objections: &[String], look: Look) -> String {
    let mut lines = Vec::new();
    for exploration in &report.explorations {
        let (place, sum) = (place(&exploration.setting), exploration.sum());
        lines.push(format!("{}: {sum}", look.heading(&place)));
        if !report.all {
            lines.extend(shortest(exploration, look));
        }
    }
    lines.extend(report.coverage());
    if let Some(bound) = report.bound() {
        lines.push(format!(
            "schedules with more than {} were not looked at",
            counted(bound, "preemption")
        ));
    }
    lines.extend(objections.iter().map(|objection| format!("NOT AS CLAIMED: {objection}")));
    lines.push(match (objections.is_empty(), report.is_whole()) {
        (false, _) => counted(objections.len(), "objection"),
        (true, true) => {
            "every rung keeps what it claims, and breaks where it is said to".to_owned()
        }
        (true, false) => "nothing speaks against the registry".to_owned(),
    });
    lines.join("\n")
}

/// The shortest schedule of each break, and how to play it again.
fn shortest(exploration: &Exploration, look: Look) -> Vec<String> {
    let mut lines = Vec::new();
    for invariant in exploration.broken().keys() {
        let Some(leaf) = exploration.shortest(*invariant) else { continue };
        let Setting { rung, from, processes, .. } = &exploration.setting;
        lines.push(format!("  the shortest that breaks {invariant}: {}", leaf.schedule));
        lines.extend(timeline(&leaf.timeline, look, Language::English));
        let schedule = &leaf.schedule;
        lines.push(look.aside(&format!(
            "  seckill lab replay {} --from {from} --nodes {processes} --schedule '{schedule}'",
            rung.id
        )));
    }
    lines
}
