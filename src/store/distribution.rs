//! Spreads the data over the workers of Citus, once (`seckill migrate --distribute`, docs/scaling.md).
//!
//! All that belongs to one voucher is distributed by its id and lies together on one worker: the voucher,
//! its sale, its orders, their payments and refunds. A purchase is one call of `sell`, which runs there as a whole. The
//! users are a reference table, a copy on every server: a phone is unique among all of them, which no
//! distributed table can promise but of its distribution column, and an audit joins them to the orders
//! of every shard. The list of migrations stays on the coordinator, where the workers can read it: a node
//! may use any server of Citus as its coordinator.

use sqlx::{Connection, PgConnection, PgExecutor, PgPool};

use super::StoreError;
use super::migrations::names_of;
use super::statements::in_time;

/// What became of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// It is distributed now, over so many workers.
    Done {
        /// Active workers.
        workers: i64,
    },
    /// It was distributed before.
    Already,
}

/// The data is not distributed.
#[derive(Debug, thiserror::Error)]
pub enum DistributionError {
    /// The database is not prepared: how to do that.
    #[error("the data cannot be distributed: {0}")]
    NotPrepared(String),
    /// The database did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for DistributionError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

fn not_prepared(how: &str) -> DistributionError {
    DistributionError::NotPrepared(how.to_owned())
}

const COPIED_TO_EACH: &str = "select create_reference_table($1::regclass)";
const BY_ITS_ID: &str =
    "select create_distributed_table($1::regclass, 'id', colocate_with := 'none')";
const BESIDE_ITS_VOUCHER: &str =
    "select create_distributed_table($1::regclass, 'voucher_id', colocate_with := 'vouchers')";
const READ_BY_WORKERS: &str = "select citus_add_local_table_to_metadata($1::regclass)";

/// Each table and its statement. One at a time: a later one refers to those before it.
const TABLES: [(&str, &str); 14] = [
    ("users", COPIED_TO_EACH),
    ("vouchers", BY_ITS_ID),
    ("seckill_vouchers", BESIDE_ITS_VOUCHER),
    ("orders", BESIDE_ITS_VOUCHER),
    ("payments", BESIDE_ITS_VOUCHER),
    ("refunds", BESIDE_ITS_VOUCHER),
    ("entries", BESIDE_ITS_VOUCHER),
    ("order_steps", BESIDE_ITS_VOUCHER),
    ("voucher_steps", BESIDE_ITS_VOUCHER),
    ("returns", BESIDE_ITS_VOUCHER),
    ("messages", BESIDE_ITS_VOUCHER),
    ("unmatched_payments", COPIED_TO_EACH),
    ("event_horizon", READ_BY_WORKERS),
    ("_sqlx_migrations", READ_BY_WORKERS),
];

/// The rows from before the distribution stay in the local table, where no query sees them.
const REMOVE_LEFT_BEHIND: &str =
    "select truncate_local_data_after_distributing_table($1::regclass)";

/// The functions of these names, in the order in which they were made: some name others. Those of a voucher that the
/// server calls, which are those with settings, run on the worker that has the voucher; the others run where they are called,
/// and so are on every server. So does `lock_sale`, whose time-out is for the statements after it.
const FUNCTIONS: &str = "
    select f.oid::regprocedure::text,
           coalesce(f.proargnames[1] = 'voucher' and f.proconfig is not null and f.proname <> 'lock_sale', false)
    from pg_proc f
    where f.proname = any ($1) and f.pronamespace = (select pronamespace from pg_proc where oid = 'lock_sale'::regproc)
    order by f.oid";
const DISTRIBUTE: &str = "select create_distributed_function($1::regprocedure)";
const DISTRIBUTE_BY_VOUCHER: &str =
    "select create_distributed_function($1::regprocedure, 'voucher', colocate_with := 'orders')";

/// A unique index of a distributed table has to contain the voucher. So the same money may be applied to orders of two
/// vouchers, if the gateway says so; `seckill audit` over all vouchers finds it. A plan that is kept for all arguments
/// cannot find the worker of a voucher.
const CHANGES: &str = "
    alter function sell(bigint, bigint[], bigint[], timestamptz[]) reset plan_cache_mode;
    drop index if exists payments_one_per_transaction;
    create unique index payments_one_per_transaction on payments (transaction_id, voucher_id)
    where transaction_id is not null";

const IS_DISTRIBUTED: &str =
    "select exists (select from pg_dist_partition where logicalrelid = $1::regclass)";
/// A function that takes a voucher is distributed by it; an inner one is only there.
const IS_FUNCTION_DISTRIBUTED: &str = "select exists (
    select from pg_catalog.pg_dist_object
    where classid = 'pg_proc'::regclass and objid = $1::regprocedure
      and (distribution_argument_index is not null or $2))";

/// Whether the orders are distributed over the workers of Citus.
pub async fn has_distributed_orders(pool: &PgPool) -> Result<bool, StoreError> {
    let has_citus = "select exists (select from pg_extension where extname = 'citus')";
    in_time(pool, async |session| {
        Ok(sqlx::query_scalar(has_citus).fetch_one(&mut *session).await?
            && is_distributed(session, "orders").await?)
    })
    .await
}

/// Distributes what is not distributed yet, all of it or nothing, and empties what that left behind.
pub(super) async fn run(connection: &mut PgConnection) -> Result<Distribution, DistributionError> {
    sqlx::raw_sql("set statement_timeout = 0; set idle_in_transaction_session_timeout = 0")
        .execute(&mut *connection)
        .await?;
    let workers = prepared_workers(connection).await?;
    let mut transaction = connection.begin().await?;
    // Of two at once the second finds nothing to do.
    sqlx::query("select pg_advisory_xact_lock(hashtext('seckill migrate --distribute'))")
        .execute(&mut *transaction)
        .await?;
    // It gives way, so that it does not hold up everybody behind a long transaction.
    sqlx::query("set local lock_timeout = '5s'").execute(&mut *transaction).await?;
    // One connection to each worker: foreign keys to a reference table ask for that.
    sqlx::query("set local citus.multi_shard_modify_mode = 'sequential'")
        .execute(&mut *transaction)
        .await?;
    let mut has_tables = false;
    let mut has_functions = false;
    if !is_distributed(&mut *transaction, "payments").await? {
        sqlx::raw_sql(CHANGES).execute(&mut *transaction).await?;
    }
    for (table, statement) in TABLES {
        if !is_distributed(&mut *transaction, table).await? {
            sqlx::query(statement).bind(table).execute(&mut *transaction).await?;
            has_tables = true;
        }
    }
    let functions: Vec<(String, bool)> =
        sqlx::query_as(FUNCTIONS).bind(names_of("function")).fetch_all(&mut *transaction).await?;
    for (function, is_of_a_voucher) in functions {
        let there = sqlx::query_scalar(IS_FUNCTION_DISTRIBUTED).bind(&function);
        if !there.bind(!is_of_a_voucher).fetch_one(&mut *transaction).await? {
            has_functions = true;
            let distribute = if is_of_a_voucher { DISTRIBUTE_BY_VOUCHER } else { DISTRIBUTE };
            sqlx::query(distribute).bind(function).execute(&mut *transaction).await?;
        }
    }
    transaction.commit().await?;
    // Every time: the one before may have been broken off here. Those that refer to others come first.
    for (table, statement) in TABLES.into_iter().rev() {
        if [BY_ITS_ID, BESIDE_ITS_VOUCHER].contains(&statement) {
            sqlx::query(REMOVE_LEFT_BEHIND).bind(table).execute(&mut *connection).await?;
        }
    }
    Ok(if has_tables || has_functions {
        Distribution::Done { workers }
    } else {
        Distribution::Already
    })
}

async fn is_distributed<'c>(server: impl PgExecutor<'c>, table: &str) -> sqlx::Result<bool> {
    sqlx::query_scalar(IS_DISTRIBUTED).bind(table).fetch_one(server).await
}

/// How many workers there are, of a database that is prepared for distributed data.
async fn prepared_workers(connection: &mut PgConnection) -> Result<i64, DistributionError> {
    let available = "select exists (select from pg_available_extensions where name = 'citus')";
    if !sqlx::query_scalar::<_, bool>(available).fetch_one(&mut *connection).await? {
        return Err(not_prepared(
            "the database server has no extension citus; install Citus on it and on its workers",
        ));
    }
    if let Err(error) =
        sqlx::query("create extension if not exists citus").execute(&mut *connection).await
    {
        // It says what is missing: a superuser, or shared_preload_libraries.
        let answer = error.as_database_error().map(|answer| answer.message().to_owned());
        return Err(match answer {
            Some(answer) => {
                not_prepared(&format!("the extension citus cannot be created: {answer}"))
            }
            None => error.into(),
        });
    }
    let wal_level: String = sqlx::query_scalar("select current_setting('wal_level')")
        .fetch_one(&mut *connection)
        .await?;
    if wal_level != "logical" {
        return Err(not_prepared(&format!(
            "wal_level is {wal_level}; set it to logical on every server, without it no shard moves \
             while its vouchers sell"
        )));
    }
    let workers = sqlx::query_scalar("select count(*) from citus_get_active_worker_nodes()");
    let workers: i64 = workers.fetch_one(&mut *connection).await?;
    if workers == 0 {
        return Err(not_prepared(
            "there is no active worker; name the coordinator with citus_set_coordinator_host(host, port), \
             then add workers with citus_add_node(host, port)",
        ));
    }
    if !sqlx::query_scalar::<_, bool>("select citus_is_coordinator()")
        .fetch_one(&mut *connection)
        .await?
    {
        return Err(not_prepared("this server is a worker; connect to the coordinator"));
    }
    let otherwise = sqlx::query_scalar::<_, i64>(
        "select count(*) from run_command_on_workers('show wal_level')
         where not success or result <> 'logical'",
    );
    if otherwise.fetch_one(&mut *connection).await? > 0 {
        return Err(not_prepared("a worker does not answer, or its wal_level is not logical"));
    }
    Ok(workers)
}
