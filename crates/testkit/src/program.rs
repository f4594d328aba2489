//! The binary as a user starts it, in an environment with nothing in it.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use child_process::ChildProcess;
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::processes::program;
#[cfg(feature = "shop")]
use crate::shop::World;
use crate::wait::PATIENCE;

/// One program's surroundings.
pub struct Program {
    /// The program's own data would come to lie in here, did it start servers of its own.
    place: TempDir,
    variables: Vec<(String, String)>,
}

/// What a run left.
#[derive(Debug)]
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Program {
    /// Without any store.
    pub fn alone() -> Self {
        Self { place: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// On the stores of a test's world, with names in Redis of its own.
    #[cfg(feature = "shop")]
    pub fn on(world: &World) -> Self {
        Self::alone()
            .with("DATABASE_URL", &world.database_url)
            .with("REDIS_URL", &world.redis_url)
            .with("SECKILL_KEY_PREFIX", world.keys.prefix())
            .with("SECKILL_SECRET", &world.secret)
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(existing, _)| existing != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Which variables it was given.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(name, _)| name.as_str())
    }

    /// A file beside the program's data.
    pub fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("seckill"));
        command
            .args(arguments)
            .env_clear()
            .env("SECKILL_DATA_DIR", self.file("data"))
            .envs(self.variables.clone())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs to the end. Nothing may have been started beside it.
    pub async fn run(&self, arguments: &[&str]) -> Ran {
        let ran = Ran::from(finished(self.command(arguments)).await);
        assert!(!self.file("data").exists(), "{arguments:?} made a data directory: {ran:?}");
        ran
    }

    /// What standard output said of a run that must succeed.
    pub async fn says(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments).await;
        assert_eq!(ran.status, 0, "{arguments:?}: {ran:?}");
        ran.stdout
    }

    /// The verdict of a `demo` with these arguments.
    pub async fn demo(&self, arguments: &str) -> Value {
        let line = format!("demo {arguments} --json -");
        serde_json::from_str(&self.says(&line.split(' ').collect::<Vec<_>>()).await).unwrap()
    }
}

/// Runs a line as a shell has it: variables, `seckill` without any store, and its arguments, in quotes where they
/// are empty or have spaces.
pub async fn ran(line: &str) -> Ran {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(number, part)| match number % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    let mut words = words.peekable();
    let mut program = Program::alone();
    while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
        program = program.with(name, value);
        words.next();
    }
    assert_eq!(words.next(), Some("seckill"), "{line}");
    program.run(&words.collect::<Vec<_>>()).await
}

pub async fn finished(mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = ChildProcess::start(command, Signal::SIGKILL).unwrap();
    running.output(PATIENCE, u64::MAX).await.unwrap()
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// Asserts that there was no more than one sentence on standard error.
    #[track_caller]
    pub fn refused(&self, status: i32, words: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        assert_eq!(self.stderr.matches('\n').count(), 1, "{self:?}");
        assert!(self.stderr.starts_with("seckill: ") && self.stderr.contains(words), "{self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
    }
}
