//! The private Redis of a run: on a UNIX socket, in memory only, gone with the process.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use seckill::embedded::{Home, Plan, Servers};

/// The subcommand by which a process of this program keeps the servers of another.
pub const KEEP_SERVERS: &str = "keep-servers";

/// For an answer to what prepares a measurement.
const PATIENCE: Duration = Duration::from_secs(30);

/// The `main` of a benchmark: keeps the servers of another process of it, or measures.
pub fn keep_or(name: &str, measure: impl FnOnce() -> anyhow::Result<()>) -> ExitCode {
    // Before there is any thread.
    if std::env::args().nth(1).is_some_and(|argument| argument == KEEP_SERVERS) {
        return seckill::embedded::keep_servers();
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A Redis of one's own.
#[derive(Debug)]
pub struct Server {
    _servers: Servers,
    url: String,
}

impl Server {
    /// Starts it. The keeper is this very program, run again with [`KEEP_SERVERS`]: so a
    /// `main` that calls this must answer to that. Blocking.
    ///
    /// # Errors
    /// When there is no `redis-server`, or it does not start.
    pub fn start() -> anyhow::Result<Self> {
        let plan = Plan { home: Home::Throwaway, postgres: false, redis: true, durable: false };
        let servers = Servers::start(&std::env::current_exe()?, &plan)?;
        let url = servers.redis_url().context("the plan has a Redis")?.to_owned();
        Ok(Self { _servers: servers, url })
    }

    /// For the `redis` crate, on which all contenders stand.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// The socket in a URL of [`Server::url`], for programs that take a path.
///
/// # Errors
/// When the URL is of another kind.
pub fn socket(url: &str) -> anyhow::Result<PathBuf> {
    let path = url.strip_prefix("redis+unix://").context("not a Redis on a UNIX socket")?;
    Ok(PathBuf::from(path))
}

/// A connection beside those that are measured.
///
/// # Errors
/// When Redis cannot be reached.
pub async fn aside(url: &str) -> anyhow::Result<MultiplexedConnection> {
    // Making half a million locks takes longer than the half second that is the default.
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    let client = redis::Client::open(url)?;
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

/// One number of `INFO section`.
///
/// # Errors
/// When Redis does not tell it.
pub async fn info(
    connection: &mut MultiplexedConnection,
    section: &str,
    field: &str,
) -> anyhow::Result<u64> {
    let text = info_text(connection, section, field).await?;
    text.parse().with_context(|| format!("{field} is `{text}`"))
}

/// One line of `INFO section`, what follows the colon.
///
/// # Errors
/// When Redis does not tell it.
pub async fn info_text(
    connection: &mut MultiplexedConnection,
    section: &str,
    field: &str,
) -> anyhow::Result<String> {
    let info: String = redis::cmd("INFO").arg(section).query_async(connection).await?;
    let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Ok(line.with_context(|| format!("INFO {section} has no {field}"))?.trim().to_owned())
}
