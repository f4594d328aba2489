//! Where results go.

use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use crate::{ConfigError, Unread};

/// Writes a result to standard output.
///
/// # Errors
/// When it cannot be written; [`Unread`]: nobody reads it any more.
pub fn say(text: impl std::fmt::Display) -> anyhow::Result<()> {
    write(format!("{text}\n").as_bytes())
}

/// Writes bytes to standard output.
///
/// # Errors
/// As [`say`].
pub fn write(bytes: &[u8]) -> anyhow::Result<()> {
    use std::io::{ErrorKind, Write};
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Unread.into()),
        written => written.context("cannot write to standard output"),
    }
}

/// Looks, before the work of minutes, whether its result can be written to `file`.
///
/// # Errors
/// When it lies in no directory, or is one.
pub fn check_writable(file: &Path) -> Result<(), ConfigError> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    if directory.is_some_and(|directory| !directory.is_dir()) || file.is_dir() {
        return Err(ConfigError(format!(
            "cannot write {}: no such directory, or it is one",
            file.display()
        )));
    }
    Ok(())
}

/// Writes `value` to a file, or to standard output when the path is `-`.
///
/// # Errors
/// When it cannot be written.
pub fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    write_text(path, &serde_json::to_string_pretty(value)?)
}

/// Writes `text` and a line's end, as [`write_json`] does.
///
/// # Errors
/// When it cannot be written.
pub fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    if path == Path::new("-") {
        return say(text);
    }
    std::fs::write(path, format!("{text}\n"))
        .with_context(|| format!("cannot write {}", path.display()))
}
