//! The books of a target: what its database says of a voucher.

use std::collections::HashSet;
use std::time::Duration;

use load::calls;
use load::place::id;
use program::ConfigError;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::buyers::of_user;
use super::command::{self, COMMAND_WITHIN, shorten};
use super::target::{BooksReader, BooksSource, CheckTarget};

/// Between two looks, at most; less where the file wants books that are quiet for less.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Between two looks, at least.
const LOOK_AT_MOST_EVERY: Duration = Duration::from_millis(10);
/// How long books stay as they are that somebody writes behind the answers, unless the file says: such a worker may
/// write something again.
const QUIET_BEHIND: Duration = Duration::from_secs(10);
/// The same of other books.
const QUIET: Duration = Duration::from_secs(1);
/// The longest id in a list, in bytes.
const LONGEST_ID: usize = 256;
/// The most that books may count. Sums of such counts are exact.
const MOST: i64 = 1_000_000_000_000_000;

/// What books say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BooksReading {
    /// Orders.
    pub orders: i64,
    /// Different users among them, where that is told, or the list shows it.
    pub users: Option<i64>,
    /// Stock that is left, where that is told.
    pub stock: Option<i64>,
    /// The orders one by one, where they are told.
    pub list: Option<Vec<BookedOrder>>,
    /// Orders that were cancelled, and gave their stock back. They are none of the others.
    pub cancelled: i64,
    /// These one by one, where they are told.
    pub cancelled_list: Vec<BookedOrder>,
}

/// An order in the books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookedOrder {
    /// Its id.
    pub order: String,
    /// Its user.
    pub user: String,
}

/// Books that do not change any more.
#[derive(Debug, Clone)]
pub struct QuietBooks {
    /// What they say.
    pub reading: BooksReading,
    /// When they changed for the last time; the first look, where they never did.
    pub changed: Instant,
    /// Whether they were quiet before the time was up.
    pub is_quiet: bool,
    /// When they were looked at for the last time.
    pub read_at: Instant,
}

/// Reads the books of `voucher`.
///
/// # Errors
/// When the command or request fails, or its output is not what the file says.
pub async fn read(
    target: &CheckTarget,
    source: &BooksSource,
    voucher: &str,
) -> Result<BooksReading, ConfigError> {
    let within = COMMAND_WITHIN.min(source.within);
    let (what, said) = match &source.how {
        BooksReader::Command(command) => {
            let environment = [("VOUCHER", voucher), ("ADDRESS", &target.nodes[0].url)];
            let ran = command::run(command, &target.directory, &environment, within).await;
            ("the books command", ran)
        }
        BooksReader::Request(request) => {
            let call = request.for_voucher(voucher).call(&target.nodes[0], &of_user(""));
            let answer = match call {
                Some(call) => calls::send(&[call], 1, within).await.pop().flatten(),
                None => None,
            };
            let said = match answer {
                Some(answer) if (200..300).contains(&answer.status) => {
                    Ok(String::from_utf8_lossy(&answer.body).into_owned())
                }
                Some(answer) => {
                    let said = shorten(&String::from_utf8_lossy(&answer.body));
                    Err(format!("is answered with {}: {said}", answer.status))
                }
                None => Err("has no answer".to_owned()),
            };
            ("the books request", said)
        }
    };
    let reading = said.and_then(|said| parse(source, &said));
    reading.map_err(|why| (source.wrong)(format!("{what} {why}")))
}

fn parse(source: &BooksSource, said: &str) -> Result<BooksReading, String> {
    let json: Value = serde_json::from_str(said.trim_start_matches('\u{feff}').trim())
        .map_err(|_| format!("prints no JSON: {:?}", shorten(said)))?;
    let number = |pointer: &str| match json.pointer(pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = id(value).and_then(|text| text.parse::<i64>().ok());
            let number = number.filter(|number| (-MOST..=MOST).contains(number));
            let why = || {
                format!(
                    "prints no whole number within ±10^15 at {pointer}: {}",
                    shorten(&value.to_string())
                )
            };
            number.map(Some).ok_or_else(why)
        }
    };
    let count = |pointer: &str| match number(pointer)? {
        Some(negative) if negative < 0 => Err(format!("prints {negative} at {pointer}")),
        other => Ok(other),
    };
    let orders = count(&source.orders)?;
    let orders =
        orders.ok_or_else(|| format!("prints nothing at {}: {}", source.orders, shorten(said)))?;
    let users = count(&source.users)?;
    if let Some(users) = users.filter(|users| *users > orders) {
        return Err(format!("prints {users} users of {orders} orders"));
    }
    let (mut list, mut cancelled_list) = (None, Vec::new());
    if let Some(listed) = json.pointer(&source.list).filter(|list| !list.is_null()) {
        let (gone, live): (Vec<_>, Vec<_>) = parse_list(listed)
            .ok_or_else(|| {
                format!("prints no list of {{\"order\": …, \"user\": …}} at {}", source.list)
            })?
            .into_iter()
            .partition(|(is_cancelled, _)| *is_cancelled);
        cancelled_list = gone.into_iter().map(|(_, order)| order).collect();
        list = Some(live.into_iter().map(|(_, order)| order).collect::<Vec<_>>());
    }
    if let Some(list) = list.as_ref().filter(|list| list.len() as i64 != orders) {
        return Err(format!("prints {orders} orders and a list of {}", list.len()));
    }
    let mut users = users;
    if let Some(list) = &list {
        let of_list = list.iter().map(|booked| &booked.user).collect::<HashSet<_>>().len() as i64;
        if let Some(users) = users.filter(|users| *users != of_list) {
            return Err(format!("prints {users} users and a list of {of_list}"));
        }
        users = Some(of_list);
    }
    let counted = count(&source.cancelled)?.unwrap_or(0);
    let cancelled = counted.max(cancelled_list.len() as i64);
    Ok(BooksReading {
        orders,
        users,
        stock: number(&source.stock)?,
        list,
        cancelled,
        cancelled_list,
    })
}

/// Orders, each with whether it was cancelled.
fn parse_list(list: &Value) -> Option<Vec<(bool, BookedOrder)>> {
    let order = |entry: &Value| {
        let field = |name: &str| entry.get(name).and_then(id).filter(|id| id.len() <= LONGEST_ID);
        let is_cancelled = entry.get("state").is_some_and(|state| state == "cancelled");
        Some((is_cancelled, BookedOrder { order: field("order")?, user: field("user")? }))
    };
    list.as_array()?.iter().map(order).collect()
}

/// How books are waited for.
#[derive(Clone, Copy)]
pub struct BooksWait<'a> {
    /// How many may be looked at at once.
    pub turns: &'a Semaphore,
    /// Whether the verdict stands on them.
    pub is_final: bool,
}

/// Reads the books until they have as many orders as were `promised`, and do not change any more; or until
/// the file's time is up. A look that fails is repeated.
///
/// # Errors
/// As [`read`], when the last look failed, too.
pub async fn until_quiet(
    target: &CheckTarget,
    source: &BooksSource,
    voucher: &str,
    promised: impl Fn() -> i64,
    wait: BooksWait<'_>,
) -> Result<QuietBooks, ConfigError> {
    let BooksWait { turns, is_final } = wait;
    let begun = Instant::now();
    let (mut changed, mut steady_since) = (begun, begun);
    let mut reading = None;
    let is_behind = target.later.is_some();
    let quiet = |is_late: bool| match source.quiet {
        Some(quiet) => quiet,
        None if is_late => QUIET_BEHIND,
        None => QUIET,
    };
    let pause = pause(quiet(is_behind));
    loop {
        let turn = turns.acquire().await;
        let failure = match read(target, source, voucher).await {
            Ok(same) if reading.as_ref() == Some(&same) => None,
            Ok(first_or_other) => {
                steady_since = Instant::now();
                changed = reading.map_or(begun, |_| steady_since);
                reading = Some(first_or_other);
                None
            }
            Err(why) => Some(why),
        };
        drop(turn);
        let is_quiet = steady_since.elapsed() >= quiet(is_final && (is_behind || changed > begun));
        let has_all = |reading: &BooksReading| reading.orders + reading.cancelled >= promised();
        let has_all = reading.as_ref().is_some_and(has_all);
        let is_over = begun.elapsed() >= source.within;
        match (reading.take(), failure) {
            (Some(reading), None) if is_over || is_quiet && has_all => {
                return Ok(QuietBooks { reading, changed, is_quiet, read_at: Instant::now() });
            }
            (_, Some(why)) if is_over => return Err(why),
            (still, _) => reading = still,
        }
        sleep(pause).await;
    }
}

/// Between two looks at books that must be quiet for so long.
fn pause(quiet: Duration) -> Duration {
    (quiet / 2).clamp(LOOK_AT_MOST_EVERY, LOOK_EVERY)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn parsed(said: &str) -> Result<BooksReading, String> {
        let pointer = |name: &str| format!("/{name}");
        let source = BooksSource {
            how: BooksReader::Command(String::new()),
            orders: pointer("orders"),
            users: pointer("users"),
            stock: pointer("stock"),
            list: pointer("list"),
            cancelled: pointer("cancelled"),
            expire: None,
            quiet: Some(Duration::ZERO),
            within: Duration::ZERO,
            wrong: Box::new(ConfigError),
        };
        parse(&source, said)
    }

    #[test]
    fn books_are_numbers_and_what_is_missing_is_unknown() {
        let reading = parsed("\n{\"orders\":3,\"users\":\"2\",\"stock\":-1}\n").unwrap();
        assert_eq!((reading.orders, reading.users, reading.stock), (3, Some(2), Some(-1)));
        let reading = parsed(r#"{"orders":1000000000000000,"stock":-1000000000000000}"#).unwrap();
        assert_eq!((reading.orders, reading.stock), (MOST, Some(-MOST)));
        let reading = parsed(r#"{"orders":1,"list":[{"order":18446744073709551615,"user":"a"}]}"#);
        let list = reading.unwrap().list.unwrap();
        let said = r#"{"orders":2,"list":[{"order":1,"user":1},{"order":2,"user":"1"}]}"#;
        assert_eq!(parsed(said).unwrap().users, Some(1));
        assert_eq!((&*list[0].order, &*list[0].user), ("18446744073709551615", "a"));
    }

    #[test]
    fn cancelled_orders_are_told_apart_from_the_others() {
        let said = r#"{"orders":1,"list":[{"order":1,"user":1},{"order":2,"user":1,"state":"cancelled"}]}"#;
        let reading = parsed(said).unwrap();
        assert_eq!((reading.orders, reading.users, reading.cancelled), (1, Some(1), 1));
        assert_eq!(reading.cancelled_list[0].order, "2");
        assert_eq!(parsed(r#"{"orders":1,"cancelled":3}"#).unwrap().cancelled, 3);
        assert!(parsed(r#"{"orders":1,"cancelled":-1}"#).is_err());
        for (length, is_id) in [(LONGEST_ID, true), (LONGEST_ID + 1, false)] {
            let order = "x".repeat(length);
            let said = format!(r#"{{"orders":1,"list":[{{"order":"{order}","user":1}}]}}"#);
            assert_eq!(parsed(&said).is_ok(), is_id, "{length}");
        }
    }

    #[test]
    fn between_two_looks_there_is_a_pause_that_is_shorter_than_the_quiet() {
        let pauses = [0, 20, 21, 499, 500, 10_000].map(|ms| pause(Duration::from_millis(ms)));
        let micros = pauses.map(|pause| pause.as_micros());
        assert_eq!(micros, [10_000, 10_000, 10_500, 249_500, 250_000, 250_000]);
    }

    #[test]
    fn rubbish_is_refused_in_a_sentence() {
        for (said, why) in [
            ("", "prints no JSON"),
            ("ERROR 1045 (28000): Access denied", "Access denied"),
            ("{}", "prints nothing at /orders"),
            ("[]", "prints nothing at /orders"),
            (r#"{"orders":-1}"#, "prints -1 at /orders"),
            (r#"{"orders":1.5}"#, "at /orders: 1.5"),
            (r#"{"orders":"x"}"#, "no whole number"),
            (r#"{"orders":9223372036854775808}"#, "no whole number"),
            (r#"{"orders":1000000000000001}"#, "no whole number"),
            (r#"{"orders":0,"stock":1000000000000001}"#, "no whole number"),
            (r#"{"orders":0,"stock":-1000000000000001}"#, "no whole number"),
            (r#"{"orders":1,"users":2}"#, "2 users of 1 orders"),
            (r#"{"orders":1,"stock":{}}"#, "no whole number within ±10^15 at /stock"),
            (r#"{"orders":1,"list":[1]}"#, "no list of"),
            (r#"{"orders":2,"list":[{"order":1,"user":1}]}"#, "2 orders and a list of 1"),
            (r#"{"orders":1,"users":0,"list":[{"order":1,"user":1}]}"#, "0 users and a list of 1"),
        ] {
            let refusal = parsed(said).unwrap_err();
            assert!(refusal.contains(why), "{said}: {refusal}");
        }
    }
}
