//! What PostgreSQL can do: `pgbench`, its own client, with the statements that sell.
//!
//! In tables of their own, made like the service's and emptied before each measurement: a
//! ceiling must neither slow down with all that was sold before it, nor leave orders in the
//! books that nobody placed.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::process::Command;
use url::Url;

use super::child::output_of;
use super::figures::Figure;
use seckill::store::Database;

/// The statement that sells, one order at a time.
const HOT_ROW: &str = include_str!("../../../../loadtest/pgbench/hot_row.sql");
/// The call that sells many at once.
const BATCH: &str = include_str!("../../../../loadtest/pgbench/batch.sql");
/// Orders in such a call: as many as 256 buyers bring about, less those who are answered.
pub(super) const BATCH_ORDERS: u64 = 100;

/// Of its own, so that nothing of it can be mistaken for the service's.
const SCHEMA: &str = "seckill_ceiling";
/// Never sold out.
const STOCK: i64 = 2_000_000_000;
/// What pgbench needs beside the time it measures: connecting, and the last transactions.
const GRACE: Duration = Duration::from_secs(60);

/// PostgreSQL, and who measures it.
#[derive(Debug)]
pub(super) struct Pgbench {
    program: PathBuf,
    /// Without a password: whoever may list processes reads it.
    url: String,
    password: Option<String>,
    database: Database,
}

impl Pgbench {
    /// Makes the tables.
    pub(super) async fn prepare(
        program: PathBuf,
        database_url: &str,
        database: Database,
    ) -> anyhow::Result<Self> {
        let (url, password) = without_password(database_url)?;
        let pgbench = Self { program, url, password, database };
        let options: String = sqlx::query_scalar(
            "select coalesce('with (' || array_to_string(reloptions, ', ') || ')', '')
             from pg_class where oid = 'seckill_vouchers'::regclass",
        )
        .fetch_one(pgbench.database.pool())
        .await?;
        // One that was interrupted may have left its own.
        pgbench
            .run(&format!(
                "drop schema if exists {SCHEMA} cascade;
                 create schema {SCHEMA};
                 create table {SCHEMA}.seckill_vouchers
                   (like seckill_vouchers including all) {options};
                 create table {SCHEMA}.orders (like orders including all);
                 -- The cache keeps their cost out of the ceiling.
                 create sequence {SCHEMA}.pgbench_order_id cache 1000;
                 create sequence {SCHEMA}.pgbench_user_id cache 1000"
            ))
            .await
            .context("cannot make the tables for pgbench")?;
        Ok(pgbench)
    }

    /// Removes the tables.
    pub(super) async fn clean_up(&self) -> anyhow::Result<()> {
        self.run(&format!("drop schema {SCHEMA} cascade")).await
    }

    /// Orders a second, one a transaction.
    pub(super) async fn hot_row(&self, clients: u32, lasting: Duration) -> anyhow::Result<Figure> {
        self.measure(HOT_ROW, 1, clients, lasting).await
    }

    /// Orders a second, [`BATCH_ORDERS`] a transaction.
    pub(super) async fn batches(&self, clients: u32, lasting: Duration) -> anyhow::Result<Figure> {
        self.measure(BATCH, BATCH_ORDERS, clients, lasting).await
    }

    async fn measure(
        &self,
        script: &str,
        orders: u64,
        clients: u32,
        lasting: Duration,
    ) -> anyhow::Result<Figure> {
        self.begin_sale().await?;
        settle(&self.database).await;
        // It knows whole seconds only.
        let seconds = lasting.as_millis().div_ceil(1000).max(1) as u64;
        let mut command = Command::new(&self.program);
        command
            // Prepared, which is PostgreSQL's best: a ceiling should be one.
            .args(["--no-vacuum", "--file", "-", "--protocol", "prepared"])
            .args(["--client", &clients.to_string(), "--jobs", &clients.min(2).to_string()])
            .args(["--time", &seconds.to_string()])
            .args(["--define", "voucher=1", "--define", &format!("orders={orders}")])
            .arg(&self.url)
            .env("PGOPTIONS", format!("-c search_path={SCHEMA},public"));
        if let Some(password) = &self.password {
            command.env("PGPASSWORD", password);
        }
        let report = output_of(command, script, Duration::from_secs(seconds) + GRACE).await?;
        let said =
            PgbenchOutput::read(&report).with_context(|| format!("pgbench said: {report}"))?;
        let (stored, taken) = self.books().await?;
        let claimed = said.transactions * orders;
        ensure!(
            said.failed == 0 && stored == claimed && taken == claimed,
            "pgbench claims {claimed} orders ({} transactions failed), but there are {stored}, \
             and {taken} were taken from the stock",
            said.failed
        );
        Ok(Figure::of(said.per_s * orders as f64)
            .counting("transactions", said.transactions)
            .counting("orders_a_transaction", orders))
    }

    async fn begin_sale(&self) -> anyhow::Result<()> {
        self.run(&format!(
            "truncate {SCHEMA}.orders, {SCHEMA}.seckill_vouchers;
             insert into {SCHEMA}.seckill_vouchers
               (voucher_id, initial_stock, stock, begin_time, end_time)
             values (1, {STOCK}, {STOCK}, now(), now() + interval '1 day');
             analyze {SCHEMA}.seckill_vouchers"
        ))
        .await
    }

    /// Orders written, and vouchers taken from the stock.
    async fn books(&self) -> anyhow::Result<(u64, u64)> {
        let (stored, taken): (i64, i64) = sqlx::query_as(
            "select (select count(*) from seckill_ceiling.orders),
                    (select initial_stock::bigint - stock from seckill_ceiling.seckill_vouchers)",
        )
        .fetch_one(self.database.pool())
        .await?;
        Ok((stored.unsigned_abs(), taken.unsigned_abs()))
    }

    async fn run(&self, statements: &str) -> anyhow::Result<()> {
        let statements = sqlx::AssertSqlSafe(statements.to_owned());
        sqlx::raw_sql(statements).execute(self.database.pool()).await?;
        Ok(())
    }
}

/// What one measurement leaves for the checkpointer must not be paid by the next. Not every user
/// of a database may do that; then the rounds have to even it out.
pub(super) async fn settle(database: &Database) {
    let _ = sqlx::query("checkpoint").execute(database.pool()).await;
}

/// The password apart, because what a program is started with everybody may read.
fn without_password(url: &str) -> anyhow::Result<(String, Option<String>)> {
    let mut url = Url::parse(url).context("the URL of the database")?;
    // Decoded as a form is, in which these two mean something else.
    let password = url.password().map(|encoded| {
        let form = format!("p={}", encoded.replace('+', "%2B").replace('&', "%26"));
        url::form_urlencoded::parse(form.as_bytes())
            .map(|(_, value)| value.into_owned())
            .collect::<String>()
    });
    url.set_password(None).ok().context("the URL of the database has no host")?;
    Ok((url.into(), password))
}

/// What pgbench reports.
#[derive(Debug, PartialEq)]
struct PgbenchOutput {
    per_s: f64,
    transactions: u64,
    failed: u64,
}

impl PgbenchOutput {
    fn read(report: &str) -> Option<Self> {
        let after = |begin: &str| {
            let rest = report.lines().find_map(|line| line.strip_prefix(begin))?;
            rest.split_whitespace().next()
        };
        Some(Self {
            per_s: after("tps = ")?.parse().ok()?,
            transactions: after("number of transactions actually processed: ")?.parse().ok()?,
            // Before version 15 it ended at the first.
            failed: after("number of failed transactions: ").map_or(Some(0), |n| n.parse().ok())?,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_pgbench_reports_is_read() {
        let report = "pgbench (15.4)\nnumber of transactions actually processed: 4012\n\
                      number of failed transactions: 3 (0.075%)\nlatency average = 1.9 ms\n\
                      initial connection time = 9.5 ms\n\
                      tps = 4011.25 (without initial connection time)\n";
        let said = PgbenchOutput { per_s: 4011.25, transactions: 4012, failed: 3 };
        assert_eq!(PgbenchOutput::read(report), Some(said));
        assert_eq!(PgbenchOutput::read("tps = x"), None);
    }

    #[test]
    fn a_password_is_no_argument() {
        let (url, password) =
            without_password("postgres://u:a%2Bb+%26c@h:1/d?host=%2Ftmp").unwrap();
        assert_eq!(url, "postgres://u@h:1/d?host=%2Ftmp");
        assert_eq!(password.as_deref(), Some("a+b+&c"));
        assert_eq!(without_password("postgres://u@h/d").unwrap().1, None);
    }
}
