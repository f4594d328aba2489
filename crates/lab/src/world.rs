//! Where the lab works: two scratch databases, a Redis, names of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use sqlx::{Connection, Executor, PgConnection};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use faults::{FaultError, MariaDbNode, ZooKeeperNode};
use ladder::Tables;
use private_stores::{Home, Plan, Servers};
use program::stop;
use redis_link::Redis;
use seckill::config::StoreArgs;
use seckill::store::{Database, MigrationError};

/// What is done to the lab's databases, and to those of the rungs without a safety net.
const LAB_SQL: &str = include_str!("../../ladder/src/lab.sql");
const BARE_SQL: &str = include_str!("../../ladder/src/bare.sql");

/// How long a new scratch database may keep a connection waiting. The database makes its caches for the first
/// one, which on a busy machine may take longer than a buyer's connection may.
const MIGRATES_WITHIN: Duration = Duration::from_secs(30);
const MIGRATES_AGAIN: Duration = Duration::from_millis(100);

/// Users of one cell; each cell has a range of its own.
pub(super) const USERS_PER_CELL: i64 = 1_000_000;

/// A PostgreSQL and a Redis, for one world or for several.
pub struct WorldServers {
    /// Those that nobody named.
    private: Option<Servers>,
    /// Where scratch databases are made.
    database_url: String,
    redis_url: String,
}

impl WorldServers {
    /// The servers that are named; private ones in place of those that are not.
    ///
    /// # Errors
    /// When a server cannot be started.
    pub async fn start(
        database_url: Option<String>,
        redis_url: Option<String>,
    ) -> anyhow::Result<Self> {
        let plan = Plan {
            home: Home::Throwaway,
            postgres: database_url.is_none(),
            redis: redis_url.is_none(),
            durable: true,
        };
        let private = if plan.postgres || plan.redis {
            Some(tokio::task::spawn_blocking(move || Servers::start(&plan)).await??)
        } else {
            None
        };
        let url = |url: fn(&Servers) -> Option<&str>| private.as_ref().and_then(url);
        let database_url = database_url.or_else(|| url(Servers::database_url).map(str::to_owned));
        let redis_url = redis_url.or_else(|| url(Servers::redis_url).map(str::to_owned));
        Ok(Self {
            database_url: database_url.context("there is no PostgreSQL")?,
            redis_url: redis_url.context("there is no Redis")?,
            private,
        })
    }

    /// Stops private servers.
    ///
    /// # Errors
    /// When they do not end in good order.
    pub async fn stop(self) -> anyhow::Result<()> {
        if let Some(servers) = self.private {
            tokio::task::spawn_blocking(move || servers.stop()).await??;
        }
        Ok(())
    }

    /// A directory that goes with the private servers, also when this process is killed.
    fn home(&self) -> Option<&Path> {
        self.private.as_ref().map(Servers::directory)
    }
}

/// The lab's databases, and where they are.
pub struct World {
    /// The servers that end with this world.
    own: Option<WorldServers>,
    /// Where scratch databases are made.
    admin_url: String,
    redis_url: String,
    /// A directory that goes with the private servers.
    home: Option<PathBuf>,
    /// Begins every name of this run.
    run: String,
    /// What the names in Redis begin with.
    key_prefix: String,
    zookeeper: OnceCell<ZooKeeperNode>,
    mariadb: OnceCell<MariaDbNode>,
    cells: std::sync::atomic::AtomicI64,
}

impl World {
    /// The lab on the servers that are named; on private ones in place of those that are not.
    ///
    /// # Errors
    /// When a server cannot be started or reached.
    pub async fn open(
        database_url: Option<String>,
        redis_url: Option<String>,
    ) -> anyhow::Result<Self> {
        let servers = WorldServers::start(database_url, redis_url).await?;
        match Self::beside(&servers).await {
            Ok(world) => Ok(Self { own: Some(servers), ..world }),
            Err(error) => {
                // What went wrong is the news; that it is in the way of tidying up, too, is not.
                let _ = servers.stop().await;
                Err(error)
            }
        }
    }

    /// One of several worlds on the same servers, which stay when it ends.
    ///
    /// # Errors
    /// When a server cannot be reached.
    pub async fn beside(servers: &WorldServers) -> anyhow::Result<Self> {
        let world = Self {
            own: None,
            admin_url: servers.database_url.clone(),
            redis_url: servers.redis_url.clone(),
            home: servers.home().map(Path::to_owned),
            run: format!("seckill_lab_{}", &Uuid::new_v4().simple().to_string()[..12]),
            key_prefix: String::new(),
            zookeeper: OnceCell::new(),
            mariadb: OnceCell::new(),
            cells: std::sync::atomic::AtomicI64::new(0),
        };
        match world.make_databases().await {
            Ok(()) => Ok(world),
            Err(error) => {
                let _ = world.close().await;
                Err(error)
            }
        }
    }

    async fn make_databases(&self) -> anyhow::Result<()> {
        for tables in [Tables::Bare, Tables::Guarded] {
            self.make_database(tables).await?;
        }
        Ok(())
    }

    async fn make_database(&self, tables: Tables) -> anyhow::Result<()> {
        let mut admin = PgConnection::connect(&self.admin_url).await?;
        let name = self.database_name(tables);
        admin
            .execute(sqlx::AssertSqlSafe(format!("create database {name}")))
            .await
            .context("the lab needs the right to create databases")?;
        admin.close().await?;
        make_tables(&self.database_url(tables)?, tables).await
    }

    /// For connections made from now on: commits in the scratch databases do not wait for the disk,
    /// which changes nothing in what transactions see of each other; and a statement that waits for
    /// a row ends soon after its client has died, which PostgreSQL would not notice before its turn.
    pub(super) async fn prepare_for_exploring(&self) -> anyhow::Result<()> {
        let mut admin = PgConnection::connect(&self.admin_url).await?;
        for tables in [Tables::Bare, Tables::Guarded] {
            let name = self.database_name(tables);
            for setting in ["synchronous_commit = off", "client_connection_check_interval = '10ms'"]
            {
                let set = format!("alter database {name} set {setting}");
                admin.execute(sqlx::AssertSqlSafe(set)).await?;
            }
        }
        Ok(admin.close().await?)
    }

    fn database_name(&self, tables: Tables) -> String {
        match tables {
            Tables::Bare => format!("{}_bare", self.run),
            Tables::Guarded => format!("{}_guarded", self.run),
        }
    }

    /// The scratch database with these tables.
    ///
    /// # Errors
    /// When the URL of the database is malformed.
    pub fn database_url(&self, tables: Tables) -> anyhow::Result<String> {
        let mut url = url::Url::parse(&self.admin_url)?;
        url.set_path(&self.database_name(tables));
        Ok(url.into())
    }

    /// The same on the stores that a command names.
    ///
    /// # Errors
    /// As [`World::open`], and when a file of certificates is of no use.
    pub async fn on(stores: StoreArgs) -> anyhow::Result<Self> {
        let redis_url = stores.named_redis()?;
        let world = Self::open(stores.database_url, redis_url).await?;
        Ok(Self { key_prefix: stores.redis.key_prefix.to_string(), ..world })
    }

    /// The ordinary Redis.
    pub fn redis_url(&self) -> &str {
        &self.redis_url
    }

    /// A directory that goes with the private servers, also when this process is killed.
    pub(super) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The one ZooKeeper of this run, as `host:port`; started when it is first asked for, for
    /// it takes a second.
    ///
    /// # Errors
    /// When it is not installed, or does not start.
    pub async fn zookeeper(&self) -> Result<String, FaultError> {
        let node = self.zookeeper.get_or_try_init(|| ZooKeeperNode::start_at(self.home())).await?;
        Ok(node.connect_string())
    }

    /// The one MariaDB of this run; started when it is first asked for.
    ///
    /// # Errors
    /// When it is not installed, or does not start.
    pub async fn mariadb(&self) -> Result<&MariaDbNode, FaultError> {
        self.mariadb.get_or_try_init(|| MariaDbNode::start_at(self.home())).await
    }

    /// A range of users, and the beginning of Redis names, that no other cell has.
    pub fn next_cell(&self) -> (i64, String) {
        let cell = self.cells.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        (1 + cell * USERS_PER_CELL, format!("{}{}:{cell}:", self.key_prefix, self.run))
    }

    /// The version of that ZooKeeper, where it was asked for.
    pub async fn zookeeper_version(&self) -> Option<String> {
        self.zookeeper.get()?.version().await
    }

    /// Drops what was made, and stops private servers, with which goes what is on them.
    ///
    /// # Errors
    /// When a server is gone. What can be removed is removed all the same.
    pub async fn close(self) -> anyhow::Result<()> {
        let private =
            |url: fn(&Servers) -> Option<&str>| self.own.as_ref()?.private.as_ref().and_then(url);
        let dropped = match private(Servers::database_url) {
            Some(_) => Ok(()),
            None => self.drop_databases().await,
        };
        // After the databases: a process that was killed a moment ago is gone by now, and writes no key.
        let forgotten = match private(Servers::redis_url) {
            Some(_) => Ok(()),
            None => self.forget_keys().await,
        };
        if let Some(servers) = self.own {
            servers.stop().await?;
        }
        dropped.and(forgotten)
    }

    async fn drop_databases(&self) -> anyhow::Result<()> {
        let mut admin = PgConnection::connect(&self.admin_url).await?;
        for tables in [Tables::Bare, Tables::Guarded] {
            let name = self.database_name(tables);
            let drop = format!("drop database if exists {name} with (force)");
            admin.execute(sqlx::AssertSqlSafe(drop)).await?;
        }
        Ok(admin.close().await?)
    }

    async fn forget_keys(&self) -> anyhow::Result<()> {
        let redis = Redis::new(&self.redis_url)?;
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(format!("*{}*", self.run)).arg("COUNT").arg(1000);
            let (next, keys): (String, Vec<String>) = redis.query(&scan).await?;
            for key in keys {
                redis.query::<()>(redis::cmd("DEL").arg(key)).await?;
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }
}

/// Does `work` in a world of its own, and closes the world whatever comes of it: on servers that
/// were named, scratch databases and keys would stay for ever.
pub(super) async fn in_world<T>(
    stores: StoreArgs,
    work: impl AsyncFnOnce(&World) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let stop = stop::requested(false)?;
    // Not left in the middle: half a world is nobody's to close.
    let world = World::on(stores).await?;
    let done = tokio::select! {
        biased;
        // Its processes are killed by being dropped.
        () = stop => {
            Err(program::Interrupted("everything that was started is being stopped").into())
        }
        done = work(&world) => done,
    };
    let closed = world.close().await.context("the lab could not clean up");
    match (done, closed) {
        (Ok(done), closed) => closed.map(|()| done),
        (Err(error), Ok(())) => Err(error),
        // What went wrong first is the cause, as a rule of the other, too.
        (Err(error), Err(closed)) => Err(error.context(format!("{closed:#}"))),
    }
}

/// Makes the tables in an empty database.
pub(super) async fn make_tables(url: &str, tables: Tables) -> anyhow::Result<()> {
    let database = Database::new(url)?;
    migrate(&database).await?;
    database.pool().execute(LAB_SQL).await?;
    if tables == Tables::Bare {
        database.pool().execute(BARE_SQL).await?;
    }
    database.close().await;
    Ok(())
}

async fn migrate(database: &Database) -> Result<(), MigrationError> {
    let deadline = Instant::now() + MIGRATES_WITHIN;
    loop {
        match database.migrate().await {
            Err(MigrationError::Store(error))
                if error.retry_may_help() && Instant::now() < deadline =>
            {
                sleep(MIGRATES_AGAIN).await;
            }
            migrated => return migrated,
        }
    }
}
