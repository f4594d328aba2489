//! The time limits of a purchase, in one place, because they depend on one another.
//!
//! | limit | what it bounds | depends on |
//! | --- | --- | --- |
//! | 250 ms | the circuit breaker refuses before one purchase tries ([`breaker`](crate::purchase)) | |
//! | 400 ms, 500 ms | a connection to Redis, an answer of Redis (crate `redis-link`) | |
//! | 50 ms | `lock_timeout` in `sell_many`: another session holds the row of a voucher, an order that a buyer has, or a table (nothing sells then, and the buyers are told so) | longer than a batch of another server takes |
//! | 600 ms | `lock_timeout` in `sell`, which takes the orders of a voucher whose row is held | shorter than the answer, so that a held row is told as "nothing done", where the batch waits for it once and has a connection at once |
//! | 350 ms | `lock_timeout` in the steps after the purchase, until they have locked a sale. For one row a step may wait twice: first for the session before it in the queue, then for the session that holds the row | twice is shorter than the answer. A step that waits for two rows may be given up first: its outcome is then unknown, and the same call again is safe |
//! | 50 ms | `lock_timeout` of a step that has locked a sale (`lock_sale`): another session holds the order, or a table that the step writes | a small part of `sell`'s 600 ms: all buyers of the voucher wait behind it, and behind those of the other servers |
//! | 700 ms | [`CONNECTION_WITHIN`] | shorter than the answer, which includes it (in the steps after the purchase the answer's time begins with the connection) |
//! | 800 ms | [`ANSWER_WITHIN`] | shorter than [`FRESH_FOR`]: what is read is still fresh when it comes |
//! | 900 ms | [`FRESH_FOR`] | shorter than the promised second |
//! | 1 s | an order in the queue while no transaction slot is free (crate `group-commit`) | |
//! | 5 s | the lease of the buyer's lock; PostgreSQL's `statement_timeout` | longer than each of the above |

use std::time::Duration;

/// How long a request waits for a connection to PostgreSQL, and a step before that for its turn. Below a second, so that a buyer is
/// told "unavailable" within one when the database is gone.
pub const CONNECTION_WITHIN: Duration = Duration::from_millis(700);

/// How long a statement, or all calls of one transaction with orders, may take, connection included (but in
/// the steps after the purchase, whose time begins with the connection). A server that is paused or cut off answers nothing at all.
pub const ANSWER_WITHIN: Duration = Duration::from_millis(800);

/// The setting of a transaction that gives way where another session holds a row, or a table: what is left of an attempt
/// would wait in the server after the attempt was given up.
pub(super) const GIVES_WAY: &str = "set local lock_timeout = '350ms'";

/// How long it may take to make a connection. A statement waits for less, and the connection is made all the same.
pub const CONNECTED_WITHIN: Duration = Duration::from_secs(10);

/// How long memory is believed: less than the promised second, for a read itself takes a moment.
pub const FRESH_FOR: Duration = Duration::from_millis(900);

/// How old a "sold out" may be when it is sent (promise `no_lasting_refusal`): what memory says, and then two questions
/// about an order of the buyer, for one may have to wait for the one before.
const REFUSAL_AT_MOST: Duration = Duration::from_millis(2_500);

const _: () = {
    assert!(CONNECTION_WITHIN.as_millis() < ANSWER_WITHIN.as_millis());
    assert!(ANSWER_WITHIN.as_millis() < FRESH_FOR.as_millis());
    assert!(FRESH_FOR.as_millis() < 1_000);
    assert!(FRESH_FOR.as_millis() + 2 * ANSWER_WITHIN.as_millis() <= REFUSAL_AT_MOST.as_millis());
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions, by name.
    fn functions() -> impl Iterator<Item = (&'static str, &'static str)> {
        let file = include_str!("../../migrations/0002_functions.sql");
        let all = file.split("\ncreate function ").skip(1);
        all.map(|function| function.split_once('(').unwrap_or_default())
    }

    #[test]
    fn a_row_that_is_held_is_told_before_the_answer_is_late() {
        let with = |limit_ms: u128| {
            let limit = format!("set lock_timeout = '{limit_ms}ms'");
            functions().filter(|(_, body)| body.contains(&limit)).map(|(name, _)| name).collect()
        };
        let (sells, batches, steps): (Vec<_>, Vec<_>, Vec<_>) = (with(600), with(50), with(350));
        assert_eq!((sells, batches), (vec!["sell"], vec!["sell_many"]));
        assert!(steps.len() >= 8 && 2 * 350 < ANSWER_WITHIN.as_millis(), "{steps:?}");
        // The others do not write, or count by the function that calls them: theirs would end that of `lock_sale`.
        let others = functions().filter(|(_, body)| {
            body.contains("language plpgsql") && !body.contains("\nset lock_timeout")
        });
        let expected = [
            "place_orders",
            "insert_orders",
            "judge_orders",
            "tell_orders",
            "lock_sales",
            "insert_at_once",
            "without_owned",
            "orders_of_buyers",
            "lock_sale",
            "take_step",
            "write_step",
            "write_voucher_step",
            "voucher_terms",
            "log_voucher_change",
            "judge_entry",
            "write_entry",
            "mark_line",
            "lock_payment",
            "payment_outcome",
            "send_message",
            "send_of_pending",
            "end_message",
            "write_payment",
            "left_of",
            "is_told_again",
            "asked_name",
            "insert_return",
            "write_return",
            "follow_returns",
            "ask_again",
            "fail_refund",
            "follow_undone",
            "complete_events",
            "events_between",
            "ended_orders",
        ];
        assert_eq!(others.map(|(name, _)| name).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_step_locks_a_sale_by_one_function_after_which_it_waits_for_nothing_else_for_long() {
        let locks_itself = |body: &str| {
            body.split(';').any(|statement| {
                statement.contains("from seckill_vouchers")
                    && statement.contains("for no key update")
            })
        };
        let who = functions().filter(|(_, body)| locks_itself(body)).map(|(name, _)| name);
        assert_eq!(who.collect::<Vec<_>>(), ["place_orders", "lock_sales", "lock_sale"]);
        assert!(
            functions().any(|(name, body)| name == "lock_sale" && body.contains("'50ms', true"))
        );
    }
}
