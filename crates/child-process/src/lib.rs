#![doc = include_str!("../README.md")]

use std::{
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use nix::sys::signal::{SigSet, Signal};

/// Makes the child of `command` end when this process does, however it ends: by SIGKILL, too.
///
/// The kernel sends the child `farewell` when the **thread** that spawned it is gone, so spawn it from
/// a thread that lives as long as the process. The child starts with no signal blocked: a child inherits
/// what its parent blocks, and a `farewell` that is blocked would end nothing. A command that changes its
/// user may be told so before or after this call: the change comes first in the child, as it must, because
/// the kernel clears the parent-death signal when the user changes.
///
/// Only Linux can do that. Elsewhere the child has to notice for itself, if it can.
#[allow(unsafe_code)] // the reason stands at the block
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
