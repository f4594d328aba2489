//! The supervisor: the process that owns the servers and outlives the program by as
//! long as it takes to stop them.

mod account;
mod events;
mod home;
mod postgres;
mod postgres_session;
mod process;
mod redis;
mod scratch;

pub use postgres::PostgresPrograms;

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use self::{
    account::Account,
    events::{Event, Events},
    home::{HomeClaim, KeptHome},
    process::{ServerProcess, Site},
    scratch::Scratch,
};
use crate::{
    Home, Plan, Server, StoresError,
    binaries::Binaries,
    protocol::{Running, SupervisorReply, SupervisorRequest},
};

/// All that the program `private-stores` does: reads a plan and then orders from stdin,
/// answers on stdout, stops everything at the end of stdin or at SIGTERM.
///
/// Call it first thing in `main`, on the main thread and before any other thread
/// (an async runtime's, say) exists: signals are blocked for the threads to come.
#[must_use]
pub fn keep_servers() -> ExitCode {
    match keep() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be listening any more: then there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "private-stores: {error}");
            ExitCode::FAILURE
        }
    }
}

fn keep() -> Result<(), StoresError> {
    let events = Events::open()
        .map_err(|e| StoresError::Supervisor(format!("cannot listen to signals: {e}")))?;
    let Event::Line(line) = events.next() else {
        return Ok(());
    };
    let started = serde_json::from_str(&line)
        .map_err(|e| StoresError::Supervisor(format!("not a plan: {e}")))
        .and_then(|plan| Supervisor::start(&plan, &events));
    match started {
        Ok(Started::Owner(mut supervisor)) => {
            reply(&SupervisorReply::Ready(supervisor.running.clone()));
            supervisor.serve(&events);
            supervisor.stop()
        }
        Ok(Started::Guest(running)) => {
            reply(&SupervisorReply::Attached(running));
            Ok(())
        }
        // The reply carries it to whoever asked; saying it here as well would say it twice.
        Err(error) => {
            reply(&SupervisorReply::Failed { error });
            Ok(())
        }
    }
}

/// Answers the owner. An owner that is gone closes stdin too, and that is heard.
fn reply(reply: &SupervisorReply) {
    if let Ok(line) = serde_json::to_string(reply) {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

enum Started {
    Owner(Supervisor),
    Guest(Running),
}

/// Running servers, and the directories they use.
struct Supervisor {
    processes: Vec<ServerProcess>,
    running: Running,
    scratch: Scratch,
    /// Last, so that the lock is given up when all else is gone.
    kept: Option<KeptHome>,
}

impl Supervisor {
    fn start(plan: &Plan, events: &Events) -> Result<Started, StoresError> {
        let data = match &plan.home {
            Home::Throwaway => Vec::new(),
            Home::Kept(directory) => {
                ["postgres", "redis"].map(|name| directory.join(name)).to_vec()
            }
        };
        let account = Account::choose(&data)?;
        if plan.postgres {
            account.check_name()?;
        }
        let (account, kept) = match &plan.home {
            Home::Throwaway => (account, None),
            Home::Kept(directory) => match KeptHome::claim(directory, plan, &account, events)? {
                HomeClaim::Attached(running) => return Ok(Started::Guest(running)),
                HomeClaim::Owned(home) => (account, Some((home, directory))),
            },
        };
        let data_major = kept
            .as_ref()
            .and_then(|(_, directory)| postgres::data_major(&directory.join("postgres")));
        let binaries = Binaries::find(plan, data_major)?;
        let scratch = Scratch::create(&account)?;
        let directory = kept.as_ref().map_or(scratch.path(), |(_, directory)| directory).to_owned();
        let site = Site {
            directory: &directory,
            sockets: &scratch.sockets(),
            account: &account,
            kept: kept.is_some(),
            durable: plan.durable,
        };
        let mut processes = Vec::new();
        if let Err(error) = start_servers(&mut processes, &binaries, &site, events) {
            // The first failure is the one worth telling.
            let _ = process::stop(&mut processes);
            return Err(error);
        }
        let running = running(&processes, &directory, site.sockets)?;
        let supervisor = Self { processes, running, scratch, kept: kept.map(|(home, _)| home) };
        match supervisor.publish() {
            Ok(()) => Ok(Started::Owner(supervisor)),
            Err(error) => supervisor.stop().and(Err(error)),
        }
    }

    fn publish(&self) -> Result<(), StoresError> {
        self.kept.as_ref().map_or(Ok(()), |home| home.publish(&self.running))
    }

    /// Obeys until told to stop.
    fn serve(&mut self, events: &Events) {
        loop {
            match events.next() {
                Event::Stop => return,
                Event::ChildEnded => {}
                Event::Line(line) => match self.obey(&line, events) {
                    Ok(pid) => reply(&SupervisorReply::Restarted { pid }),
                    Err(error) => reply(&SupervisorReply::Failed { error }),
                },
            }
            // After any event, since a wait inside an order may have taken the news.
            for process in &mut self.processes {
                process.reap();
            }
        }
    }

    fn obey(&mut self, line: &str, events: &Events) -> Result<u32, StoresError> {
        let SupervisorRequest::Restart(server) = serde_json::from_str(line)
            .map_err(|e| StoresError::Supervisor(format!("not an order: {e}")))?;
        let Some(process) = self.processes.iter_mut().find(|process| process.server() == server)
        else {
            return Err(StoresError::Supervisor(format!("{server} is not one of these servers")));
        };
        process.restart(events)?;
        let pid = process.pid();
        match server {
            Server::Postgres => self.running.postgres_pid = pid,
            Server::Redis => self.running.redis_pid = pid,
        }
        self.publish()?;
        pid.ok_or_else(|| StoresError::Server(format!("{server} ended as soon as it was ready")))
    }

    /// Stops the servers and removes what is not kept, in the order in which
    /// nobody is sent to a server that is going away.
    fn stop(mut self) -> Result<(), StoresError> {
        let withdrawn = self.kept.as_ref().map_or(Ok(()), KeptHome::withdraw);
        let stopped = process::stop(&mut self.processes);
        let removed = self.scratch.remove();
        withdrawn.and(stopped).and(removed)
    }
}

fn start_servers(
    processes: &mut Vec<ServerProcess>,
    binaries: &Binaries,
    site: &Site<'_>,
    events: &Events,
) -> Result<(), StoresError> {
    if let Some(binary) = &binaries.redis {
        processes.push(redis::prepare(binary, site)?);
    }
    if let Some(binaries) = &binaries.postgres {
        processes.push(postgres::prepare(binaries, site, events)?);
    }
    for process in processes {
        process.start(events)?;
    }
    if binaries.postgres.is_some() {
        postgres::ensure_database(&postgres::socket(site.sockets))?;
    }
    Ok(())
}

fn running(
    processes: &[ServerProcess],
    directory: &Path,
    sockets: &Path,
) -> Result<Running, StoresError> {
    let of = |server| processes.iter().find(|process| process.server() == server);
    let redis_url = of(Server::Redis).map(|_| redis::url(sockets)).transpose()?;
    Ok(Running {
        database_url: of(Server::Postgres).map(|_| postgres::url(sockets)),
        redis_url,
        postgres_pid: of(Server::Postgres).and_then(ServerProcess::pid),
        redis_pid: of(Server::Redis).and_then(ServerProcess::pid),
        directory: PathBuf::from(directory),
        sockets: PathBuf::from(sockets),
    })
}
