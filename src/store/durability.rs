//! Whether the database keeps what it acknowledges. A server that runs with `fsync` or
//! `full_page_writes` off loses or breaks orders when its machine crashes, so every new connection asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use sqlx::PgConnection;

use crate::telemetry;

/// Asks, and sees to it that our transactions are durable whatever the default of the role or the
/// database is. A default that is stricter than `local` stays.
const ASK: &str = "select current_setting('fsync'), current_setting('full_page_writes'),
    set_config('synchronous_commit', case when current_setting('synchronous_commit') = 'off'
        then 'on' else current_setting('synchronous_commit') end, false)";

/// What is known of the database's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// No connection was made yet.
    Unknown,
    /// A crash of the server loses nothing that was acknowledged.
    Durable,
    /// `fsync` or `full_page_writes` is off.
    Unsafe,
}

impl Durability {
    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Durable => "durable",
            Self::Unsafe => "unsafe: fsync or full_page_writes is off",
        }
    }
}

/// What the newest connection was told. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct DurabilityCheck(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_required: AtomicBool,
    found: AtomicU8,
}

impl DurabilityCheck {
    /// From now on a connection to an unsafe server is refused.
    pub(super) fn require(&self) {
        self.0.is_required.store(true, Ordering::Relaxed);
    }

    pub(super) fn found(&self) -> Durability {
        match self.0.found.load(Ordering::Relaxed) {
            0 => Durability::Unknown,
            1 => Durability::Durable,
            _ => Durability::Unsafe,
        }
    }

    /// Asks the server of a new connection. Logs each change.
    pub(super) async fn ask(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let (fsync, full_page_writes, _): (String, String, String) =
            sqlx::query_as(ASK).fetch_one(connection).await?;
        let is_durable = fsync == "on" && full_page_writes == "on";
        telemetry::database_durable(is_durable);
        let found = if is_durable { 1 } else { 2 };
        if self.0.found.swap(found, Ordering::Relaxed) != found && !is_durable {
            tracing::warn!(
                fsync,
                full_page_writes,
                "the database is not durable: a crash of its machine can lose acknowledged orders"
            );
        }
        if !is_durable && self.0.is_required.load(Ordering::Relaxed) {
            return Err(sqlx::Error::Configuration(REFUSED.into()));
        }
        Ok(())
    }
}

const REFUSED: &str = "the database is not durable (fsync or full_page_writes is off), and \
                       --require-durable is given";
