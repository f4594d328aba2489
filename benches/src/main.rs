//! Measures the lock: pairs against the peers and against what Redis can do, hand-offs, and
//! very many waiters. Everything once a round, the order reversed every other round.
//!
//! The report goes to stdout, progress to stderr. Exit 0: measured; 1: with `--strict`, a
//! target was missed; 2: could not measure.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use seckill_benches::contender::{Contender, Ours, OursFair, Rlock, Rslock};
use seckill_benches::handoff::{self, Scene};
use seckill_benches::machine::Machine;
use seckill_benches::reference::{Amount, Scripts};
use seckill_benches::server::Server;
use seckill_benches::summary::Figures;
use seckill_benches::{pairs, report, waiters};
use serde::Serialize;

/// As many as `redis-benchmark` has connections.
const TASKS: usize = seckill_benches::reference::CONNECTIONS as usize;

/// Measures the lock of seckill beside its peers.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Hidden>,
    #[command(flatten)]
    options: Options,
}

/// Started by the program itself.
#[derive(Debug, Subcommand)]
enum Hidden {
    #[command(hide = true)]
    KeepServers,
    #[command(hide = true)]
    WaitersOnce {
        #[arg(long)]
        url: String,
        #[arg(long)]
        waiters: usize,
        #[arg(long)]
        names: usize,
    },
}

#[derive(Debug, Args, Serialize)]
struct Options {
    /// Rounds; each measures everything once
    #[arg(long, env = "REPEATS", default_value_t = 5)]
    repeats: u32,
    /// Seconds that a measurement of pairs takes
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// Hand-offs of ours, in each scene and round; peers, who take some 50 ms for one, get a
    /// tenth, ten locks at once
    #[arg(long, default_value_t = 1000)]
    handoffs: u64,
    /// Waiters in one client
    #[arg(long, default_value_t = 10_000)]
    waiters: usize,
    /// Names they wait for
    #[arg(long, default_value_t = 100)]
    names: usize,
    /// Only the measurements whose name contains this: `pairs/seckill`, `reference`,
    /// `handoff/`, `waiters`, ...
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
    /// Also writes all figures of all rounds to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit 1 when a target is missed
    #[arg(long)]
    strict: bool,
}

impl Options {
    fn method(&self) -> String {
        format!(
            "{} rounds, order reversed every other round; pairs {} s each; {} hand-offs of ours \
             and {} of each peer a scene; {} waiters on {} names; lease 30 s; client and Redis on \
             the same processors, over a UNIX socket, Redis in memory only",
            self.repeats,
            self.seconds,
            self.handoffs,
            self.handoffs / 10,
            self.waiters,
            self.names
        )
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        // Before there is any thread.
        Some(Hidden::KeepServers) => return seckill::embedded::keep_servers(),
        Some(Hidden::WaitersOnce { url, waiters, names }) => waiters_once(&url, waiters, names),
        None => measure(&cli.options),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench-lock: {error:#}");
            ExitCode::from(2)
        }
    }
}

#[tokio::main]
async fn waiters_once(url: &str, waiters: usize, names: usize) -> anyhow::Result<ExitCode> {
    let found = waiters::measure_here(url, waiters, names).await?;
    println!("{}", serde_json::to_string(&found)?);
    Ok(ExitCode::SUCCESS)
}

fn measure(options: &Options) -> anyhow::Result<ExitCode> {
    let server = Server::start()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (machine, figures) = runtime.block_on(all_rounds(server.url(), options))?;
    let (text, met) = report::write(&machine, &options.method(), &figures);
    print!("{text}");
    if let Some(file) = &options.json {
        let all = serde_json::json!({
            "machine": machine, "options": options, "figures": figures, "targets_met": met,
        });
        let all = serde_json::to_string_pretty(&all)? + "\n";
        std::fs::write(file, all).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(if met || !options.strict { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn all_rounds(url: &str, options: &Options) -> anyhow::Result<(Machine, Figures)> {
    let machine = Machine::look(url).await?;
    let scripts = Scripts::overhear(url).await?;
    let mut figures = Figures::default();
    let mut plan = plan(options.handoffs);
    plan.retain(|measurement| measurement.name().contains(&options.only));
    for round in 1..=options.repeats {
        for measurement in &plan {
            let begun = Instant::now();
            let name = measurement.run(url, options, &scripts, &mut figures).await?;
            let took = begun.elapsed().as_secs_f64();
            eprintln!("bench-lock: round {round} of {}: {name} ({took:.1} s)", options.repeats);
        }
        // What one measurement does to the next must not always hit the same one.
        plan.reverse();
    }
    Ok((machine, figures))
}

#[derive(Debug, Clone, Copy)]
enum Who {
    Ours,
    OursFair,
    Rlock,
    Rslock,
}

#[derive(Debug, Clone, Copy)]
enum Measurement {
    Pairs(Who),
    Reference,
    Handoff(Who, Scene),
    Waiters,
}

fn plan(handoffs: u64) -> Vec<Measurement> {
    use Measurement::{Handoff, Pairs, Reference, Waiters};
    let ours = |who, waiters, own_clients| {
        Handoff(who, Scene { waiters, own_clients, lanes: 1, handoffs })
    };
    let peer = |who, waiters| {
        let handoffs = (handoffs / 100).max(1);
        Handoff(who, Scene { waiters, own_clients: false, lanes: 10, handoffs })
    };
    vec![
        Pairs(Who::Ours),
        Pairs(Who::OursFair),
        Reference,
        Pairs(Who::Rlock),
        Pairs(Who::Rslock),
        ours(Who::Ours, 1, false),
        ours(Who::Ours, 10, false),
        ours(Who::Ours, 10, true),
        ours(Who::OursFair, 1, false),
        ours(Who::OursFair, 10, false),
        ours(Who::OursFair, 10, true),
        peer(Who::Rlock, 1),
        peer(Who::Rlock, 10),
        peer(Who::Rslock, 1),
        peer(Who::Rslock, 10),
        Waiters,
    ]
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Self::Ours => Ours::NAME,
            Self::OursFair => OursFair::NAME,
            Self::Rlock => Rlock::NAME,
            Self::Rslock => Rslock::NAME,
        }
    }
}

impl Measurement {
    /// What its figures are called, or how their names begin.
    fn name(self) -> String {
        match self {
            Self::Pairs(who) => format!("pairs/{}", who.name()),
            Self::Handoff(who, Scene { waiters, own_clients, .. }) => {
                let own = if own_clients { " own" } else { "" };
                format!("handoff/{}/{waiters}{own}", who.name())
            }
            Self::Reference => "reference".to_owned(),
            Self::Waiters => "waiters".to_owned(),
        }
    }

    /// Measures and notes; what to say of it.
    async fn run(
        self,
        url: &str,
        options: &Options,
        scripts: &Scripts,
        figures: &mut Figures,
    ) -> anyhow::Result<String> {
        let name = self.name();
        match self {
            Self::Pairs(Who::Ours) => pairs::<Ours>(url, options, name, figures).await,
            Self::Pairs(Who::OursFair) => pairs::<OursFair>(url, options, name, figures).await,
            Self::Pairs(Who::Rlock) => pairs::<Rlock>(url, options, name, figures).await,
            Self::Pairs(Who::Rslock) => pairs::<Rslock>(url, options, name, figures).await,
            Self::Handoff(Who::Ours, scene) => handoffs::<Ours>(url, scene, name, figures).await,
            Self::Handoff(Who::OursFair, scene) => {
                handoffs::<OursFair>(url, scene, name, figures).await
            }
            Self::Handoff(Who::Rlock, scene) => handoffs::<Rlock>(url, scene, name, figures).await,
            Self::Handoff(Who::Rslock, scene) => {
                handoffs::<Rslock>(url, scene, name, figures).await
            }
            Self::Reference => reference(url, options, scripts, figures).await,
            Self::Waiters => many_waiters(url, options, figures).await,
        }
    }
}

async fn pairs<C: Contender>(
    url: &str,
    options: &Options,
    name: String,
    figures: &mut Figures,
) -> anyhow::Result<String> {
    let contender = C::connect(url).await?;
    let duration = Duration::from_secs_f64(options.seconds);
    let rate = pairs::per_second(&contender, TASKS, duration).await?;
    let said = format!("{name}: {rate:.0} a second in {TASKS} tasks");
    figures.note(name, rate);
    Ok(said)
}

async fn handoffs<C: Contender>(
    url: &str,
    scene: Scene,
    name: String,
    figures: &mut Figures,
) -> anyhow::Result<String> {
    let histogram = handoff::measure::<C>(url, scene).await?;
    let milliseconds = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e6;
    let (p50, p99) = (milliseconds(0.5), milliseconds(0.99));
    figures.note(format!("{name}/p50_ms"), p50);
    figures.note(format!("{name}/p99_ms"), p99);
    figures.note(format!("{name}/count"), histogram.len() as f64);
    Ok(format!("{name}: {p50:.3} ms, p99 {p99:.3} ms of {}", histogram.len()))
}

async fn reference(
    url: &str,
    options: &Options,
    scripts: &Scripts,
    figures: &mut Figures,
) -> anyhow::Result<String> {
    // A modest machine does some 60,000 a second. The locks are sixteen times the releases, so
    // that only every thirtieth release or so draws a name that another one had.
    let releases = (options.seconds * 20_000.0).ceil() as u64;
    let amount = Amount { acquires: releases * 3, releases, held: releases * 16 };
    let ceiling = scripts.measure(url, amount).await?;
    figures.note("reference/acquires", ceiling.acquires);
    figures.note("reference/releases", ceiling.releases);
    figures.note("reference/freed_share", ceiling.freed_share);
    figures.note("reference/pairs", ceiling.pairs);
    Ok(format!("redis-benchmark: {:.0} pairs/s", ceiling.pairs))
}

async fn many_waiters(
    url: &str,
    options: &Options,
    figures: &mut Figures,
) -> anyhow::Result<String> {
    let found = waiters::measure(url, options.waiters, options.names).await?;
    figures.note("waiters/connections_open", found.connections_open as f64);
    figures.note("waiters/connections_made", found.connections_made as f64);
    figures.note("waiters/channels", found.channels as f64);
    figures.note("waiters/bytes_per_waiter", found.bytes_per_waiter);
    figures.note("waiters/lined_up_ms", found.lined_up_ms);
    figures.note("waiters/through_ms", found.through_ms);
    Ok(format!("{} waiters: {found:?}", found.waiters))
}
