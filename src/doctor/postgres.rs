//! What is found in PostgreSQL.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use sqlx::{ConnectOptions, Connection};
use tokio::time::{Instant, timeout};

use super::finding::{ROUND_TRIPS, SLOW_ROUND_TRIP};
use super::{Finding, disk};
use crate::store::postgres::CONNECTIONS;
use crate::store::statements::Work;
use crate::store::time_limits::CONNECTED_WITHIN;
use crate::store::time_limits::CONNECTION_WITHIN;
use crate::store::{Database, DatabaseClock, MigrationError, Service, StoreError};
use crate::store::{order_steps, refunds};

/// How long one question may take.
const WITHIN: Duration = Duration::from_secs(5);
/// The oldest version that is tested.
const OLDEST_VERSION: i32 = 150_000;
/// How often the clock is asked: the sample with the smallest error counts.
const CLOCK_SAMPLES: usize = 5;
/// A refund that waits for longer is one that the gateway may never take.
const LONGEST_REFUND: TimeDelta = TimeDelta::hours(1);
/// A transaction that is open for longer is worth a look; beyond the second, vacuum is far behind.
const LONG_TRANSACTION: Duration = Duration::from_secs(60);
const ENDLESS_TRANSACTION: Duration = Duration::from_secs(3600);
/// A machine whose clock differs by more is not kept in step.
const NOTABLE_OFFSET: TimeDelta = TimeDelta::seconds(1);

/// The settings of the server and of the role, of one row.
#[derive(Debug, Deserialize)]
#[allow(clippy::struct_excessive_bools)] // a row of answers
struct Settings {
    version: String,
    version_num: i32,
    role: String,
    is_superuser: bool,
    is_standby: bool,
    is_read_only: bool,
    may_create: bool,
    tls: Option<String>,
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    role_isolation: Option<String>,
    max_connections: i32,
    connections: i64,
    idle_timeout: Option<String>,
    citus: Option<String>,
    encoding: String,
    /// Whether it runs on this machine, as far as addresses tell.
    is_here: bool,
    data_directory: Option<String>,
    /// How long the oldest transaction of this database is open, in seconds, and the process that has it.
    oldest_s: Option<f64>,
    oldest_pid: Option<i32>,
}

const SETTINGS: &str =
    "select row_to_json(settings)::text from (select current_setting('server_version') as version,
    current_setting('server_version_num')::int as version_num,
    current_user::text as role,
    coalesce((select rolsuper from pg_roles where rolname = current_user), false) as is_superuser,
    pg_is_in_recovery() as is_standby,
    current_setting('default_transaction_read_only') = 'on' as is_read_only,
    coalesce(has_schema_privilege(current_schema(), 'create'), false) as may_create,
    (select version from pg_stat_ssl where pid = pg_backend_pid() and ssl) as tls,
    current_setting('fsync') as fsync,
    current_setting('full_page_writes') as full_page_writes,
    (select reset_val from pg_settings where name = 'synchronous_commit') as synchronous_commit,
    (select substring(setting from '=(.*)')
     from pg_db_role_setting s, unnest(s.setconfig) as setting
     where setting like 'default_transaction_isolation=%'
       and s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
       and s.setrole in (0, (select oid from pg_roles where rolname = current_user))
     order by s.setrole desc, s.setdatabase desc limit 1) as role_isolation,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true), '0')::int as max_connections,
    (select coalesce(sum(numbackends), 0) from pg_stat_database)::bigint as connections,
    nullif(current_setting('idle_session_timeout', true), '0') as idle_timeout,
    (select extversion from pg_extension where extname = 'citus') as citus,
    current_setting('server_encoding') as encoding,
    coalesce(inet_server_addr() = inet_client_addr(), true) as is_here,
    (select setting from pg_settings where name = 'data_directory') as data_directory,
    oldest.s as oldest_s, oldest.pid as oldest_pid
    from (select 1) one left join (
      select extract(epoch from clock_timestamp() - xact_start)::float8 as s, pid from pg_stat_activity
      where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()
        and backend_type = 'client backend'
      order by xact_start limit 1) oldest on true) as settings";

/// What a server does to the tables.
const RIGHTS: &str = "select t.name || ' (' || p.privilege || ')'
    from unnest(array['users', 'vouchers', 'seckill_vouchers', 'orders', 'payments', 'refunds',
                      'unmatched_payments', 'order_steps', 'early_returns', 'payment_cancellations']) as t(name),
         unnest(array['select', 'insert', 'update']) as p(privilege)
    where not has_table_privilege(t.name, p.privilege)";

/// Asks the server at `database`, which may be a private one, for development. `clock` is this machine's.
pub async fn look(database: &Database, clock: &DatabaseClock, is_private: bool) -> Vec<Finding> {
    let migrated = database.is_migrated().await;
    let settings = match settings(database).await {
        Ok(settings) => settings,
        // What was asked first knows why nothing can be asked.
        Err(error) => {
            let words = migrated.err().map_or_else(|| error.to_string(), |first| first.to_string());
            return vec![Finding::broken("PostgreSQL", words)];
        }
    };
    let mut found = of_settings(&settings, is_private);
    if database.is_behind_pooler() {
        found.push(pooler(database).await);
    }
    found.push(connection(database).await);
    found.push(of_migrations(&migrated, &settings));
    if matches!(migrated, Ok(true)) {
        found.push(rights(database).await);
        found.push(clock_offset(database, clock).await);
        found.push(refunds(database).await);
    }
    found
}

async fn settings(database: &Database) -> Result<Settings, StoreError> {
    let ask = sqlx::query_scalar(SETTINGS);
    let row: String = Work::snapshot(WITHIN, database.pool())
        .run(async |session| ask.fetch_one(session).await)
        .await?;
    serde_json::from_str(&row)
        .map_err(|error| StoreError::defect(Service::Postgres, error.to_string()))
}

fn of_settings(settings: &Settings, is_private: bool) -> Vec<Finding> {
    let mut found = vec![version(settings), topology(settings)];
    if !is_private {
        found.extend([tls(settings), role(settings)]);
    }
    found.push(durability(settings));
    found.push(isolation(settings));
    found.push(connections(settings));
    found.push(transactions(settings.oldest_s.zip(settings.oldest_pid)));
    let directory = settings.data_directory.as_deref().filter(|_| settings.is_here);
    found.extend(directory.and_then(disk::look));
    if let Some(timeout) = &settings.idle_timeout {
        let words = format!("the server ends idle sessions after {timeout} ms: they are made anew");
        found.push(Finding::note("PostgreSQL idle time", words));
    }
    found
}

fn version(settings: &Settings) -> Finding {
    let about = "PostgreSQL";
    if settings.version_num < OLDEST_VERSION {
        return Finding::broken(about, format!("{}: 15 or later is needed", settings.version));
    }
    if settings.encoding != "UTF8" {
        let words = format!("the database's encoding is {}: make one in UTF8", settings.encoding);
        return Finding::danger(about, words);
    }
    Finding::fine(about, settings.version.clone())
}

fn topology(settings: &Settings) -> Finding {
    let about = "PostgreSQL topology";
    if settings.is_standby {
        return Finding::broken(about, "a standby, which takes no orders: name the primary");
    }
    if settings.is_read_only {
        return Finding::broken(
            about,
            "default_transaction_read_only is on: buyers hear 503 until it is off",
        );
    }
    match &settings.citus {
        Some(version) => Finding::fine(about, format!("a coordinator of Citus {version}")),
        None => Finding::fine(about, "one primary"),
    }
}

fn tls(settings: &Settings) -> Finding {
    match &settings.tls {
        Some(version) => Finding::fine("PostgreSQL TLS", version.clone()),
        None if settings.is_here => {
            Finding::fine("PostgreSQL TLS", "none: it runs on this machine")
        }
        None => Finding::note(
            "PostgreSQL TLS",
            "none: fine on a network of your own, else sslmode=verify-full",
        ),
    }
}

fn role(settings: &Settings) -> Finding {
    let role = &settings.role;
    if settings.is_superuser {
        let words = format!(
            "{role} is a superuser: serve as a role that makes no tables (deploy/postgres/roles.sql)"
        );
        return Finding::danger("PostgreSQL role", words);
    }
    Finding::fine("PostgreSQL role", format!("{role}, no superuser"))
}

fn durability(settings: &Settings) -> Finding {
    let about = "PostgreSQL durability";
    if settings.fsync != "on" || settings.full_page_writes != "on" {
        return Finding::danger(
            about,
            "fsync or full_page_writes is off: a crash of the machine loses orders; switch both on",
        );
    }
    if settings.synchronous_commit == "off" {
        return Finding::fine(about, "fsync is on; synchronous_commit is off and set to on by us");
    }
    let words = format!("fsync is on, synchronous_commit is {}", settings.synchronous_commit);
    Finding::fine(about, words)
}

fn isolation(settings: &Settings) -> Finding {
    let about = "PostgreSQL isolation";
    match settings.role_isolation.as_deref() {
        None | Some("read committed") => Finding::fine(about, "read committed"),
        Some(other) => {
            Finding::fine(about, format!("{other} by default, set to read committed by us"))
        }
    }
}

fn connections(settings: &Settings) -> Finding {
    let Settings { max_connections, connections, .. } = settings;
    let words = format!(
        "{connections} of {max_connections} are taken; each server process takes {CONNECTIONS}"
    );
    if i64::from(*max_connections) - connections < i64::from(CONNECTIONS) {
        let words = format!("{words}: raise max_connections, or put a pooler before PostgreSQL");
        return Finding::danger("PostgreSQL connections", words);
    }
    Finding::fine("PostgreSQL connections", words)
}

/// A transaction that stays open keeps vacuum from the hot rows, and buyers from what it has locked.
fn transactions(oldest: Option<(f64, i32)>) -> Finding {
    let about = "oldest transaction";
    let Some((seconds, pid)) = oldest else {
        return Finding::fine(about, "none is open, of those that this role may see");
    };
    let words = format!("the oldest is open for {seconds:.0} s (process {pid})");
    let what =
        "vacuum waits for it, and buyers for what it has locked: pg_terminate_backend ends it";
    match Duration::from_secs_f64(seconds.max(0.0)) {
        open if open >= ENDLESS_TRANSACTION => Finding::danger(about, format!("{words}: {what}")),
        open if open >= LONG_TRANSACTION => Finding::note(about, format!("{words}: {what}")),
        _ => Finding::fine(about, words),
    }
}

/// How long a connection of its own takes, and the shortest of a few round trips on it.
async fn connection(database: &Database) -> Finding {
    let about = "PostgreSQL connection";
    let options = database.pool().connect_options();
    let measured = async {
        let began = Instant::now();
        let mut connection = options.connect().await?;
        let (connected, mut shortest) = (began.elapsed(), Duration::MAX);
        for _ in 0..ROUND_TRIPS {
            let sent_at = Instant::now();
            connection.ping().await?;
            shortest = shortest.min(sent_at.elapsed());
        }
        connection.close().await?;
        Ok::<_, sqlx::Error>((connected, shortest))
    };
    match timeout(CONNECTED_WITHIN, measured).await {
        Ok(Ok(times)) => Finding::connection(about, times, (CONNECTION_WITHIN, SLOW_ROUND_TRIP)),
        Ok(Err(error)) => Finding::broken(about, error.to_string()),
        Err(_) => Finding::broken(about, format!("none was made within {CONNECTED_WITHIN:?}")),
    }
}

async fn pooler(database: &Database) -> Finding {
    let about = "PostgreSQL pooler";
    if database.has_all_connections().await {
        return Finding::fine(about, "there is one: each piece of work is a transaction");
    }
    let words = format!(
        "it does not give each of the {CONNECTIONS} connections of a server a session: let it pool by transaction"
    );
    Finding::broken(about, words)
}

fn of_migrations(migrated: &Result<bool, MigrationError>, settings: &Settings) -> Finding {
    let about = "migrations";
    match migrated {
        Ok(true) => Finding::fine(about, "all applied"),
        Ok(false) if settings.may_create => {
            Finding::note(about, "some are missing: serve applies them at its start")
        }
        Ok(false) => Finding::broken(
            about,
            "some are missing, and this role may not make tables: run seckill migrate as their owner",
        ),
        Err(error) => Finding::broken(about, error.to_string()),
    }
}

async fn rights(database: &Database) -> Finding {
    let about = "PostgreSQL rights";
    let ask = sqlx::query_scalar(RIGHTS);
    let missing: Result<Vec<String>, _> = Work::snapshot(WITHIN, database.pool())
        .run(async |session| ask.fetch_all(session).await)
        .await;
    match missing {
        Ok(missing) if missing.is_empty() => Finding::fine(about, "all that serve needs"),
        Ok(missing) => {
            let missing = missing.join(", ");
            Finding::broken(
                about,
                format!("missing: {missing}; deploy/postgres/roles.sql grants them"),
            )
        }
        Err(error) => Finding::broken(about, error.to_string()),
    }
}

/// Whether money waits to be given back, for how long.
async fn refunds(database: &Database) -> Finding {
    let about = "refunds";
    let pool = database.pool();
    let asked = async {
        let (now, count) = (order_steps::time(pool).await?, refunds::count_waiting(pool).await?);
        Ok::<_, StoreError>((now, count, refunds::oldest_waiting(pool).await?))
    };
    match asked.await {
        Ok((now, count, Some(oldest))) if now - oldest > LONGEST_REFUND => {
            let minutes = (now - oldest).num_minutes();
            let words = format!(
                "{count} wait, the oldest for {minutes} minutes: GET /api/refunds says what the gateway answers; \
                 seckill orders settle ends one that it will never take"
            );
            Finding::danger(about, words)
        }
        Ok((_, 0, _)) => Finding::fine(about, "none waits"),
        Ok((_, count, _)) => Finding::fine(about, format!("{count} wait, none for an hour")),
        Err(error) => Finding::broken(about, error.to_string()),
    }
}

async fn clock_offset(database: &Database, clock: &DatabaseClock) -> Finding {
    let about = "clock";
    for _ in 0..CLOCK_SAMPLES {
        let ask = sqlx::query_scalar("select clock_timestamp()");
        let asked = Work::snapshot(WITHIN, database.pool()).run(async |session| {
            let sent_at = clock.local().now();
            let at: DateTime<Utc> = ask.fetch_one(session).await?;
            clock.learn(sent_at, at);
            Ok(())
        });
        if let Err(error) = asked.await {
            return Finding::broken(about, error.to_string());
        }
    }
    let Some((offset, error)) = clock.offset() else {
        return Finding::note(about, "this machine's clock was set meanwhile: look again");
    };
    let words = format!(
        "the database's is ahead of this machine's by {:.3} s, give or take {:.3} s",
        offset.as_seconds_f64(),
        error.as_seconds_f64()
    );
    if offset.abs() > NOTABLE_OFFSET {
        return Finding::note(
            about,
            format!("{words}: sales go by the database's; run NTP on both"),
        );
    }
    Finding::fine(about, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;

    #[test]
    fn a_transaction_is_notable_after_a_minute_and_a_danger_after_an_hour() {
        let level = |seconds| transactions(Some((seconds, 1))).level;
        assert_eq!([level(0.0), level(59.9)], [Level::Fine; 2]);
        assert_eq!([level(60.0), level(3599.9)], [Level::Note; 2]);
        assert_eq!(level(3600.0), Level::Danger);
        assert_eq!(transactions(None).level, Level::Fine);
    }
}
