#![doc = include_str!("../README.md")]

#[cfg(feature = "tokio")]
mod child_process;
#[cfg(feature = "tokio")]
mod keeper;
mod life;
mod logged_process;

use std::{
    io,
    path::{Path, PathBuf},
};

#[cfg(feature = "tokio")]
pub use child_process::ChildProcess;
pub use life::{end_with_us, signal, spawn};
pub use logged_process::LoggedProcess;

/// The path of a program of this name in the directory of the running program, whether there is one or
/// not. Tests and examples find the programs of their build, one directory above them.
///
/// # Errors
/// When the running program's own file cannot be found.
pub fn beside(name: &str) -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let directory = own.parent().unwrap_or(Path::new("/"));
    let is_below = ["deps", "examples"].iter().any(|below| directory.ends_with(below));
    Ok(if is_below { directory.with_file_name(name) } else { directory.join(name) })
}

/// The last line of `output` with something in it: as a rule, what a program that failed says of it.
#[must_use]
pub fn last_line(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned)
}
