//! The stores of a command: the ones named by URL, or private ones of its own.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use rand::RngExt;
use tokio::time::{Instant, timeout};

use crate::config::{ConfigError, HomeArgs, SecretArgs, StoreArgs};
use crate::store::postgres::{CONNECTIONS, UrlFile};
use crate::store::{self, Database, DatabaseAnswer, MigrationError, NodeName, Redis, StoreError};
use crate::telemetry::News;
use private_stores::{Home, Plan, Servers};
use redisson_lock::cli::KeyPrefix;

/// How long a command waits for the database. A server waits until it is there.
const DATABASE_WITHIN: Duration = Duration::from_secs(10);
/// How long a try may take before others are told that it is waited for.
const WAITS_FROM: Duration = Duration::from_secs(1);
/// How often it is tried meanwhile.
const DATABASE_AGAIN: Duration = Duration::from_millis(100);

/// Where the database of a command is.
#[derive(Debug, Args)]
pub struct DatabaseArgs {
    #[command(flatten)]
    stores: StoreArgs,
    #[command(flatten)]
    home: HomeArgs,
}

/// What a command does with the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It only reads: its role may have no other right.
    Read,
    /// It writes, too: the database is migrated first.
    Write,
}

impl DatabaseArgs {
    /// Does `work` with the database. Then closes it, and stops private servers.
    ///
    /// # Errors
    /// When the database cannot be used, when `work` fails, and when private servers do not stop.
    pub async fn with_database<T>(
        &self,
        access: Access,
        work: impl AsyncFnOnce(&Database) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let stores = Stores::open_database(&self.stores, &self.home).await?;
        let database = match access {
            Access::Read => stores.readable_database().await?,
            Access::Write => stores.migrated_database().await?,
        };
        let done = work(&database).await;
        database.close().await;
        let closed = stores.close().await;
        done.and_then(|done| closed.map(|()| done))
    }
}

/// Where PostgreSQL and Redis are. Private servers run as long as this lives.
#[derive(Debug)]
pub struct Stores {
    /// PostgreSQL.
    pub database_url: String,
    /// Redis; empty after [`Stores::open_database`] where none is named.
    pub redis_url: String,
    /// What all names in Redis begin with.
    pub key_prefix: KeyPrefix,
    database_file: Option<UrlFile>,
    redis_file: Option<UrlFile>,
    servers: Option<Servers>,
    home: Option<PathBuf>,
}

impl Stores {
    /// The stores that `args` name. In place of those it does not name it starts private ones, which keep
    /// their data in `home`; without a `home` they keep nothing.
    pub async fn open(args: &StoreArgs, home: Option<&HomeArgs>) -> anyhow::Result<Self> {
        let named_redis = args.named_redis()?;
        if let (Some(database_url), Some(redis_url)) = (&args.database_url, &named_redis) {
            return Ok(Self::named(args, database_url.clone(), redis_url.clone()));
        }
        if home.is_some() {
            args.may_be_private()?;
        }
        // Not before: with both URLs there need not be a home directory.
        let home = home.map(HomeArgs::directory).transpose()?;
        let plan = Plan {
            home: home.clone().map_or(Home::Throwaway, Home::Kept),
            postgres: args.database_url.is_none(),
            redis: named_redis.is_none(),
            durable: true,
        };
        let servers = tokio::task::spawn_blocking(move || Servers::start(&plan)).await??;
        let url = |named: &Option<String>, private: Option<&str>| {
            named.clone().or_else(|| private.map(str::to_owned))
        };
        let database_url = url(&args.database_url, servers.database_url());
        let redis_url = url(&named_redis, servers.redis_url());
        let (Some(database_url), Some(redis_url)) = (database_url, redis_url) else {
            bail!(
                "another seckill uses the data directory {} with other settings: \
                 stop it, or give DATABASE_URL and REDIS_URL as it has them",
                servers.directory().display()
            );
        };
        let stores = Self::named(args, database_url, redis_url);
        Ok(Self { servers: Some(servers), home, ..stores })
    }

    fn named(args: &StoreArgs, database_url: String, redis_url: String) -> Self {
        Self {
            database_url,
            redis_url,
            key_prefix: args.redis.key_prefix.clone(),
            database_file: args.database_file(),
            redis_file: args.redis_file(),
            servers: None,
            home: None,
        }
    }

    /// As [`Stores::open`], for commands that need PostgreSQL alone: where it is named, nothing is
    /// started.
    pub async fn open_database(args: &StoreArgs, home: &HomeArgs) -> anyhow::Result<Self> {
        let Some(database_url) = args.database_url.clone() else {
            let stores = Self::open(args, Some(home)).await?;
            if let Some(private) = stores.private() {
                program::note(format_args!("using {private}"));
            }
            return Ok(stores);
        };
        Ok(Self::named(args, database_url, args.named_redis()?.unwrap_or_default()))
    }

    /// Which of the servers are private, and where, in words; `None` when both were named.
    pub fn private(&self) -> Option<String> {
        let servers = self.servers.as_ref()?;
        let whose = if servers.is_attached() { "another seckill's private" } else { "private" };
        let which = match (servers.database_url(), servers.redis_url()) {
            (Some(_), Some(_)) => "PostgreSQL and Redis",
            (Some(_), None) => "PostgreSQL",
            _ => "Redis",
        };
        Some(format!("{whose} {which} in {}", servers.directory().display()))
    }

    /// A handle on the database, for one who may only read it. A private one is migrated.
    pub async fn readable_database(&self) -> anyhow::Result<Database> {
        if self.servers.as_ref().is_some_and(|servers| servers.database_url().is_some()) {
            return self.migrated_database().await;
        }
        let database = Database::new(&self.database_url)?;
        match database.is_migrated().await {
            Ok(true) => Ok(database),
            Ok(false) => Err(needs_migration().into()),
            Err(error) if let Some(sentence) = unmendable(&error) => Err(sentence.into()),
            Err(error) => Err(error).context("the database could not be read"),
        }
    }

    /// A handle on the database, migrated. It waits for a database that is only just coming up.
    pub async fn migrated_database(&self) -> anyhow::Result<Database> {
        migrated(|| Database::new(&self.database_url), Some(DATABASE_WITHIN), || ()).await
    }

    /// [`Stores::migrated_database`] for a server process, whose connections carry the name of `node`. It waits
    /// however long the database takes, and calls `waiting` when it begins to.
    pub async fn migrated_database_of(
        &self,
        node: NodeName,
        waiting: impl FnMut(),
    ) -> anyhow::Result<Database> {
        let open =
            || Database::of_node(&self.database_url, self.database_file.clone(), node.clone());
        let database = migrated(open, None, waiting).await?;
        // Now, and not at the first use: the first buyers would be refused where making them takes long.
        let has_all = database.has_all_connections().await;
        if !has_all && database.is_behind_pooler() {
            bail!(ConfigError(format!(
                "the connection pooler does not give each of the {CONNECTIONS} connections of this server a \
                 session: let it pool by transaction, or give it {CONNECTIONS} sessions for each server process"
            )));
        }
        if !has_all {
            tracing::warn!(
                "the database does not give this server its {CONNECTIONS} connections at once: it starts with fewer"
            );
        }
        Ok(database)
    }

    /// A server's handle on Redis.
    pub fn redis(&self) -> Result<Redis, StoreError> {
        store::redis(&self.redis_url, self.redis_file.clone())
    }

    /// The secret that signs tokens: the one given, or the one kept beside the private
    /// PostgreSQL, made at first use.
    ///
    /// # Errors
    /// When none is given though the database is not private, or the file is unusable.
    pub fn secret(&self, args: &SecretArgs) -> anyhow::Result<String> {
        if let Some(secret) = &args.secret {
            return Ok(secret.clone());
        }
        if args.secret_previous.is_some() {
            let what = "SECKILL_SECRET_PREVIOUS is set and SECKILL_SECRET is not: name the new secret, too";
            bail!(ConfigError(what.to_owned()));
        }
        let private = self.servers.as_ref().is_some_and(|servers| servers.database_url().is_some());
        let Some(home) = self.home.as_ref().filter(|_| private) else {
            return Err(secret_is_required().into());
        };
        let path = home.join("secret");
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                let secret = fresh_secret();
                file.write_all(secret.as_bytes())
                    .and_then(|()| file.sync_all())
                    .with_context(|| format!("cannot write {}", path.display()))?;
                Ok(secret)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let secret = std::fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                if secret.len() < 64 {
                    bail!("{} is damaged: remove it, and sessions begin anew", path.display());
                }
                Ok(secret)
            }
            Err(error) => Err(error).with_context(|| format!("cannot make {}", path.display())),
        }
    }

    /// Stops private servers and waits until they are gone.
    pub async fn close(self) -> anyhow::Result<()> {
        if let Some(servers) = self.servers {
            tokio::task::spawn_blocking(move || servers.stop()).await??;
        }
        Ok(())
    }
}

/// Migrates what `open` opens, and tries again `within` so long while the database cannot be reached. What no waiting
/// mends ends it at once. Where a file says something else by the next try, the database is opened anew: a handle that had
/// reached the first one would sell from both. Else its connections are kept: they may be slow to make.
async fn migrated(
    open: impl Fn() -> Result<Database, StoreError>,
    within: Option<Duration>,
    mut waiting: impl FnMut(),
) -> anyhow::Result<Database> {
    let deadline = within.map(|limit| Instant::now() + limit);
    let said = News::default();
    let mut database = open()?;
    loop {
        if database.names_another_address() {
            database.close().await;
            database = open()?;
        }
        match tell_of_waiting(database.migrate(), &mut waiting).await {
            Ok(()) => return Ok(database),
            Err(error) if let Some(sentence) = unmendable(&error) => return Err(sentence.into()),
            Err(MigrationError::Store(error))
                if error.retry_may_help()
                    && deadline.is_none_or(|deadline| Instant::now() < deadline) =>
            {
                if said.is(error.to_string()) {
                    tracing::info!(%error, "waiting for the database");
                }
                waiting();
                tokio::time::sleep(DATABASE_AGAIN).await;
            }
            Err(error) => {
                return Err(error).context("the database could not be reached and migrated");
            }
        }
    }
}

/// What `trying` comes to. `waiting` is called where that takes long.
async fn tell_of_waiting<T>(trying: impl Future<Output = T>, waiting: &mut impl FnMut()) -> T {
    let mut trying = pin!(trying);
    if let Ok(done) = timeout(WAITS_FROM, &mut trying).await {
        return done;
    }
    waiting();
    trying.await
}

/// What no waiting mends, in a sentence for the person who named the database.
fn unmendable(error: &MigrationError) -> Option<ConfigError> {
    let MigrationError::Store(cause) = error else { return Some(ConfigError(error.to_string())) };
    match cause.answer()? {
        (DatabaseAnswer::EntryRefused, why) => Some(ConfigError(format!(
            "PostgreSQL refuses the role or the database of DATABASE_URL: {why}"
        ))),
        (DatabaseAnswer::NameTaken, _) => Some(ConfigError(format!(
            "the database has tables of another program, name one that is empty: {cause}"
        ))),
        (DatabaseAnswer::Forbidden, _) => Some(needs_migration()),
        _ => None,
    }
}

fn needs_migration() -> ConfigError {
    ConfigError(
        "the database lacks tables of this version, or its role may not read them: run seckill migrate as \
         the owner of the tables, and deploy/postgres/roles.sql for the role"
            .to_owned(),
    )
}

/// Without it every node of a named database would sign with another secret.
pub fn secret_is_required() -> ConfigError {
    ConfigError(
        "SECKILL_SECRET is required with DATABASE_URL: all nodes must sign with one secret \
         (make one with: openssl rand -hex 32)"
            .to_owned(),
    )
}

/// 32 random bytes, in hexadecimal digits.
pub fn fresh_secret() -> String {
    hex::encode(rand::rng().random::<[u8; 32]>())
}
