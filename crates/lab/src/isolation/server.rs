//! The two servers, and the levels of isolation that both have.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;

use super::connection::SqlConnection;

/// A kind of database server.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, strum::Display,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum DatabaseKind {
    /// PostgreSQL.
    Postgres,
    /// MariaDB, with InnoDB.
    #[value(name = "mariadb")]
    #[serde(rename = "mariadb")]
    #[strum(serialize = "mariadb")]
    MariaDb,
}

impl DatabaseKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Postgres, Self::MariaDb];

    /// As its makers write it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::MariaDb => "MariaDB",
        }
    }
}

/// A level of isolation, as the SQL standard calls it. What a server makes of it is the lesson.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, strum::Display,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum IsolationLevel {
    /// The default of PostgreSQL.
    ReadCommitted,
    /// The default of MySQL and MariaDB.
    RepeatableRead,
    /// The strictest.
    Serializable,
}

impl IsolationLevel {
    /// From the weakest to the strictest.
    pub const ALL: [Self; 3] = [Self::ReadCommitted, Self::RepeatableRead, Self::Serializable];

    /// Short, for the head of a column.
    pub(super) const fn short(self) -> &'static str {
        match self {
            Self::ReadCommitted => "RC",
            Self::RepeatableRead => "RR",
            Self::Serializable => "SER",
        }
    }

    /// As SQL has it.
    pub fn sql(self) -> String {
        self.to_string().replace('-', " ")
    }
}

/// A server on which cells are played, each in a scratch database (on PostgreSQL a schema) of its own.
#[derive(Debug)]
pub struct IsolationServer {
    address: Address,
    patience: Duration,
    made: AtomicU32,
}

#[derive(Debug)]
enum Address {
    Postgres { url: String },
    MariaDb { socket: PathBuf },
}

impl IsolationServer {
    /// How long a whole cell may take before its outcome is unknown. Not a bound on how fast a
    /// server is: a cell takes a tenth of a second, one that waits for a lock a second.
    pub const PATIENCE: Duration = Duration::from_secs(30);

    /// A PostgreSQL: the lab's own database there.
    pub fn postgres(url: String) -> Self {
        Self::new(Address::Postgres { url })
    }

    /// A MariaDB.
    pub fn mariadb(socket: PathBuf) -> Self {
        Self::new(Address::MariaDb { socket })
    }

    fn new(address: Address) -> Self {
        Self { address, patience: Self::PATIENCE, made: AtomicU32::new(0) }
    }

    /// The same, given up after another time.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// What it is.
    pub fn kind(&self) -> DatabaseKind {
        match self.address {
            Address::Postgres { .. } => DatabaseKind::Postgres,
            Address::MariaDb { .. } => DatabaseKind::MariaDb,
        }
    }

    /// A connection, in `database` where one is named.
    pub(super) async fn connect(&self, database: Option<&str>) -> anyhow::Result<SqlConnection> {
        let connected = match &self.address {
            Address::Postgres { url } => SqlConnection::postgres(url, database).await,
            Address::MariaDb { socket } => SqlConnection::mariadb(socket, database).await,
        };
        connected.with_context(|| format!("{} does not answer", self.kind().title()))
    }

    /// A scratch database, which nobody has had before; its name.
    pub(super) async fn make_database(&self) -> anyhow::Result<String> {
        let name = format!("isolation_{}", self.made.fetch_add(1, Ordering::Relaxed));
        let what = match self.kind() {
            DatabaseKind::Postgres => "schema",
            DatabaseKind::MariaDb => "database",
        };
        let mut connection = self.connect(None).await?;
        connection.must(&format!("create {what} {name}")).await?;
        connection.close().await;
        Ok(name)
    }
}
