//! `seckill lab explore lock`.

use std::process::ExitCode;

use super::progress::with_bar;
use super::replay::timeline;
use crate::explore::{LockExploration, explore_lock};
use crate::report::counted;
use crate::report::terminal::Look;
use crate::world::in_world;
use program::{FAILED, OutputFile, say_beside};
use seckill::config::StoreArgs;
use seckill::http::Language;

/// Explores the lock, and says what came of it.
pub(super) async fn run(
    mut exploration: LockExploration,
    json: Option<OutputFile>,
    stores: StoreArgs,
) -> anyhow::Result<ExitCode> {
    let done = in_world(stores, async |world| {
        with_bar("lock", async |told| explore_lock(world, &mut exploration, told).await).await
    })
    .await;
    eprintln!("{}, {:.0}/s", counted(exploration.schedules, "schedule"), exploration.rate());
    // Also what was explored before an interrupt.
    say_beside(&json, text(&exploration, Look::beside(&json)))?;
    done?;
    if let Some(file) = &json {
        file.write_json(&exploration)?;
    }
    Ok(if exploration.holds() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn text(exploration: &LockExploration, look: Look) -> String {
    let mut lines = vec![exploration.sum()];
    for (invariant, found) in &exploration.broken {
        lines.push(format!("  the shortest that breaks {invariant}: {}", found.shortest));
        lines.extend(timeline(&found.timeline, look, Language::English));
    }
    let unknown = exploration.unknown.iter();
    lines.extend(unknown.map(|it| format!("  came out otherwise the second time: {it}")));
    lines.join("\n")
}
