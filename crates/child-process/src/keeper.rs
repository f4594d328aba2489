//! What ends a whole process group when this process has ended, however it did.

use std::{
    io::{self, Write},
    os::unix::process::CommandExt,
    process::{ChildStdin, Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use nix::{
    sys::signal::{SigHandler, SigSet, Signal, signal},
    unistd::{getpid, write},
};

use crate::life::follow;

/// The input of one shell of this process, which ends with this process. `None` where there is no shell.
static KEEPER: LazyLock<Option<ChildStdin>> = LazyLock::new(|| {
    let mut shell = Command::new("sh");
    // It holds nothing of ours: no output that somebody reads to its end, no directory. Its group is its own,
    // and lives on.
    shell.args(["-c", include_str!("keeper.sh")]).env_clear().current_dir("/").process_group(0);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.spawn().ok()?.stdin
});

/// A process group that ends when this process does, until this is dropped.
#[derive(Debug)]
pub(crate) struct KeptGroup {
    keeper: &'static ChildStdin,
    number: u64,
}

impl KeptGroup {
    /// The group that the child of `command` leads; it gets `farewell`. `None` where nobody can keep it.
    #[allow(unsafe_code)] // the reason stands at the block
    pub(crate) fn led_by(command: &mut Command, farewell: Signal) -> Option<Self> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let keeper = KEEPER.as_ref()?;
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let parent = getpid();
        let name = farewell.as_str().trim_start_matches("SIG");
        // The child says it itself, before it is another program: until then it keeps the keeper's input open.
        let in_the_child = move || -> io::Result<()> {
            // What is blocked here would be blocked there: also the farewell.
            SigSet::empty().thread_set_mask()?;
            let mut line = [0; 64];
            let mut rest = &mut line[..];
            writeln!(rest, "+ {number} {} {name}", getpid())?;
            let left = rest.len();
            // SAFETY: no handler of ours is named. Without a keeper the kernel ends the child alone.
            unsafe { signal(Signal::SIGPIPE, SigHandler::SigIgn) }?;
            if write(keeper, &line[..line.len() - left]).is_err() {
                // The child ends with this process all the same, without what it has started.
                follow(parent, farewell)?;
            }
            // SAFETY: as above; every child begins so.
            unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }?;
            Ok(())
        };
        // SAFETY: between fork and exec only async-signal-safe calls are allowed. The closure formats numbers into
        // an array of its own, makes plain system calls (rt_sigprocmask, getpid, getppid, rt_sigaction, write, prctl),
        // allocates nothing, takes no lock and cannot panic.
        unsafe { command.pre_exec(in_the_child) };
        Some(Self { keeper, number })
    }
}

impl Drop for KeptGroup {
    fn drop(&mut self) {
        // In one piece. A keeper that is gone keeps nothing.
        let _ = self.keeper.write_all(format!("- {}\n", self.number).as_bytes());
    }
}
