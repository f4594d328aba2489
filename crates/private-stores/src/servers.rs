//! The program's side: start a supervisor, talk to it, let it go.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    Home, Plan, Server, StoresError,
    protocol::{Running, SupervisorReply, SupervisorRequest},
    remains::{kill_remains, remove_directory},
};

/// The program that keeps the servers: its name, and that of its file.
pub const SUPERVISOR: &str = "private-stores";

/// More than a supervisor needs for a stop that goes wrong in every way.
const KEEPER_STOP_MAX: Duration = Duration::from_secs(20);

/// Running private servers. They stop when this is dropped, and when the process
/// that holds it ends in whatever way.
#[derive(Debug)]
pub struct Servers {
    /// `None` when attached to another process's servers.
    supervisor: Option<SupervisorProcess>,
    running: Running,
}

#[derive(Debug)]
struct SupervisorProcess {
    child: Child,
    /// Closing it is the order to stop.
    orders: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Servers {
    /// Starts what `plan` wants, or attaches to the servers of the process that
    /// holds a kept home already. The program [`SUPERVISOR`] has to lie beside the
    /// running one.
    ///
    /// Blocking, a second or two at the first start: async callers use
    /// `spawn_blocking`.
    ///
    /// # Errors
    ///
    /// Any [`StoresError`] but `NotOwner`; nothing is left behind.
    pub fn start(plan: &Plan) -> Result<Self, StoresError> {
        Self::start_by(&supervisor_program()?, plan)
    }

    /// The same by another supervisor than the one beside the running program.
    ///
    /// # Errors
    ///
    /// As [`Servers::start`].
    pub fn start_by(supervisor: &Path, plan: &Plan) -> Result<Self, StoresError> {
        let plan = with_absolute_home(plan)?;
        let mut supervisor = SupervisorProcess::spawn(supervisor)?;
        let answer = supervisor.say(&plan).and_then(|()| supervisor.hear());
        match answer {
            Ok(SupervisorReply::Ready(running)) => {
                Ok(Self { supervisor: Some(supervisor), running })
            }
            Ok(SupervisorReply::Attached(running)) => {
                supervisor.dismiss().map(|_| Self { supervisor: None, running })
            }
            Ok(SupervisorReply::Failed { error }) | Err(error) => {
                supervisor.dismiss().and(Err(error))
            }
            Ok(SupervisorReply::Restarted { .. }) => supervisor.dismiss().and(Err(out_of_step())),
        }
    }

    /// Where PostgreSQL is, for sqlx and libpq; `None` when the plan had none.
    #[must_use]
    pub fn database_url(&self) -> Option<&str> {
        self.running.database_url.as_deref()
    }

    /// Where Redis is, for the `redis` crate; `None` when the plan had none.
    #[must_use]
    pub fn redis_url(&self) -> Option<&str> {
        self.running.redis_url.as_deref()
    }

    /// Where data and logs are; a throw-away directory goes with the servers.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.running.directory
    }

    /// Whether the servers are another process's, and stop with that one.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.supervisor.is_none()
    }

    /// The server's process (PostgreSQL's first one), for fault tests.
    #[must_use]
    pub fn pid(&self, server: Server) -> Option<u32> {
        match server {
            Server::Postgres => self.running.postgres_pid,
            Server::Redis => self.running.redis_pid,
        }
    }

    /// The supervisor's process, for fault tests; `None` when attached.
    #[must_use]
    pub fn supervisor_pid(&self) -> Option<u32> {
        self.supervisor.as_ref().map(|supervisor| supervisor.child.id())
    }

    /// Starts a server again on the same socket, whether it was killed, is
    /// paused or still runs. PostgreSQL recovers its data; a throw-away Redis
    /// comes back empty. Blocking.
    ///
    /// # Errors
    ///
    /// `NotOwner` when attached; `Server` when it does not come back;
    /// `SupervisorProcess` when the plan had no such server or the supervisor is gone.
    pub fn restart(&mut self, server: Server) -> Result<(), StoresError> {
        let supervisor = self.supervisor.as_mut().ok_or(StoresError::NotOwner)?;
        supervisor.say(&SupervisorRequest::Restart(server))?;
        match supervisor.hear()? {
            SupervisorReply::Restarted { pid } => {
                match server {
                    Server::Postgres => self.running.postgres_pid = Some(pid),
                    Server::Redis => self.running.redis_pid = Some(pid),
                }
                Ok(())
            }
            SupervisorReply::Failed { error } => Err(error),
            SupervisorReply::Ready(_) | SupervisorReply::Attached(_) => Err(out_of_step()),
        }
    }

    /// Stops the servers and waits until they are gone; when attached, does
    /// nothing. Dropping does the same and keeps quiet about failures.
    ///
    /// # Errors
    ///
    /// `SupervisorProcess` when the supervisor ended badly, was killed, or had to be.
    pub fn stop(mut self) -> Result<(), StoresError> {
        self.let_go()
    }

    fn let_go(&mut self) -> Result<(), StoresError> {
        let Some(mut supervisor) = self.supervisor.take() else {
            return Ok(());
        };
        let ended = supervisor.dismiss();
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                self.clean_up();
                Err(StoresError::Supervisor(format!(
                    "the supervisor of the private servers ended with {status}"
                )))
            }
            Err(error) => {
                self.clean_up();
                Err(error)
            }
        }
    }

    /// Does in a killed supervisor's place what the kernel does not: ends a
    /// PostgreSQL that is paused, removes the temporary directory.
    fn clean_up(&self) {
        kill_remains(&self.running.directory.join("postgres"));
        if let Some(scratch) = self.running.sockets.parent() {
            // What stays is swept by the next supervisor.
            let _ = remove_directory(scratch);
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // Nobody to tell: the caller who wants to know calls `stop`.
        let _ = self.let_go();
    }
}

impl SupervisorProcess {
    fn spawn(exe: &Path) -> Result<Self, StoresError> {
        let failed =
            |why: &str| StoresError::Supervisor(format!("cannot run {}: {why}", exe.display()));
        let mut child = Command::new(exe)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A group of its own: Ctrl-C at the terminal is for the program, which
            // may still need the servers while it ends in good order.
            .process_group(0)
            .spawn()
            .map_err(|e| failed(&e.to_string()))?;
        let (orders, replies) = (child.stdin.take(), child.stdout.take());
        let replies = BufReader::new(replies.ok_or_else(|| failed("no pipe"))?);
        Ok(Self { child, orders, replies })
    }

    fn say(&mut self, what: &impl serde::Serialize) -> Result<(), StoresError> {
        let line =
            serde_json::to_string(what).map_err(|e| StoresError::Supervisor(e.to_string()))?;
        let pipe = self.orders.as_mut().ok_or_else(gone)?;
        writeln!(pipe, "{line}").map_err(|_| gone())
    }

    /// Waits for a reply. Bounded by the supervisor, whose every wait is, and by its death.
    fn hear(&mut self) -> Result<SupervisorReply, StoresError> {
        let mut line = String::new();
        match self.replies.read_line(&mut line) {
            Ok(0) | Err(_) => Err(gone()),
            Ok(_) => serde_json::from_str(&line).map_err(|e| {
                StoresError::Supervisor(format!(
                    "the supervisor of the private servers says `{}`: {e}",
                    line.trim()
                ))
            }),
        }
    }

    /// Orders the stop and waits for it; kills a supervisor that takes too long,
    /// upon which the kernel takes the servers along.
    fn dismiss(&mut self) -> Result<ExitStatus, StoresError> {
        drop(self.orders.take());
        let failed = |e: std::io::Error| {
            StoresError::Supervisor(format!("cannot wait for the supervisor: {e}"))
        };
        let began = Instant::now();
        while began.elapsed() < KEEPER_STOP_MAX {
            if let Some(status) = self.child.try_wait().map_err(failed)? {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.child.kill().and_then(|()| self.child.wait()).map_err(failed)
    }
}

fn supervisor_program() -> Result<PathBuf, StoresError> {
    let place = child_process::beside(SUPERVISOR).map_err(|error| {
        StoresError::Supervisor(format!("cannot find the program's own file: {error}"))
    })?;
    if place.is_file() {
        return Ok(place);
    }
    Err(StoresError::MissingBinaries(format!(
        "there is no {}, the program which keeps the private servers: build it with \
         `cargo build --release -p {SUPERVISOR}`, copy it there, or set DATABASE_URL and REDIS_URL",
        place.display()
    )))
}

fn with_absolute_home(plan: &Plan) -> Result<Plan, StoresError> {
    let mut plan = plan.clone();
    if let Home::Kept(directory) = &mut plan.home {
        *directory =
            std::path::absolute(&*directory).map_err(|e| StoresError::at("find", directory, &e))?;
    }
    Ok(plan)
}

fn gone() -> StoresError {
    StoresError::Supervisor("the supervisor of the private servers is gone".to_owned())
}

fn out_of_step() -> StoresError {
    StoresError::Supervisor(
        "the supervisor of the private servers answers another question".to_owned(),
    )
}
