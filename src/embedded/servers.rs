//! The program's side: start a keeper, talk to it, let it go.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    EmbeddedError, Home, Plan, Server, postgres,
    protocol::{Order, Reply, Running},
    scratch::remove_directory,
};

/// More than a keeper needs for a stop that goes wrong in every way.
const KEEPER_STOP_MAX: Duration = Duration::from_secs(20);

/// Running private servers. They stop when this is dropped, and when the process
/// that holds it ends in whatever way.
#[derive(Debug)]
pub struct Servers {
    /// `None` when attached to another process's servers.
    keeper: Option<Keeper>,
    running: Running,
}

#[derive(Debug)]
struct Keeper {
    child: Child,
    /// Closing it is the order to stop.
    orders: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Servers {
    /// Starts what `plan` wants, or attaches to the servers of the process that
    /// holds a kept home already. `exe` is the `seckill` binary (the running
    /// program's own path, as a rule).
    ///
    /// Blocking, a second or two at the first start: async callers use
    /// `spawn_blocking`.
    ///
    /// # Errors
    ///
    /// Any [`EmbeddedError`] but `NotOwner`; nothing is left behind.
    pub fn start(exe: &Path, plan: &Plan) -> Result<Self, EmbeddedError> {
        let plan = with_absolute_home(plan)?;
        let mut keeper = Keeper::spawn(exe)?;
        let answer = keeper.say(&plan).and_then(|()| keeper.hear());
        match answer {
            Ok(Reply::Ready(running)) => Ok(Self { keeper: Some(keeper), running }),
            Ok(Reply::Attached(running)) => {
                keeper.dismiss().map(|_| Self { keeper: None, running })
            }
            Ok(Reply::Failed { code, message }) => {
                keeper.dismiss().and_then(|_| Err(code.into_error(message)))
            }
            Ok(Reply::Restarted { .. }) => keeper.dismiss().and(Err(out_of_step())),
            Err(error) => keeper.dismiss().and(Err(error)),
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
        self.keeper.is_none()
    }

    /// The server's process (PostgreSQL's first one), for fault tests.
    #[must_use]
    pub fn pid(&self, server: Server) -> Option<u32> {
        match server {
            Server::Postgres => self.running.postgres_pid,
            Server::Redis => self.running.redis_pid,
        }
    }

    /// The keeper's process, for fault tests; `None` when attached.
    #[must_use]
    pub fn keeper_pid(&self) -> Option<u32> {
        self.keeper.as_ref().map(|keeper| keeper.child.id())
    }

    /// Starts a server again on the same socket, whether it was killed, is
    /// paused or still runs. PostgreSQL recovers its data; a throw-away Redis
    /// comes back empty. Blocking.
    ///
    /// # Errors
    ///
    /// `NotOwner` when attached; `Server` when it does not come back;
    /// `Keeper` when the plan had no such server or the keeper is gone.
    pub fn restart(&mut self, server: Server) -> Result<(), EmbeddedError> {
        let keeper = self.keeper.as_mut().ok_or(EmbeddedError::NotOwner)?;
        keeper.say(&Order::Restart(server))?;
        match keeper.hear()? {
            Reply::Restarted { pid } => {
                match server {
                    Server::Postgres => self.running.postgres_pid = Some(pid),
                    Server::Redis => self.running.redis_pid = Some(pid),
                }
                Ok(())
            }
            Reply::Failed { code, message } => Err(code.into_error(message)),
            Reply::Ready(_) | Reply::Attached(_) => Err(out_of_step()),
        }
    }

    /// Stops the servers and waits until they are gone; when attached, does
    /// nothing. Dropping does the same and keeps quiet about failures.
    ///
    /// # Errors
    ///
    /// `Keeper` when the keeper ended badly, was killed, or had to be.
    pub fn stop(mut self) -> Result<(), EmbeddedError> {
        self.let_go()
    }

    fn let_go(&mut self) -> Result<(), EmbeddedError> {
        let Some(mut keeper) = self.keeper.take() else {
            return Ok(());
        };
        let ended = keeper.dismiss();
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                self.clean_up();
                Err(EmbeddedError::Keeper(format!(
                    "the keeper of the private servers ended with {status}"
                )))
            }
            Err(error) => {
                self.clean_up();
                Err(error)
            }
        }
    }

    /// Does in a killed keeper's place what the kernel does not: ends a
    /// PostgreSQL that is paused, removes the temporary directory.
    fn clean_up(&self) {
        postgres::kill_remains(&self.running.directory.join("postgres"));
        if let Some(scratch) = self.running.sockets.parent() {
            // What stays is swept by the next keeper.
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

impl Keeper {
    fn spawn(exe: &Path) -> Result<Self, EmbeddedError> {
        let failed = |why: &str| {
            EmbeddedError::Keeper(format!("cannot run {} keep-servers: {why}", exe.display()))
        };
        let mut child = Command::new(exe)
            .arg("keep-servers")
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

    fn say(&mut self, what: &impl serde::Serialize) -> Result<(), EmbeddedError> {
        let line = serde_json::to_string(what).map_err(|e| EmbeddedError::Keeper(e.to_string()))?;
        let pipe = self.orders.as_mut().ok_or_else(gone)?;
        writeln!(pipe, "{line}").map_err(|_| gone())
    }

    /// Waits for a reply. Bounded by the keeper, whose every wait is, and by its death.
    fn hear(&mut self) -> Result<Reply, EmbeddedError> {
        let mut line = String::new();
        match self.replies.read_line(&mut line) {
            Ok(0) | Err(_) => Err(gone()),
            Ok(_) => serde_json::from_str(&line).map_err(|e| {
                EmbeddedError::Keeper(format!(
                    "the keeper of the private servers says `{}`: {e}",
                    line.trim()
                ))
            }),
        }
    }

    /// Orders the stop and waits for it; kills a keeper that takes too long,
    /// upon which the kernel takes the servers along.
    fn dismiss(&mut self) -> Result<ExitStatus, EmbeddedError> {
        drop(self.orders.take());
        let failed =
            |e: std::io::Error| EmbeddedError::Keeper(format!("cannot wait for the keeper: {e}"));
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

fn with_absolute_home(plan: &Plan) -> Result<Plan, EmbeddedError> {
    let mut plan = plan.clone();
    if let Home::Kept(directory) = &mut plan.home {
        *directory = std::path::absolute(&*directory)
            .map_err(|e| EmbeddedError::at("find", directory, &e))?;
    }
    Ok(plan)
}

fn gone() -> EmbeddedError {
    EmbeddedError::Keeper("the keeper of the private servers is gone".to_owned())
}

fn out_of_step() -> EmbeddedError {
    EmbeddedError::Keeper("the keeper of the private servers answers another question".to_owned())
}
