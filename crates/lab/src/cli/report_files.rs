//! The files into which a command writes its result besides the terminal.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::session::{stderr_look, stdout_look};
use crate::report::terminal::Look;
use program::{check_writable, say, write_json, write_text};
use seckill::config::ConfigError;

/// A result for a program, and as a page.
#[derive(Debug, Args)]
pub(super) struct ReportFiles {
    /// Write the result as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write the result as a page, one file that needs no network (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

impl ReportFiles {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.json, &self.html].into_iter().flatten().map(PathBuf::as_path)
    }

    /// Before the work of minutes, not after it.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if let (Some(json), Some(html)) = (&self.json, &self.html)
            && json == html
        {
            return Err(ConfigError(format!("--json and --html both name {}", json.display())));
        }
        self.paths().try_for_each(check_writable)
    }

    pub(super) fn write(
        &self,
        report: &impl Serialize,
        page: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        if let Some(path) = &self.json {
            write_json(path, report)?;
        }
        if let Some(path) = &self.html {
            write_text(path, &page())?;
        }
        Ok(())
    }

    /// The names of the files that are not standard output.
    pub(super) fn names(&self) -> String {
        let named = self.paths().filter(|path| *path != Path::new("-"));
        named.map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Says the same to a person. Standard output is the file's alone when it goes there.
    pub(super) fn say(&self, text: impl FnOnce(Look) -> String) -> anyhow::Result<()> {
        if self.paths().any(|path| path == Path::new("-")) {
            eprintln!("{}", text(stderr_look()));
            return Ok(());
        }
        say(text(stdout_look()))
    }
}
