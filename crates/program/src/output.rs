//! Where results go.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser, ValueParser, ValueParserFactory};
use serde::Serialize;

use crate::{ConfigError, Unread};

/// Writes a result to standard output.
///
/// # Errors
/// When it cannot be written; [`Unread`]: nobody reads it any more.
pub fn say(text: impl fmt::Display) -> anyhow::Result<()> {
    write(format!("{text}\n").as_bytes())
}

/// Says to a person what goes into these `files`, too: on standard error where one of them is standard output, which
/// is then the file's alone.
///
/// # Errors
/// As [`say`].
pub fn say_beside<'a>(
    files: impl IntoIterator<Item = &'a OutputFile>,
    text: impl fmt::Display,
) -> anyhow::Result<()> {
    if files.into_iter().any(OutputFile::is_stdout) {
        eprintln!("{text}");
        return Ok(());
    }
    say(text)
}

/// Writes bytes to standard output.
///
/// # Errors
/// As [`say`].
pub fn write(bytes: &[u8]) -> anyhow::Result<()> {
    use std::io::ErrorKind;
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Unread.into()),
        written => written.context("cannot write to standard output"),
    }
}

/// The file that a command writes its result to; `-`: standard output. As an argument it is refused where it cannot be
/// written: before the work of minutes, not after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile(PathBuf);

impl ValueParserFactory for OutputFile {
    type Parser = ValueParser;

    fn value_parser() -> ValueParser {
        PathBufValueParser::new().try_map(Self::writable).into()
    }
}

impl OutputFile {
    fn writable(path: PathBuf) -> Result<Self, String> {
        let file = Self(path);
        if !file.is_stdout() {
            check_writable(&file.0).map_err(|error| format!("it cannot be written: {error}"))?;
        }
        Ok(file)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether it is standard output.
    #[must_use]
    pub fn is_stdout(&self) -> bool {
        self.0 == Path::new("-")
    }

    /// Writes `value` as JSON.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        self.write_text(&serde_json::to_string_pretty(value)?)
    }

    /// The same for data about people: only the owner may read a file that it creates.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_private_json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        self.write_with_mode(0o600, &serde_json::to_string_pretty(value)?)
    }

    /// Writes `text` and a line's end.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_text(&self, text: &str) -> anyhow::Result<()> {
        self.write_with_mode(0o666, text)
    }

    fn write_with_mode(&self, mode: u32, text: &str) -> anyhow::Result<()> {
        if self.is_stdout() {
            return say(text);
        }
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&self.0);
        let written = file.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()));
        written.with_context(|| format!("cannot write {self}"))
    }
}

impl fmt::Display for OutputFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(formatter)
    }
}

/// Leaves everything as it was.
fn check_writable(file: &Path) -> io::Result<()> {
    match file.metadata() {
        Ok(known) if known.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(known) if known.is_file() => OpenOptions::new().append(true).open(file).map(drop),
        // The reader of a pipe takes its being closed for the end.
        Ok(_) => Ok(()),
        Err(_) => {
            OpenOptions::new().write(true).create_new(true).open(file)?;
            fs::remove_file(file)
        }
    }
}

/// A result for a program, and as a page.
#[derive(Debug, Args)]
pub struct ReportFiles {
    /// Write the result as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,
    /// Write the result as a page, one file that needs no network (- for standard output)
    #[arg(long, value_name = "FILE")]
    html: Option<OutputFile>,
}

impl ReportFiles {
    /// The files that were named.
    pub fn iter(&self) -> impl Iterator<Item = &OutputFile> {
        self.json.iter().chain(&self.html)
    }

    /// Looks whether they are two.
    ///
    /// # Errors
    /// When they are one.
    pub fn check(&self) -> Result<(), ConfigError> {
        match (&self.json, &self.html) {
            (Some(json), Some(html)) if json == html => {
                Err(ConfigError(format!("--json and --html both name {json}")))
            }
            _ => Ok(()),
        }
    }

    /// Writes them.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn write(
        &self,
        report: &impl Serialize,
        page: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        self.json.as_ref().map_or(Ok(()), |file| file.write_json(report))?;
        self.html.as_ref().map_or(Ok(()), |file| file.write_text(&page()))
    }
}
