//! `seckill check`: the judge for anybody's backend.
//!
//! In reading order: [`mod@file`] is the file as it is written, [`read`] reads it over a preset of [`presets`],
//! [`compile`] finds what is wrong with it and makes a [`target`] of it; [`phases`] says which crowds come,
//! [`crowds`] sends them (or [`trial`] one buyer), and [`sale_record`] keeps what they heard; [`books`] asks the database; [`judge`]
//! judges by the counts and by the [`evidence`], unless there are signs of [`mistakes`] in the file; [`report`] is what [`terminal`] and [`html`] show.

pub mod addresses;
pub mod books;
pub mod buyers;
pub mod command;
pub mod compile;
mod counts;
pub mod crowds;
pub mod evidence;
pub mod file;
pub mod html;
pub mod judge;
pub mod mistakes;
pub mod own_cpu;
pub mod phases;
pub mod presets;
pub mod promises;
pub mod read;
pub mod report;
mod requests;
pub mod rules;
pub mod sale_record;
mod tables;
pub mod target;
pub mod terminal;
pub mod trial;
pub mod values;
pub mod vouchers;
pub mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use load::rush::MAX_REQUESTS;
use program::{ConfigError, FAILED, ReportFiles, UNUSABLE, say_beside};
use rand::RngExt;
use seckill::model::clock::{Clock, SystemClock};
use tokio::time::Instant;

use self::crowds::{CrowdSender, CrowdTotals};
use self::read::SourceText;
use self::report::{CheckReport, CheckTerms};
use self::target::CheckTarget;
use self::trial::Trial;

/// The shortest time that an answer may be given.
const SHORTEST_ANSWER: Duration = Duration::from_millis(1);

/// Judge any flash-sale backend: does it oversell, sell twice, lose orders?
///
/// TARGET.toml says how to talk to the backend: its addresses, the request of a purchase, where tokens come
/// from, how answers are told apart, and a command that prints what the database says. Crowds buy: double
/// clicks, a rush, the last voucher, repeats after the sell-out. Then promise by promise: holds, BROKEN with a
/// witness, or unknown with what the file would have to give. Exit status 0: all hold; 1: one is broken; 2: the
/// file cannot be used, nothing could be reached, or something is unknown.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The file that says how to talk to the backend
    #[arg(value_name = "TARGET.toml", required_unless_present_any = ["example", "schema"])]
    target: Option<PathBuf>,
    /// Buyers
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=500_000))]
    users: u32,
    /// How often a buyer tries who clicks twice, all at once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=100))]
    attempts: u32,
    /// How often crowds come: double clicks and, where each gets a voucher of its own, the last voucher; the large
    /// ones a tenth as often
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Connections at most; more attempts than this share them
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=30_000))]
    connections: u32,
    /// How long one answer may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = answer_within)]
    answer_within: Duration,
    /// Decides the order of the buyers [default: drawn]
    #[arg(long)]
    seed: Option<u64>,
    /// Let one buyer log in, buy once and look at the books, and show each request, its answer and the rule that
    /// fits; 0: a yes was heard, and the books have it
    #[arg(long, conflicts_with_all = ["json", "html"])]
    trial: bool,
    /// Print the file with its preset written out, and send nothing
    #[arg(long, requires = "target", conflicts_with_all = ["json", "html", "trial"])]
    print: bool,
    #[command(flatten)]
    files: ReportFiles,
    /// Print a commented file to begin with: of a backend of your own, or of seckill, hmdp or lab
    #[arg(long, value_name = "PRESET", num_args = 0..=1, default_missing_value = "own", conflicts_with = "target")]
    example: Option<String>,
    /// Print the JSON schema of the file, for editors
    #[arg(long, conflicts_with_all = ["target", "example"])]
    schema: bool,
}

/// How long an answer may take.
fn answer_within(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    match duration < SHORTEST_ANSWER {
        true => Err("in less than a millisecond nothing is answered".to_owned()),
        false => Ok(duration),
    }
}

/// Runs the command.
///
/// # Errors
/// When it could not be carried out; a broken promise is an exit status.
pub async fn run(args: CheckArgs) -> anyhow::Result<ExitCode> {
    if args.schema {
        program::say(schema()?.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &args.example {
        let known = presets::NAMES;
        let example = presets::example(name).ok_or_else(|| {
            ConfigError(format!("there is no preset {name:?}{}", read::suggestion(name, &known)))
        })?;
        program::say(example.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    check_outputs(args.target.as_deref(), &args.files)?;
    if let Some(file) = args.target.as_ref().filter(|_| args.print) {
        let source = SourceText::read(file)?;
        program::say(source.expanded()?.trim_end())?;
        CheckTarget::compile(source).await?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = args.target.as_ref().filter(|_| args.trial) {
        let target = CheckTarget::read(file).await?;
        let (text, is_bought) = Trial::run(&target, args.answer_within).await?;
        program::say(text.trim_end())?;
        return Ok(ExitCode::from(if is_bought { 0 } else { UNUSABLE }));
    }
    let requests = args.users as usize + self::phases::EXTRA_BUYERS * args.attempts as usize;
    if requests > MAX_REQUESTS {
        return Err(ConfigError(format!("{requests} attempts are more than {MAX_REQUESTS}")).into());
    }
    let stop = program::stop::requested(false)?;
    let report = tokio::select! {
        report = check(&args) => report?,
        () = stop => return Err(program::Interrupted("what was sent was sent, and there is no verdict").into()),
    };
    show(&args, &report)?;
    Ok(match (report.is_broken(), report.holds) {
        (true, _) => ExitCode::from(FAILED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(UNUSABLE),
    })
}

/// Looks whether the results are written over nothing that is needed.
fn check_outputs(target: Option<&Path>, files: &ReportFiles) -> Result<(), ConfigError> {
    files.check()?;
    let target = target.and_then(|target| target.canonicalize().ok());
    for file in files.iter() {
        if target.is_some() && file.path().canonicalize().ok() == target {
            return Err(ConfigError(format!("cannot write {file}: it is the file of the target")));
        }
    }
    Ok(())
}

async fn check(args: &CheckArgs) -> Result<CheckReport, ConfigError> {
    let Some(file) = &args.target else { unreachable!("the parser wants the file") };
    let (begun, since) = (SystemClock.now(), Instant::now());
    let target = CheckTarget::read(file).await?;
    let wanted = args.users as usize;
    let buyers = buyers::read(&target, wanted).await?;
    let seed = args.seed.unwrap_or_else(|| rand::rng().random());
    let urls: Vec<&str> = target.nodes.iter().map(|node| node.url.as_str()).collect();
    eprintln!("Target: {}. Buyers: {}. Seed: {seed}.", urls.join(", "), buyers.len());
    let mut sender = CrowdSender {
        target: &target,
        buyers: &buyers,
        connections: args.connections as usize,
        seed,
        answer_timeout: args.answer_within,
        next: 0,
        put_on_sale: 0,
        shown: None,
        warm: None,
        totals: CrowdTotals::default(),
    };
    let attempts = args.attempts as usize;
    let sales = sender.play(attempts, args.rounds as usize).await?;
    let name = file.display().to_string();
    let users = buyers.len();
    let target = &target;
    let terms = CheckTerms { begun, since, file: name, target, wanted, users, attempts, seed };
    Ok(CheckReport::new(&terms, &sales, &sender.totals))
}

fn show(args: &CheckArgs, report: &CheckReport) -> anyhow::Result<()> {
    eprint!("\n{}\n", terminal::text(report));
    say_beside(args.files.iter(), report.sentence())?;
    args.files.write(report, || html::page(report))
}

/// The JSON schema of a target's file.
///
/// # Errors
/// When the schema of a request is not where it is expected.
pub fn schema() -> anyhow::Result<String> {
    let settings = schemars::generate::SchemaSettings::draft07();
    let mut schema = settings.into_generator().into_root_schema_for::<file::TargetFile>();
    // A preset may give what is else required.
    schema.insert("required".to_owned(), serde_json::json!(["addresses"]));
    let required = schema.pointer_mut("/definitions/RequestTable/required");
    *required.context("the schema has no RequestTable")? = serde_json::json!([]);
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}
