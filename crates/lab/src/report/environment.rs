//! On what a run of the lab ran: without that nobody can repeat it.

use chrono::{DateTime, SubsecRound, Utc};
use serde::Serialize;
use sqlx::{Connection, PgConnection};

use crate::World;
use ladder::Tables;
use redis_link::Redis;
use report::machine;
use seckill::model::{Clock, SystemClock};

/// What is not found out is `None`.
#[derive(Debug, Clone, Serialize)]
pub struct Environment {
    /// When it ran.
    pub date: DateTime<Utc>,
    /// Of the program.
    pub seckill: &'static str,
    /// The commit of the work tree that the program was built in, with a `+` where there are
    /// changes on top of it.
    pub revision: Option<String>,
    /// Processors that the program may use.
    pub cores: Option<usize>,
    /// Of the server.
    pub postgresql: Option<String>,
    /// Of the server.
    pub redis: Option<String>,
    /// Of the server, where one was used.
    pub zookeeper: Option<String>,
}

impl Environment {
    /// Looks.
    pub async fn of(world: &World) -> Self {
        Self {
            date: SystemClock.now().trunc_subsecs(0),
            seckill: env!("CARGO_PKG_VERSION"),
            revision: program::revision(),
            cores: Some(machine::cores()),
            postgresql: postgresql(world).await,
            redis: redis(world).await,
            zookeeper: None,
        }
    }

    /// In words: what a reader of a report wants to know first.
    pub fn parts(&self) -> Vec<String> {
        let version = |name: &str, version: &Option<String>| {
            version.as_ref().map(|version| format!("{name} {version}"))
        };
        let revision = self.revision.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
        let parts = [
            Some(format!("seckill {}{revision}", self.seckill)),
            version("PostgreSQL", &self.postgresql),
            version("Redis", &self.redis),
            version("ZooKeeper", &self.zookeeper),
            self.cores.map(|cores| format!("{cores} core{}", if cores == 1 { "" } else { "s" })),
            Some(self.date.format("%Y-%m-%d %H:%M UTC").to_string()),
        ];
        parts.into_iter().flatten().collect()
    }
}

async fn postgresql(world: &World) -> Option<String> {
    let url = world.database_url(Tables::Guarded).ok()?;
    let mut connection = PgConnection::connect(&url).await.ok()?;
    let version = machine::postgresql(&mut connection, "server_version").await?;
    connection.close().await.ok()?;
    version.split(' ').next().map(str::to_owned)
}

async fn redis(world: &World) -> Option<String> {
    machine::redis(&Redis::new(world.redis_url()).ok()?).await
}
