//! A program to talk to, and to wait for, on tokio.

use std::{
    io,
    process::{ExitStatus, Output},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::{Signal, killpg};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    runtime::Handle,
    time::timeout,
};

use crate::{
    keeper::KeptGroup,
    life::{end_with_us, number, on_the_lasting_thread},
};

/// A running program. It ends when this is dropped, by SIGKILL, and when this process ends.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    /// Whether it leads a process group of its own. Then what it starts is signalled with it.
    leads_a_group: bool,
    /// That group, as long as the leader was not waited for.
    kept: Option<KeptGroup>,
    /// How long it has to end in order when this is dropped.
    patience: Duration,
}

impl ChildProcess {
    /// Starts `command` in a process group of its own: Ctrl-C at a terminal is for this process, which ends
    /// the other. `farewell` is what it and its group get when this process has ended.
    ///
    /// # Errors
    /// Those of the system: no such file, not executable, too many processes.
    pub fn start(command: impl Into<Command>, farewell: Signal) -> io::Result<Self> {
        Self::start_in(true, command.into(), farewell)
    }

    /// The same in the process group of this process, which a program at a terminal must have: only so it may
    /// read from the terminal, and Ctrl-C reaches it.
    ///
    /// # Errors
    /// As [`ChildProcess::start`].
    pub fn start_at_the_terminal(
        command: impl Into<Command>,
        farewell: Signal,
    ) -> io::Result<Self> {
        Self::start_in(false, command.into(), farewell)
    }

    fn start_in(leads_a_group: bool, mut command: Command, farewell: Signal) -> io::Result<Self> {
        let mut kept = None;
        if leads_a_group {
            command.process_group(0);
            kept = KeptGroup::led_by(command.as_std_mut(), farewell);
        }
        // The kernel may send it several times, once for each thread of this process that ends: where that makes
        // a difference the keeper alone does it.
        if kept.is_none() || farewell == Signal::SIGKILL {
            end_with_us(command.as_std_mut(), farewell);
        }
        let runtime = Handle::current();
        let child = on_the_lasting_thread(move || {
            let _runtime = runtime.enter();
            command.spawn()
        })??;
        Ok(Self { child, leads_a_group, kept, patience: Duration::ZERO })
    }

    /// When this is dropped, the program gets SIGTERM and so much time to end in order. The drop waits for it.
    #[must_use]
    pub fn ending_in_order(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Its process; `None` once it was waited for.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Its input, its output and its complaints, where they are pipes and not yet taken.
    pub fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }

    /// Waits for the line of its output that says it is ready: the first of which `read` makes something.
    /// What it writes later is read, and nobody's.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] when the line does not come in time, and
    /// [`io::ErrorKind::UnexpectedEof`] when the output ends without it.
    pub async fn ready<T>(
        &mut self,
        within: Duration,
        mut read: impl FnMut(&str) -> Option<T>,
    ) -> io::Result<T> {
        let stdout = self.child.stdout.take();
        let stdout = stdout.ok_or_else(|| io::Error::other("its output is no pipe"))?;
        let mut lines = BufReader::new(stdout).lines();
        let found = timeout(within, async {
            while let Some(line) = lines.next_line().await? {
                if let Some(found) = read(&line) {
                    return Ok(found);
                }
            }
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended before it was ready"))
        });
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "it was not ready in time");
        let found = found.await.map_err(late)??;
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(found)
    }

    /// Closes its input, unless that was taken, and waits until it has ended. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// When the system does not say how it ended.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        // What it has left running by itself goes on, and its number may soon be another's.
        self.kept = None;
        status
    }

    /// Reads all that it writes to the pipes that are its output, and waits until it has ended.
    ///
    /// # Errors
    /// When it takes longer than `within`, or writes more than `most` bytes to one of them. The sentence has no
    /// subject: "took longer than 5 s".
    pub async fn output(mut self, within: Duration, most: u64) -> io::Result<Output> {
        let (_, stdout, stderr) = self.pipes();
        let running = async {
            let (stdout, stderr) = tokio::join!(all_of(stdout, most), all_of(stderr, most));
            (self.wait().await, stdout, stderr)
        };
        let late = |_| {
            let sentence = format!("took longer than {} s", within.as_secs_f64());
            io::Error::new(io::ErrorKind::TimedOut, sentence)
        };
        let (status, stdout, stderr) = timeout(within, running).await.map_err(late)?;
        let long = || io::Error::other(format!("prints more than {most} bytes"));
        let (stdout, stderr) = (stdout.ok_or_else(long)?, stderr.ok_or_else(long)?);
        Ok(Output { status: status?, stdout, stderr })
    }

    /// Signals it, and with a process group of its own whatever it has started. After SIGSTOP it has stopped
    /// when this returns.
    ///
    /// # Errors
    /// When it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        // Not reaped, so the number is still its own.
        let id = self.id().ok_or_else(|| io::Error::other("it has ended"))?;
        if self.leads_a_group {
            killpg(number(id)?, signal)?;
        }
        // SIGSTOP goes to one in a group once more: only so it is known to have stopped.
        if self.leads_a_group && signal != Signal::SIGSTOP {
            Ok(())
        } else {
            crate::signal(id, signal)
        }
    }

    /// SIGTERM, after `patience` SIGKILL, and waits until it is gone.
    ///
    /// # Errors
    /// When the system does not say how it ended.
    pub async fn stop(&mut self, patience: Duration) -> io::Result<ExitStatus> {
        // One that has ended needs no signal.
        let _ = self.signal(Signal::SIGTERM);
        match timeout(patience, self.wait()).await {
            Ok(status) => status,
            Err(_) => self.kill().await,
        }
    }

    /// SIGKILL, and waits until it is gone.
    ///
    /// # Errors
    /// When the system does not say how it ended.
    pub async fn kill(&mut self) -> io::Result<ExitStatus> {
        // One that has ended needs no signal.
        let _ = self.signal(Signal::SIGKILL);
        self.wait().await
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        const ASK_EVERY: Duration = Duration::from_millis(5);
        let begun = Instant::now();
        if !self.patience.is_zero() {
            // One that has ended needs no signal.
            let _ = self.signal(Signal::SIGTERM);
        }
        while begun.elapsed() < self.patience && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(ASK_EVERY);
        }
        // After the wait the number may be another group's, and this sends nothing.
        let _ = self.signal(Signal::SIGKILL);
    }
}

/// `None`: it is too long.
async fn all_of(stream: Option<impl AsyncRead + Unpin>, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What cannot be read is missing, and the status says why.
        let _ = stream.take(most.saturating_add(1)).read_to_end(&mut bytes).await;
    }
    (bytes.len() as u64 <= most).then_some(bytes)
}
