//! The beginning and the end of a child process.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command},
    sync::{LazyLock, mpsc},
    thread,
};

use nix::{
    errno::Errno,
    sys::{
        signal::{SigSet, Signal, kill},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};

/// Makes the child of `command` end when this process does, however it ends: by SIGKILL, too.
///
/// The kernel sends the child `farewell` when the **thread** that spawned it is gone: [`spawn`] has a thread
/// that lives as long as the process. The child starts with no signal blocked: a child inherits what its
/// parent blocks, and a `farewell` that is blocked would end nothing. A command that changes its user may be
/// told so before or after this call: the change comes first in the child, as it must, because the kernel
/// clears the parent-death signal when the user changes.
///
/// Only Linux can do that. Elsewhere the child has to notice for itself, if it can.
#[allow(unsafe_code)] // the reason stands at the block
pub fn end_with_us(command: &mut Command, farewell: Signal) {
    let parent = nix::unistd::getpid();
    let in_the_child = move || -> io::Result<()> {
        SigSet::empty().thread_set_mask()?;
        follow(parent, farewell)
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed, because another
    // thread may have held a lock (the allocator's, say) when the process was copied. The
    // closure makes three plain system calls (rt_sigprocmask, prctl, getppid), allocates
    // nothing, takes no lock and cannot panic.
    unsafe { command.pre_exec(in_the_child) };
}

/// In the child: the kernel sends it `farewell` when the thread of `parent` that spawned it is gone.
pub(crate) fn follow(parent: Pid, farewell: Signal) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        nix::sys::prctl::set_pdeathsig(farewell)?;
        // A parent that died before this line could not send it any more.
        if nix::unistd::getppid() != parent {
            return Err(Errno::ESRCH.into());
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (parent, farewell);
    Ok(())
}

/// Spawns `command` from a thread that lives as long as this process, so that [`end_with_us`] ties the child
/// to the process. Threads of a runtime or of tests come and go.
///
/// # Errors
/// Those of the system: no such file, not executable, too many processes.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut taken = std::mem::replace(command, Command::new(""));
    let (taken, child) = on_the_lasting_thread(move || {
        let child = taken.spawn();
        (taken, child)
    })?;
    *command = taken;
    child
}

/// What `work` returns, which is done on the thread that starts every child process.
pub(crate) fn on_the_lasting_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    type Work = Box<dyn FnOnce() + Send>;
    static THREAD: LazyLock<mpsc::Sender<Work>> = LazyLock::new(|| {
        let (orders, queue) = mpsc::channel::<Work>();
        thread::spawn(move || queue.into_iter().for_each(|work| work()));
        orders
    });
    let (done, result) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts programs is gone");
    // The caller waits for it.
    let work = move || drop(done.send(work()));
    THREAD.send(Box::new(work)).map_err(|_| gone())?;
    result.recv().map_err(|_| gone())
}

/// Signals a child that has not been reaped. After SIGSTOP all of it has stopped when this returns, or it
/// has ended: otherwise some of its threads might go on for a moment, and answer.
///
/// # Errors
/// When there is no such process, or it is another user's.
pub fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = number(pid)?;
    kill(pid, signal)?;
    if signal == Signal::SIGSTOP { until_stopped(pid) } else { Ok(()) }
}

pub(crate) fn number(pid: u32) -> io::Result<Pid> {
    i32::try_from(pid).map(Pid::from_raw).map_err(io::Error::other)
}

fn until_stopped(pid: Pid) -> io::Result<()> {
    let until = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::Pid(pid), until) {
            Err(Errno::EINTR) => {}
            waited => return waited.map(drop).map_err(io::Error::from),
        }
    }
}
