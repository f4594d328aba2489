//! What is found in PostgreSQL.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{ConnectOptions, Connection};
use tokio::time::{Instant, timeout};

use super::{Finding, disk};
use crate::model::VoucherId;
use crate::store::columns::row;
use crate::store::postgres::CONNECTIONS;
use crate::store::statements::Work;
use crate::store::time_limits::{CONNECTED_WITHIN, CONNECTION_WITHIN};
use crate::store::{self, Database, DatabaseClock, refunds, unmatched_payments};

/// How long one question may take.
const WITHIN: Duration = Duration::from_secs(5);
/// The oldest version that is tested.
const OLDEST_VERSION: i32 = 150_000;
/// How often the clock is asked: the sample with the smallest error counts.
const CLOCK_SAMPLES: usize = 5;
/// A machine whose clock differs by more is not kept in step.
const NOTABLE_OFFSET: TimeDelta = TimeDelta::seconds(1);

/// The server and the role, of one row.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // a row of answers
struct Server {
    version: String,
    version_num: i32,
    encoding: String,
    takes_writes: bool,
    role: String,
    is_superuser: bool,
    may_create: bool,
    tls: Option<String>,
    max_connections: i32,
    connections: i64,
    /// Whether it runs on this machine, as far as addresses tell.
    is_here: bool,
    data_directory: Option<String>,
}

row!(Server: version, version_num, encoding, takes_writes, role, is_superuser, may_create, tls, max_connections,
    connections, is_here, data_directory);

const SERVER: &str = "select current_setting('server_version') as version,
    current_setting('server_version_num')::int as version_num,
    current_setting('server_encoding') as encoding,
    not pg_is_in_recovery() and current_setting('default_transaction_read_only') = 'off' as takes_writes,
    current_user::text as role,
    coalesce((select rolsuper from pg_roles where rolname = current_user), false) as is_superuser,
    coalesce(has_schema_privilege(current_schema(), 'create'), false) as may_create,
    (select version from pg_stat_ssl where pid = pg_backend_pid() and ssl) as tls,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true), '0')::int as max_connections,
    (select coalesce(sum(numbackends), 0) from pg_stat_database)::bigint as connections,
    coalesce(inet_server_addr() = inet_client_addr(), true) as is_here,
    (select setting from pg_settings where name = 'data_directory') as data_directory";

/// What a server does to the tables and sequences, and this role may not do.
const MISSING_RIGHTS: &str = "select t.name || ' (' || p.privilege || ')'
    from unnest($1::text[]) as t(name), unnest(array['select', 'insert', 'update']) as p(privilege)
    where not has_table_privilege(t.name, p.privilege)
    union all
    select s.name || ' (usage, select)' from unnest($2::text[]) as s(name)
    where not (has_sequence_privilege(s.name, 'usage') and has_sequence_privilege(s.name, 'select'))";

/// Sales with a line to which a time was written that is to come: how many, the furthest of them, and that time.
const AHEAD_OF_THE_CLOCK: &str =
    "select count(*), (array_agg(id order by line_time desc))[1], max(line_time)
    from vouchers where line_time > now() + interval '1 minute'";

/// Asks the server at `database`. `clock` is this machine's.
pub async fn look(database: &Database, clock: &DatabaseClock) -> Vec<Finding> {
    // First: it finds out whether there is a pooler, and knows why nothing can be asked.
    let migrated = database.is_migrated().await;
    let ask = sqlx::query_as(SERVER);
    let asked =
        Work::snapshot(WITHIN, database.pool()).run(async |session| ask.fetch_one(session).await);
    let server: Server = match asked.await {
        Ok(server) => server,
        Err(error) => {
            let words = migrated.err().map_or_else(|| error.to_string(), |first| first.to_string());
            return vec![Finding::broken("PostgreSQL", words)];
        }
    };
    let is_migrated = matches!(migrated, Ok(true));
    let rights = match migrated {
        Ok(true) => rights(database).await,
        Ok(false) if server.may_create => {
            Finding::note(RIGHTS, "tables are missing: serve makes them at its start")
        }
        Ok(false) => Finding::broken(
            RIGHTS,
            "tables are missing, and this role may not make them: run seckill migrate as their owner",
        ),
        Err(error) => Finding::broken(RIGHTS, error.to_string()),
    };
    let mut found =
        vec![version(&server), tls(&server), role(&server), rights, connections(&server)];
    let directory = server.data_directory.as_deref().filter(|_| server.is_here);
    if is_migrated {
        found.push(sequences(database).await);
        found.extend(lines(database).await);
    }
    found.extend(directory.and_then(disk::look));
    found.extend([connection(database).await, clock_offset(database, clock).await]);
    found.extend(unmatched(database).await);
    found.extend(partly_returned(database).await);
    found
}

fn version(server: &Server) -> Finding {
    let about = "PostgreSQL";
    let version = &server.version;
    if server.version_num < OLDEST_VERSION {
        return Finding::broken(about, format!("{version}: 15 or later is needed"));
    }
    if !server.takes_writes {
        let words =
            "a standby, or default_transaction_read_only is on: name a server that takes orders";
        return Finding::broken(about, format!("{version}, {words}"));
    }
    if server.encoding != "UTF8" {
        let words = format!("the database's encoding is {}: make one in UTF8", server.encoding);
        return Finding::danger(about, words);
    }
    Finding::fine(about, version)
}

fn tls(server: &Server) -> Finding {
    let about = "PostgreSQL TLS";
    match &server.tls {
        Some(version) => Finding::fine(about, version),
        None if server.is_here => Finding::fine(about, "none: it runs on this machine"),
        None => {
            Finding::note(about, "none: fine on a network of your own, else sslmode=verify-full")
        }
    }
}

fn role(server: &Server) -> Finding {
    let (about, role) = ("PostgreSQL role", &server.role);
    if server.is_superuser {
        let what = "serve as a role that makes no tables (deploy/postgres/roles.sql)";
        return Finding::danger(about, format!("{role} is a superuser: {what}"));
    }
    Finding::fine(about, format!("{role}, no superuser"))
}

const RIGHTS: &str = "PostgreSQL rights";

async fn rights(database: &Database) -> Finding {
    let ask = sqlx::query_scalar(MISSING_RIGHTS).bind(store::names_of("table"));
    let ask = ask.bind(store::names_of("sequence"));
    let asked =
        Work::snapshot(WITHIN, database.pool()).run(async |session| ask.fetch_all(session).await);
    let missing: Result<Vec<String>, _> = asked.await;
    match missing {
        Ok(missing) if missing.is_empty() => Finding::fine(RIGHTS, "all that serve needs"),
        Ok(missing) => {
            let missing = missing.join(", ");
            let words = format!("missing: {missing}; deploy/postgres/roles.sql grants them");
            Finding::broken(RIGHTS, words)
        }
        Err(error) => Finding::broken(RIGHTS, error.to_string()),
    }
}

async fn sequences(database: &Database) -> Finding {
    let about = "PostgreSQL sequences";
    match database.lagging_sequences().await {
        Ok(lagging) if lagging.is_empty() => Finding::fine(about, "ahead of all ids"),
        Ok(lagging) => {
            let words = "the next ids are taken; run seckill migrate";
            Finding::danger(about, format!("{}: {words}", lagging.join(", ")))
        }
        Err(error) => Finding::note(about, error.to_string()),
    }
}

/// The database's clock had jumped forward, and is right again. If this cannot be read now, the finding about rights says so.
async fn lines(database: &Database) -> Option<Finding> {
    let ask = sqlx::query_as(AHEAD_OF_THE_CLOCK);
    let asked =
        Work::snapshot(WITHIN, database.pool()).run(async |session| ask.fetch_one(session).await);
    let (count, furthest, until): (i64, Option<VoucherId>, Option<DateTime<Utc>>) =
        asked.await.ok()?;
    let (furthest, until) = furthest.zip(until)?;
    let words = format!(
        "{count} are ahead of the database's clock, which had jumped; that of voucher {furthest} until {until:?}: a draw \
         whose entries were to close before is closed, so cancel its sale and make it anew; a line alone goes on"
    );
    Some(Finding::danger("draws and lines", words))
}

fn connections(server: &Server) -> Finding {
    let (about, Server { max_connections, connections, .. }) = ("PostgreSQL connections", server);
    let words = format!(
        "{connections} of {max_connections} are taken; each server process takes {CONNECTIONS}"
    );
    if i64::from(*max_connections) - connections < i64::from(CONNECTIONS) {
        let words = format!("{words}: raise max_connections, or put a pooler before PostgreSQL");
        return Finding::danger(about, words);
    }
    Finding::fine(about, words)
}

/// How long a connection of its own takes.
async fn connection(database: &Database) -> Finding {
    let about = "PostgreSQL connection";
    let options = database.pool().connect_options();
    let measured = async {
        let began = Instant::now();
        let mut connection = match options.connect().await {
            Ok(connection) => connection,
            Err(error) => return Finding::broken(about, error.to_string()),
        };
        let ping = async || connection.ping().await;
        Finding::connection(about, began.elapsed(), CONNECTION_WITHIN, ping).await
    };
    let measured = timeout(CONNECTED_WITHIN, measured).await;
    measured.unwrap_or_else(|_| Finding::broken(about, format!("none within {CONNECTED_WITHIN:?}")))
}

/// Money that an administrator has to look at. If it cannot be read now, the findings about rights and
/// tables say so.
async fn unmatched(database: &Database) -> Option<Finding> {
    let count =
        unmatched_payments::count_open(database.pool()).await.ok().filter(|count| *count > 0)?;
    let words = format!("{count} wait for somebody: GET /api/payments/unmatched");
    Some(Finding::note("unmatched payments", words))
}

/// Money that went back in part.
async fn partly_returned(database: &Database) -> Option<Finding> {
    let count =
        refunds::count_partly_returned(database.pool()).await.ok().filter(|count| *count > 0)?;
    let words = format!("a part of {count} went back that nobody had asked for: GET /api/refunds");
    Some(Finding::note("payments", words))
}

async fn clock_offset(database: &Database, clock: &DatabaseClock) -> Finding {
    let about = "clock";
    for _ in 0..CLOCK_SAMPLES {
        let ask = sqlx::query_scalar("select clock_timestamp()");
        let learnt = Work::snapshot(WITHIN, database.pool()).run(async |session| {
            let sent_at = clock.local().now();
            let at: DateTime<Utc> = ask.fetch_one(session).await?;
            clock.learn(sent_at, at);
            Ok(())
        });
        if let Err(error) = learnt.await {
            return Finding::broken(about, error.to_string());
        }
    }
    let Some((offset, error)) = clock.offset() else {
        return Finding::note(about, "this machine's clock was set meanwhile: look again");
    };
    let (offset_s, error_s) = (offset.as_seconds_f64(), error.as_seconds_f64());
    let words = format!(
        "the database's is ahead of this machine's by {offset_s:.3} s, give or take {error_s:.3} s"
    );
    if offset.abs() > NOTABLE_OFFSET {
        let what = "sales go by the database's; run NTP on both";
        return Finding::note(about, format!("{words}: {what}"));
    }
    Finding::fine(about, words)
}
