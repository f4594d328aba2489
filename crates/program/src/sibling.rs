//! Programs that lie beside this one. `seckill demo` starts `seckill-tools demo`, as git and cargo do it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::{ConfigError, unusable};

/// A program of this workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sibling {
    /// The server.
    Server,
    /// Demonstrations and measurements.
    Tools,
    /// The course and its laboratory.
    Lab,
}

/// The commands that are not the server's own: the word, the program that knows it, and what it does.
pub const COMMANDS: [(&str, Sibling, &str); 6] = [
    ("demo", Sibling::Tools, "Run a whole flash sale against real servers, and audit it"),
    ("check", Sibling::Tools, "Judge any flash-sale backend by a file that says how to talk to it"),
    ("tokens", Sibling::Tools, "Make users and their tokens, for load tests"),
    ("ceiling", Sibling::Tools, "Measure the limits of this machine, and each strategy's share"),
    ("lab", Sibling::Lab, "Break every design of the ladder, and see the next one hold"),
    (
        "play",
        Sibling::Lab,
        "Watch a sale, play the ladder: everything for people who look and learn",
    ),
];

impl Sibling {
    /// The name of its file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "seckill",
            Self::Tools => "seckill-tools",
            Self::Lab => "seckill-lab",
        }
    }

    /// Its file, beside the running program.
    ///
    /// # Errors
    /// [`ConfigError`] when there is no such file.
    pub fn path(self) -> anyhow::Result<PathBuf> {
        let path = beside(self.name())?;
        if path.is_file() {
            return Ok(path);
        }
        Err(self.is_missing().into())
    }

    fn is_missing(self) -> ConfigError {
        let name = self.name();
        let text = format!(
            "the program {name} is not beside this one: build it with \
             `cargo build --release --workspace --bins`, or copy it there"
        );
        ConfigError(text)
    }

    /// Becomes that program, with the same arguments. Returns only when it cannot be started.
    fn become_it(self, arguments: impl Iterator<Item = OsString>) -> ExitCode {
        let path = match beside(self.name()) {
            Ok(path) => path,
            Err(error) => return unusable(&error.to_string()),
        };
        let error = Command::new(&path).arg0("seckill").args(arguments).exec();
        if error.kind() == ErrorKind::NotFound {
            return unusable(&self.is_missing().0);
        }
        unusable(&format!("cannot run {}: {error}", path.display()))
    }
}

fn beside(name: &str) -> anyhow::Result<PathBuf> {
    child_process::beside(name).context("cannot find the program's own file")
}

/// Hands over to the sibling whose command the first argument names, `help` before it or not; does
/// nothing otherwise.
#[must_use]
pub fn hand_over() -> Option<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let word = arguments.iter().find(|word| *word != "help")?;
    let (_, sibling, _) = COMMANDS.into_iter().find(|(command, ..)| word == command)?;
    // `seckill voucher list demo` is the server's: only the first word counts.
    let is_first = arguments.first() == Some(word) || arguments.get(1) == Some(word);
    let helped = arguments.first().is_some_and(|first| first == "help" || first == word);
    (is_first && helped).then(|| sibling.become_it(arguments.into_iter()))
}
