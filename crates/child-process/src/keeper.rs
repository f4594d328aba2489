//! What ends a whole process group when this process has ended, however it did.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    process::{ChildStdin, Command, Stdio},
    sync::{LazyLock, Mutex, PoisonError},
};

use nix::sys::signal::Signal;

/// One shell of this process, and its input, which ends with this process. `None` where there is no shell.
static KEEPER: LazyLock<Option<Mutex<ChildStdin>>> = LazyLock::new(|| {
    let mut shell = Command::new("sh");
    // It holds nothing of ours: no output that somebody reads to its end, no directory. Its group is its own,
    // and lives on.
    shell.args(["-c", include_str!("keeper.sh")]).env_clear().current_dir("/").process_group(0);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    Some(Mutex::new(shell.spawn().ok()?.stdin?))
});

/// A process group that ends when this process does, until this is dropped.
#[derive(Debug)]
pub(crate) struct KeptGroup {
    leader: u32,
    farewell: Signal,
}

impl KeptGroup {
    /// Whether there is anybody to end a group.
    pub(crate) fn is_possible() -> bool {
        KEEPER.is_some()
    }

    /// The group of `leader` gets `farewell`.
    pub(crate) fn of(leader: u32, farewell: Signal) -> Self {
        let kept = Self { leader, farewell };
        kept.tell('+');
        kept
    }

    fn tell(&self, sign: char) {
        let Some(keeper) = &*KEEPER else { return };
        let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let signal = self.farewell.as_str().trim_start_matches("SIG");
        // A keeper that is gone keeps nothing.
        let _ = writeln!(keeper, "{sign} {} {signal}", self.leader);
    }
}

impl Drop for KeptGroup {
    fn drop(&mut self) {
        self.tell('-');
    }
}
