//! The designs that need nothing but the database: the SQL of r01 to r05, of an advisory lock, of r18. Each
//! buys the last voucher twice, and sells to one user twice.

use super::case::{GoesOn, IsolationCase, IsolationPromise, SqlScript, Statement};

pub(super) const BEGIN: Statement = Statement::new("begin");
pub(super) const COMMIT: Statement = Statement::new("commit");
pub(super) const READ: Statement =
    Statement::new("select stock from seckill_vouchers where voucher_id = {voucher}")
        .when(GoesOn::IfSome);
const LOCK_ROW: Statement =
    Statement::new("select stock from seckill_vouchers where voucher_id = {voucher} for update")
        .when(GoesOn::IfSome);
const TAKE: Statement =
    Statement::new("update seckill_vouchers set stock = stock - 1 where voucher_id = {voucher}");
pub(super) const TAKE_UNCHANGED: Statement = Statement::new(
    "update seckill_vouchers set stock = stock - 1 where voucher_id = {voucher} and stock = {read}",
)
.when(GoesOn::IfChanged);
pub(super) const TAKE_GUARDED: Statement = Statement::new(
    "update seckill_vouchers set stock = stock - 1 where voucher_id = {voucher} and stock > 0",
)
.when(GoesOn::IfChanged);
const COUNT: Statement =
    Statement::new("select count(*) from orders where user_id = {user} and voucher_id = {voucher}")
        .when(GoesOn::IfNone);
pub(super) const ORDER: Statement =
    Statement::new("insert into orders (user_id, voucher_id) values ({user}, {voucher})");

/// PostgreSQL's is of the transaction, and ends with it. MariaDB's is of the session: the transaction's end
/// means nothing to it.
pub(super) const LOCK_USER: Statement =
    Statement::each("select pg_advisory_xact_lock({user})", "select get_lock('user {user}', 10)");
pub(super) const UNLOCK_USER: Statement =
    Statement::each("", "select release_lock('user {user}')").when(GoesOn::AtLast);

const R01: &[Statement] = &[BEGIN, READ, TAKE, ORDER, COMMIT];
const R02: &[Statement] = &[BEGIN, LOCK_ROW, TAKE, ORDER, COMMIT];
pub(super) const R03: &[Statement] = &[BEGIN, READ, TAKE_UNCHANGED, ORDER, COMMIT];
pub(super) const R04: &[Statement] = &[BEGIN, READ, TAKE_GUARDED, ORDER, COMMIT];
const R05: &[Statement] = &[BEGIN, COUNT, TAKE_GUARDED, ORDER, COMMIT];
const ADVISORY: &[Statement] = &[BEGIN, LOCK_USER, COUNT, TAKE_GUARDED, ORDER, COMMIT, UNLOCK_USER];
const R18: &[Statement] = &[BEGIN, TAKE_GUARDED, ORDER, COMMIT];

/// Two buyers want the last voucher, in step with each other.
const fn last_one(
    name: &'static str,
    sessions: &'static [SqlScript],
    unique: bool,
) -> IsolationCase {
    IsolationCase {
        name,
        story: "two buyers want the last voucher",
        promise: IsolationPromise::NoOversell,
        stock: 1,
        unique,
        sessions,
        ..IsolationCase::PLAIN
    }
}

/// One user clicks twice, and both requests are in step with each other.
const fn twice(name: &'static str, sessions: &'static [SqlScript], unique: bool) -> IsolationCase {
    IsolationCase {
        name,
        story: "one user buys twice at once",
        promise: IsolationPromise::OnePerUser,
        unique,
        sessions,
        ..IsolationCase::PLAIN
    }
}

macro_rules! designs {
    ($($last:ident $last_name:literal, $twice:ident $twice_name:literal: $statements:ident, $unique:literal;)+) => {
        $(
            pub(super) const $last: IsolationCase = last_one(
                $last_name,
                &[SqlScript::new(7, 1, $statements), SqlScript::new(8, 1, $statements)],
                $unique,
            );
            pub(super) const $twice: IsolationCase = twice(
                $twice_name,
                &[SqlScript::new(7, 1, $statements), SqlScript::new(7, 1, $statements)],
                $unique,
            );
        )+

        /// Each design's name in the ladder, and its statements.
        #[cfg(test)]
        const DESIGNS: &[(&str, &[Statement])] = &[$(($last_name, $statements)),+];
    };
}

designs! {
    R01_LAST_ONE "r01_last_one", R01_TWICE "r01_twice": R01, false;
    R02_LAST_ONE "r02_last_one", R02_TWICE "r02_twice": R02, false;
    R03_LAST_ONE "r03_last_one", R03_TWICE "r03_twice": R03, false;
    R04_LAST_ONE "r04_last_one", R04_TWICE "r04_twice": R04, false;
    R05_LAST_ONE "r05_last_one", R05_TWICE "r05_twice": R05, false;
    ADVISORY_LAST_ONE "advisory_last_one", ADVISORY_TWICE "advisory_twice": ADVISORY, false;
    R18_LAST_ONE "r18_last_one", R18_TWICE "r18_twice": R18, true;
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::isolation::DatabaseKind;

    /// Without the names of values, and with one space between words.
    fn plain(sql: &str) -> String {
        let parts = sql.split(['{', '$']);
        let rest = |part: &str| {
            part.trim_start_matches(|c: char| c.is_alphanumeric() || c == '}').to_owned()
        };
        let mut parts = parts.map(str::to_owned);
        let first = parts.next().unwrap();
        let text = parts.fold(first, |text, part| text + "_" + &rest(&part));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_a_design_says_is_what_its_rung_says() {
        let mut count = 0;
        for (name, statements) in DESIGNS {
            let id = match name.split('_').next().unwrap() {
                "r05" => "r05a",
                "advisory" => "r05b",
                "r18" => "r18a",
                id => id,
            };
            let rung = ladder::find(id).unwrap();
            let source = plain(rung.source);
            for statement in *statements {
                let sql = plain(statement.text(DatabaseKind::Postgres));
                let is_plain = ["begin", "commit"].contains(&sql.as_str());
                assert!(is_plain || source.contains(&sql), "{}: {sql}", rung.id);
                count += usize::from(!is_plain);
            }
        }
        assert!(count >= 20, "only {count} statements");
    }
}
