//! The one place that ties a child's life to ours.

use std::{io, os::unix::process::CommandExt, process::Command};

use nix::sys::signal::{SigSet, Signal};

/// Makes the child of `command` end when we do, however we end: by SIGKILL, too.
///
/// The kernel sends it `farewell` when the **thread** that spawned it is gone, so spawn it from
/// one that lives as long as the process. The child starts with no signal blocked: what its
/// parent blocks for purposes of its own is inherited, and a `farewell` that is blocked would
/// end nothing. A command that changes its user may be told so before or after this: the change
/// comes first, which it must, because it clears the parent-death signal.
///
/// Only Linux can do that. Elsewhere the child has to notice for itself, if it can.
#[allow(unsafe_code)]
pub fn end_with_us(command: &mut Command, farewell: Signal) {
    let parent = nix::unistd::getpid();
    let in_the_child = move || -> io::Result<()> {
        SigSet::empty().thread_set_mask()?;
        #[cfg(target_os = "linux")]
        {
            nix::sys::prctl::set_pdeathsig(farewell)?;
            // A parent that died before this line could not send it any more.
            if nix::unistd::getppid() != parent {
                return Err(nix::errno::Errno::ESRCH.into());
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (parent, farewell);
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed, because another
    // thread may have held a lock (the allocator's, say) when the process was copied. The
    // closure makes three plain system calls (rt_sigprocmask, prctl, getppid), allocates
    // nothing, takes no lock and cannot panic.
    unsafe { command.pre_exec(in_the_child) };
}
