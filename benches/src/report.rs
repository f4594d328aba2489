//! The figures as tables, in Markdown.

use std::fmt::Write as _;

use crate::machine::Machine;
use crate::summary::{Figures, Spread};

/// A line of the report: what it is called, the figure, and its decimals.
type Row = (&'static str, &'static str, usize);

const PAIRS: &[Row] = &[
    ("seckill, 50 tasks (pairs/s)", "pairs/seckill", 0),
    ("seckill fair, 50 tasks (pairs/s)", "pairs/seckill fair", 0),
    ("`rlock`, 50 tasks (pairs/s)", "pairs/rlock", 0),
    ("`rslock`, 50 tasks (pairs/s)", "pairs/rslock", 0),
    ("`redis-benchmark -c 50`, acquire script (commands/s)", "reference/acquires", 0),
    ("`redis-benchmark -c 50`, release script (commands/s)", "reference/releases", 0),
    ("`redis-benchmark -c 50`, one after the other (pairs/s)", "reference/pairs", 0),
    ("of its releases, those that freed a lock (share)", "reference/freed_share", 3),
];

const HANDOFFS: &[(&str, &str)] = &[
    ("seckill, 1 waiter", "handoff/seckill/1"),
    ("seckill, 10 waiters", "handoff/seckill/10"),
    ("seckill, 10 waiters, a client each", "handoff/seckill/10 own"),
    ("seckill fair, 1 waiter", "handoff/seckill fair/1"),
    ("seckill fair, 10 waiters", "handoff/seckill fair/10"),
    ("seckill fair, 10 waiters, a client each", "handoff/seckill fair/10 own"),
    ("`rlock`, 1 waiter", "handoff/rlock/1"),
    ("`rlock`, 10 waiters", "handoff/rlock/10"),
    ("`rslock`, 1 waiter", "handoff/rslock/1"),
    ("`rslock`, 10 waiters", "handoff/rslock/10"),
];

const WAITERS: &[Row] = &[
    ("connections of the client while all wait", "waiters/connections_open", 0),
    ("connections it ever made", "waiters/connections_made", 0),
    ("channels subscribed", "waiters/channels", 0),
    ("memory per waiter (bytes resident)", "waiters/bytes_per_waiter", 0),
    ("until all wait (ms)", "waiters/lined_up_ms", 0),
    ("from the first release until all have been through (ms)", "waiters/through_ms", 0),
];

/// What was wanted, and whether it came so.
struct Target {
    title: &'static str,
    spread: Option<Spread>,
    wanted: &'static str,
    met: bool,
}

/// The whole report, and whether all targets were met.
pub fn write(machine: &Machine, method: &str, figures: &Figures) -> (String, bool) {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = head(&mut text, machine, method);
    let _ = table(&mut text, PAIRS, figures);
    let _ = handoffs(&mut text, figures);
    let _ = table(&mut text, WAITERS, figures);
    let targets = targets(figures);
    let _ = verdicts(&mut text, &targets);
    (text, targets.iter().all(|target| target.met))
}

fn head(text: &mut String, machine: &Machine, method: &str) -> std::fmt::Result {
    let Machine { revision, processor, processors, memory_gb, system, redis, rustc, peers } =
        machine;
    writeln!(text, "# The lock\n\n| | |\n| --- | --- |")?;
    writeln!(text, "| revision | {revision} |")?;
    writeln!(text, "| machine | {processor}, {processors} processors, {memory_gb:.0} GB |")?;
    writeln!(text, "| system | {system} |")?;
    writeln!(text, "| versions | Redis {redis}; crates {peers}; {rustc} |")?;
    writeln!(text, "| method | {method} |")
}

fn cells(values: &[f64], decimals: usize) -> String {
    match Spread::of(values) {
        Some(Spread { median, min, max }) => {
            format!("{median:.decimals$} | {min:.decimals$}–{max:.decimals$}")
        }
        None => "- | -".to_owned(),
    }
}

fn table(text: &mut String, rows: &[Row], figures: &Figures) -> std::fmt::Result {
    writeln!(text, "\n| measurement | median | min–max |\n| --- | ---: | ---: |")?;
    for (title, name, decimals) in rows {
        writeln!(text, "| {title} | {} |", cells(figures.values(name), *decimals))?;
    }
    Ok(())
}

fn handoffs(text: &mut String, figures: &Figures) -> std::fmt::Result {
    writeln!(text, "\n| hand-off, release to entry (ms) | p50 | min–max | p99 | min–max |")?;
    writeln!(text, "| --- | ---: | ---: | ---: | ---: |")?;
    for (title, name) in HANDOFFS {
        let p50 = cells(figures.values(&format!("{name}/p50_ms")), 3);
        let p99 = cells(figures.values(&format!("{name}/p99_ms")), 3);
        writeln!(text, "| {title} | {p50} | {p99} |")?;
    }
    Ok(())
}

fn targets(figures: &Figures) -> Vec<Target> {
    let pairs = Spread::of(&figures.quotients("pairs/seckill", "reference/pairs"));
    let handoff = Spread::of(figures.values("handoff/seckill/1/p50_ms"));
    let made = Spread::of(figures.values("waiters/connections_made"));
    vec![
        Target {
            title: "pairs, 50 tasks / redis-benchmark",
            spread: pairs,
            wanted: "at least 0.75",
            met: pairs.is_some_and(|pairs| pairs.median >= 0.75),
        },
        Target {
            title: "hand-off, 1 waiter, p50 (ms)",
            spread: handoff,
            wanted: "below 1",
            met: handoff.is_some_and(|handoff| handoff.median < 1.0),
        },
        // In every round: it is a promise, not a speed.
        Target {
            title: "connections of a client, however many wait",
            spread: made,
            wanted: "2",
            met: made.is_some_and(|made| made.min == 2.0 && made.max == 2.0),
        },
    ]
}

fn verdicts(text: &mut String, targets: &[Target]) -> std::fmt::Result {
    writeln!(text, "\n| target | median | min–max over rounds | wanted | |")?;
    writeln!(text, "| --- | ---: | ---: | --- | --- |")?;
    for Target { title, spread, wanted, met } in targets {
        let values =
            spread.map_or(Vec::new(), |spread| vec![spread.min, spread.median, spread.max]);
        let verdict = if *met { "met" } else { "MISSED" };
        writeln!(text, "| {title} | {} | {wanted} | {verdict} |", cells(&values, 2))?;
    }
    Ok(())
}
