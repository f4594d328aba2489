//! The time limits of a purchase, in one place, because they depend on one another.
//!
//! | limit | what it bounds | depends on |
//! | --- | --- | --- |
//! | 250 ms | the circuit breaker refuses before one purchase tries ([`breaker`](crate::purchase)) | |
//! | 400 ms, 500 ms | a connection to Redis, an answer of Redis (crate `redisson-lock`) | |
//! | 50 ms | `lock_timeout` in `sell_many`: another session holds the row of a voucher, or an order that a buyer has | longer than a batch of another server takes |
//! | 600 ms | `lock_timeout` in `sell`, which takes the orders of a voucher whose row is held | shorter than the answer, so that a held row is told as "nothing done", where the batch waits for it once and has a connection at once |
//! | 350 ms | `lock_timeout` in the steps after the purchase. For one row a step may wait twice: first for the session before it in the queue, then for the session that holds the row | twice is shorter than the answer. A step that waits for two rows may be given up first: its outcome is then unknown, and the same call again is safe |
//! | 700 ms | [`CONNECTION_WITHIN`] | shorter than the answer, which includes it (in the steps after the purchase the answer's time begins with the connection) |
//! | 800 ms | [`ANSWER_WITHIN`] | shorter than [`FRESH_FOR`]: what is read is still fresh when it comes |
//! | 900 ms | [`FRESH_FOR`] | shorter than the promised second |
//! | 1 s | an order in the queue while no transaction slot is free (crate `group-commit`) | |
//! | 5 s | the lease of the buyer's lock; PostgreSQL's `statement_timeout` | longer than each of the above |

use std::time::Duration;

/// How long a request waits for a connection to PostgreSQL, and a step before that for its turn. Below a second, so that a buyer hears
/// "unavailable" within one when the database is gone.
pub const CONNECTION_WITHIN: Duration = Duration::from_millis(700);

/// How long a statement, or all calls of one transaction with orders, may take, connection included (but in
/// the steps after the purchase, whose time begins with the connection). A server that is paused or cut off answers nothing at all.
pub const ANSWER_WITHIN: Duration = Duration::from_millis(800);

/// How long memory is believed: less than the promised second, for a read itself takes a moment.
pub const FRESH_FOR: Duration = Duration::from_millis(900);

const _: () = {
    assert!(CONNECTION_WITHIN.as_millis() < ANSWER_WITHIN.as_millis());
    assert!(ANSWER_WITHIN.as_millis() < FRESH_FOR.as_millis());
    assert!(FRESH_FOR.as_millis() < 1_000);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_held_is_told_before_the_answer_is_late() {
        let functions = include_str!("../../migrations/0002_functions.sql");
        // Each function that writes has it; `sale_time`, `rebuy_pause` and `orders_of_buyers` do not write.
        let writers = functions.matches("\ncreate function ").count() - 3;
        let with = |limit_ms: u128| functions.matches(&format!("'{limit_ms}ms'")).count();
        assert_eq!((with(600), with(350), with(50)), (1, writers - 2, 1));
        assert!(writers >= 8 && 2 * 350 < ANSWER_WITHIN.as_millis());
    }
}
