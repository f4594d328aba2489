//! What PostgreSQL can do: `pgbench`, its own client, with the statements that sell.
//!
//! In tables of their own, made like the server's and emptied before each measurement: a ceiling must
//! neither slow down with all that was sold before it, nor leave orders in the books that nobody placed.

use std::process::Command;

use anyhow::{Context, ensure};
use seckill::store::Database;
use url::Url;

use super::Testbed;
use super::cpu::cpu_each;
use super::programs::{GRACE, output_of};
use super::results::Readings;

/// A statement for pgbench, and the orders that it places.
pub(super) type Statement = (&'static str, u64);
/// One order a transaction.
pub(super) const ONE_ORDER: Statement =
    (include_str!("../../../../loadtest/pgbench/hot_row.sql"), 1);
/// As many as 256 buyers bring about, less those who are answered; by the call that the server makes.
pub(super) const BATCH: Statement = (include_str!("../../../../loadtest/pgbench/batch.sql"), 100);

impl Testbed {
    /// Makes the tables. A run that was interrupted may have left its own.
    pub(super) async fn make_tables(&self) -> anyhow::Result<()> {
        let options: String = sqlx::query_scalar(
            "select coalesce('with (' || array_to_string(reloptions, ', ') || ')', '')
             from pg_class where oid = 'seckill_vouchers'::regclass",
        )
        .fetch_one(self.database.pool())
        .await?;
        self.execute(&format!(
            "drop schema if exists seckill_ceiling cascade;
             create schema seckill_ceiling;
             create table seckill_ceiling.seckill_vouchers
               (like seckill_vouchers including all) {options};
             create table seckill_ceiling.orders (like orders including all);
             -- The cache keeps their cost out of the ceiling.
             create sequence seckill_ceiling.pgbench_order_id cache 1000;
             create sequence seckill_ceiling.pgbench_user_id cache 1000"
        ))
        .await
        .context("cannot make the tables for pgbench")
    }

    pub(super) async fn remove_tables(&self) -> anyhow::Result<()> {
        self.execute("drop schema if exists seckill_ceiling cascade").await
    }

    /// Orders a second, of so many vouchers in random order.
    pub(super) async fn pgbench(
        &self,
        (statement, orders): Statement,
        vouchers: u32,
        clients: u32,
    ) -> anyhow::Result<Readings> {
        self.execute(&format!(
            "truncate seckill_ceiling.orders, seckill_ceiling.seckill_vouchers;
             insert into seckill_ceiling.seckill_vouchers
               (voucher_id, initial_stock, stock, begin_time, end_time)
             select id, 2000000000, 2000000000, now(), now() + interval '1 day'
             from generate_series(1, {vouchers}) id;
             analyze seckill_ceiling.seckill_vouchers"
        ))
        .await?;
        settle(&self.database).await;
        let file = self.directory.path().join("pgbench.sql");
        let any = format!("\\set voucher random(1, {vouchers})\n{statement}");
        std::fs::write(&file, if vouchers > 1 { &any } else { statement })?;
        let (url, password) = without_password(&self.stores.database_url)?;
        let mut command = Command::new(&self.programs.pgbench);
        command
            // Prepared, which is PostgreSQL's best: a ceiling should be one.
            .args(["--no-vacuum", "--protocol", "prepared", "--file"])
            .arg(file)
            .args(["--client", &clients.to_string(), "--jobs", &clients.min(2).to_string()])
            .args(["--time", &self.duration.as_secs().to_string()])
            .args(["--define", "voucher=1", "--define", &format!("orders={orders}")])
            .arg(url)
            .env("PGOPTIONS", "-c search_path=seckill_ceiling,public");
        if let Some(password) = password {
            command.env("PGPASSWORD", password);
        }
        let before = self.meter.read(None).await;
        let report = output_of(command, self.duration + GRACE).await?;
        let after = self.meter.read(None).await;
        let [per_s, transactions] =
            read_report(&report).with_context(|| format!("pgbench said {report}"))?;
        let stored: i64 = sqlx::query_scalar("select count(*) from seckill_ceiling.orders")
            .fetch_one(self.database.pool())
            .await?;
        let orders = orders as f64;
        ensure!(
            stored as f64 == transactions * orders,
            "pgbench claims {transactions} transactions, but there are {stored} orders"
        );
        let mut figures = Readings::from([("per_s", per_s * orders)]);
        figures.extend(cpu_each(&before, &after, stored as f64));
        figures.remove("cpu_us_redis");
        Ok(figures)
    }

    async fn execute(&self, statements: &str) -> anyhow::Result<()> {
        let statements = sqlx::AssertSqlSafe(statements.to_owned());
        sqlx::raw_sql(statements).execute(self.database.pool()).await?;
        Ok(())
    }
}

/// What one measurement leaves for the checkpointer must not be paid by the next. Not every user of a
/// database may do that; then the rounds have to even it out.
pub(super) async fn settle(database: &Database) {
    let _ = sqlx::query("checkpoint").execute(database.pool()).await;
}

/// The password apart, because everybody may read what a program is started with.
fn without_password(url: &str) -> anyhow::Result<(String, Option<String>)> {
    let mut url = Url::parse(url).context("the URL of the database")?;
    // Decoded as a form is, in which these two mean something else.
    let password = url.password().map(|encoded| {
        let form = format!("p={}", encoded.replace('+', "%2B").replace('&', "%26"));
        url::form_urlencoded::parse(form.as_bytes()).map(|(_, value)| value).collect::<String>()
    });
    url.set_password(None).ok().context("the URL of the database has no host")?;
    Ok((url.into(), password))
}

/// Transactions a second, and in all.
fn read_report(report: &str) -> Option<[f64; 2]> {
    let after = |begin: &str| {
        let rest = report.lines().find_map(|line| line.strip_prefix(begin))?;
        rest.split_whitespace().next()?.parse().ok()
    };
    Some([after("tps = ")?, after("number of transactions actually processed: ")?])
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::without_password;

    #[test]
    fn a_password_is_no_argument() {
        let (url, password) =
            without_password("postgres://u:a%2Bb+%26c@h:1/d?host=%2Ftmp").unwrap();
        assert_eq!(url, "postgres://u@h:1/d?host=%2Ftmp");
        assert_eq!(password.as_deref(), Some("a+b+&c"));
        assert_eq!(without_password("postgres://u@h/d").unwrap().1, None);
    }
}
