//! Programs of this machine: where they are, and what they print.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program of this name, if there is one.
///
/// Asks the shell, which knows `PATH`: only `config` reads the environment here.
#[must_use]
pub fn on_search_path(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(output_of("sh", &["-c", r#"command -v "$1""#, "sh", name])?);
    // A link (`/usr/bin/postgres` on some systems) leads to where `initdb` is.
    let path = fs::canonicalize(&path).ok().filter(|_| name == "postgres").unwrap_or(path);
    is_executable(&path).then_some(path)
}

/// What a program prints, if it succeeds and prints something.
pub(super) fn output_of(program: impl AsRef<OsStr>, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}

pub(super) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
