//! Transactions that a server ends, in whole or in part, and what a program makes of it: deadlocks,
//! time-outs, duplicate keys, and who tries again.

use super::case::{GoesOn, IsolationCase, IsolationPromise, SqlScript, Statement};
use super::designs::{BEGIN, COMMIT, ORDER, R04, TAKE_GUARDED};

const TAKE_1: Statement = Statement::new(
    "update seckill_vouchers set stock = stock - 1 where voucher_id = 1 and stock > 0",
)
.when(GoesOn::IfChanged);
const TAKE_2: Statement = Statement::new(
    "update seckill_vouchers set stock = stock - 1 where voucher_id = 2 and stock > 0",
)
.when(GoesOn::IfChanged);
const ORDER_1: Statement =
    Statement::new("insert into orders (user_id, voucher_id) values ({user}, 1)");
const ORDER_2: Statement =
    Statement::new("insert into orders (user_id, voucher_id) values ({user}, 2)");

const ONE_THEN_TWO: &[Statement] = &[BEGIN, TAKE_1, TAKE_2, ORDER_1, ORDER_2, COMMIT];
const TWO_THEN_ONE: &[Statement] = &[BEGIN, TAKE_2, TAKE_1, ORDER_1, ORDER_2, COMMIT];

pub(super) const OPPOSITE_ORDER: IsolationCase = IsolationCase {
    name: "opposite_order",
    story: "two baskets hold the same two vouchers, in opposite order",
    promise: IsolationPromise::NoDeadlock,
    report_deadlock: true,
    sessions: &[SqlScript::new(7, 1, ONE_THEN_TWO), SqlScript::new(8, 2, TWO_THEN_ONE)],
    ..IsolationCase::PLAIN
};

pub(super) const SAME_ORDER: IsolationCase = IsolationCase {
    name: "same_order",
    story: "two baskets hold the same two vouchers, and both take them in the order of their ids",
    report_deadlock: false,
    sessions: &[SqlScript::new(7, 1, ONE_THEN_TWO), SqlScript::new(8, 1, ONE_THEN_TWO)],
    ..OPPOSITE_ORDER
};

pub(super) const RETRY_NOBODY: IsolationCase = IsolationCase {
    name: "retry_nobody",
    story: "two buyers, ten vouchers; nobody tries again what the server has refused",
    promise: IsolationPromise::NoUndersell,
    sessions: &[SqlScript::new(7, 1, R04), SqlScript::new(8, 1, R04)],
    ..IsolationCase::PLAIN
};

pub(super) const RETRY_CLIENT: IsolationCase = IsolationCase {
    name: "retry_client",
    story: "two buyers, ten vouchers; the client rolls back and begins the whole transaction again",
    sessions: &[SqlScript::new(7, 1, R04), SqlScript::new(8, 1, R04).beginning_again()],
    ..RETRY_NOBODY
};

/// The statement that failed is sent again, and then the rest.
const STATEMENT_AGAIN: &[Statement] = &[
    BEGIN,
    TAKE_2,
    TAKE_1.when(GoesOn::Regardless),
    TAKE_1.when(GoesOn::Regardless),
    ORDER_1.when(GoesOn::Regardless),
    ORDER_2.when(GoesOn::Regardless),
    COMMIT,
];

pub(super) const RETRY_STATEMENT: IsolationCase = IsolationCase {
    name: "retry_statement",
    story: "after a deadlock the statement is sent again that failed, and then the rest",
    promise: IsolationPromise::BooksAddUp,
    sessions: &[SqlScript::new(7, 1, ONE_THEN_TWO), SqlScript::new(8, 2, STATEMENT_AGAIN)],
    ..IsolationCase::PLAIN
};

pub(super) const RETRY_TRANSACTION: IsolationCase = IsolationCase {
    name: "retry_transaction",
    story: "after a deadlock the whole transaction is rolled back and begun again",
    sessions: &[
        SqlScript::new(7, 1, ONE_THEN_TWO),
        SqlScript::new(8, 2, TWO_THEN_ONE).beginning_again(),
    ],
    ..RETRY_STATEMENT
};

/// It writes the order first and does not look at what became of the stock.
const TIMES_OUT: &[Statement] = &[
    Statement::each("set lock_timeout = '100ms'", "set session innodb_lock_wait_timeout = 1"),
    BEGIN,
    ORDER,
    TAKE_GUARDED.when(GoesOn::Regardless).timing_out(),
    COMMIT,
];
const HOLDS_THE_ROW: &[Statement] = &[BEGIN, TAKE_GUARDED, ORDER, COMMIT];

pub(super) const LOCK_WAIT_TIMEOUT: IsolationCase = IsolationCase {
    name: "lock_wait_timeout",
    story: "a statement waits too long for a row; its error is caught, and the rest is committed",
    promise: IsolationPromise::BooksAddUp,
    sessions: &[SqlScript::new(7, 1, HOLDS_THE_ROW), SqlScript::new(8, 1, TIMES_OUT)],
    turns: "1122222",
    ..IsolationCase::PLAIN
};

const DUPLICATE_CAUGHT: &[Statement] =
    &[BEGIN, TAKE_GUARDED, ORDER.when(GoesOn::Regardless), COMMIT];

pub(super) const DUPLICATE_CAUGHT_COMMITTED: IsolationCase = IsolationCase {
    name: "duplicate_caught",
    story: "the stock is taken, the order is a duplicate; the error is caught, and the rest is committed",
    promise: IsolationPromise::BooksAddUp,
    unique: true,
    sessions: &[SqlScript::new(7, 1, HOLDS_THE_ROW), SqlScript::new(7, 1, DUPLICATE_CAUGHT)],
    turns: "1111",
    ..IsolationCase::PLAIN
};

const INSERT_FIRST: &[Statement] = &[BEGIN, ORDER, TAKE_GUARDED, COMMIT];

pub(super) const INSERT_BEFORE_UPDATE: IsolationCase = IsolationCase {
    name: "insert_first",
    story: "the order is written first, the stock is taken second; an error or no stock is rolled back",
    promise: IsolationPromise::BooksAddUp,
    stock: 1,
    unique: true,
    sessions: &[
        SqlScript::new(7, 1, INSERT_FIRST),
        SqlScript::new(7, 1, INSERT_FIRST),
        SqlScript::new(8, 1, INSERT_FIRST),
    ],
    ..IsolationCase::PLAIN
};
