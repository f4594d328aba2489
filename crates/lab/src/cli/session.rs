//! What the lab's commands have in common: a world that is left as it was found, however the
//! command ends.

use anyhow::Context;
use console::Term;

use crate::World;
use crate::report::terminal::Look;
use program::{OutputFile, stop};
use seckill::config::StoreArgs;

/// Does `work` in a world of its own, and closes the world whatever comes of it: on servers that
/// were named, scratch databases and keys would stay for ever.
pub(super) async fn in_world<T>(
    stores: StoreArgs,
    work: impl AsyncFnOnce(&World) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let stop = stop::requested(false)?;
    // Not left in the middle: half a world is nobody's to close.
    let world = World::on(stores).await?;
    let done = tokio::select! {
        biased;
        // Its processes are killed by being dropped.
        () = stop => {
            Err(program::Interrupted("everything that was started is being stopped").into())
        }
        done = work(&world) => done,
    };
    let closed = world.close().await.context("the lab could not clean up");
    match (done, closed) {
        (Ok(done), closed) => closed.map(|()| done),
        (Err(error), Ok(())) => Err(error),
        // What went wrong first is the cause, as a rule of the other, too.
        (Err(error), Err(closed)) => Err(error.context(format!("{closed:#}"))),
    }
}

/// How what goes into these `files`, too, is said to a person.
pub(super) fn look_beside<'a>(files: impl IntoIterator<Item = &'a OutputFile>) -> Look {
    match files.into_iter().any(OutputFile::is_stdout) {
        true => stderr_look(),
        false => stdout_look(),
    }
}

/// How standard output is to be written to.
pub(super) fn stdout_look() -> Look {
    Look { width: width(&Term::stdout()), colour: console::colors_enabled() }
}

/// How standard error is to be written to.
pub(super) fn stderr_look() -> Look {
    Look { width: width(&Term::stderr()), colour: console::colors_enabled_stderr() }
}

fn width(term: &Term) -> Option<usize> {
    term.is_term().then(|| term.size_checked()).flatten().map(|(_, columns)| columns.into())
}
