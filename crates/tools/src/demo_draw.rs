//! `seckill demo --draw`: one crowd, a tenth of which is fast, meets two vouchers. The one goes to whoever comes first, the
//! other one is drawn.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::demo_sales::DemoSale;
use super::verdict::VoucherVerdict;
use load::calls::{self, Call};
use load::crowd::{Buyer, CrowdReport};
use load::outcome::{NO_ANSWER, ORDERED};
use load::told::{AcknowledgedOrder, Told};
use seckill::config::ConfigError;
use seckill::model::{Draw, UserId, VoucherId};
use seckill::store::statements::Work;
use seckill::store::{Database, StoreError};

/// One buyer in so many is fast.
const FAST_ONE_IN: usize = 10;
/// So many milliseconds after the opening the request of a fast buyer comes.
pub const FAST_MS: u64 = 1;
/// And that of another one.
pub const SLOW_MS: RangeInclusive<u64> = 50..=300;
/// Where chances are equal, a chi-square of one degree of freedom is above this once in 1,000 times.
pub const BOUND: f64 = 10.83;
/// The fewest with a voucher, and without: of fewer than five in the fast tenth a chi-square says nothing.
const LEAST: u32 = 50;

/// What buyers hear who come between the close and the draw.
const DRAW_CLOSED: &str = "draw_closed";
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const AT_ONCE: usize = 64;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Drawn, and all of it ordered, so long after the close at the latest.
const DRAWN_WITHIN: Duration = Duration::from_secs(30);

/// Looks, before anything is started, whether the test of the draw can say anything.
///
/// # Errors
/// When it cannot.
pub fn check(users: u32, stock: i32) -> Result<(), ConfigError> {
    let stock = stock.unsigned_abs();
    if stock >= LEAST && users >= stock.saturating_add(LEAST) {
        return Ok(());
    }
    Err(ConfigError(format!(
        "--draw needs a --stock of at least {LEAST} and at least {LEAST} --users more: of fewer the chi-square test says nothing"
    )))
}

/// How long the entries are open: long enough on a machine that is busy with something else, too.
pub fn entries_for(users: usize) -> Duration {
    Duration::from_secs(8) + Duration::from_secs(users as u64) / 2_000
}

fn is_fast(place: &usize) -> bool {
    place.is_multiple_of(FAST_ONE_IN)
}

/// All buyers of a sale, each as late at the one as at the other.
fn crowd(sale: &DemoSale<'_>, seed: u64) -> Vec<Buyer> {
    let mut random = StdRng::seed_from_u64(seed);
    let comes = |(place, buyer)| {
        let slow = random.random_range(SLOW_MS);
        Buyer { after_ms: Some(if is_fast(&place) { FAST_MS } else { slow }), ..buyer }
    };
    sale.crowd().enumerate().map(comes).collect()
}

/// Buyers who are as fast as each other, and who of them got a voucher.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Served {
    /// Those of them whose entries were drawn.
    pub buyers: usize,
    /// By coming first.
    pub first_come: usize,
    /// By the draw.
    pub drawn: usize,
    /// What equal chances give them of what was drawn.
    pub expected: f64,
}

/// What came of the draw, beside first come.
#[derive(Debug, Clone, Copy, Serialize)]
#[allow(missing_docs)] // the names say it
pub struct DrawFigures {
    /// The voucher that was drawn.
    pub voucher_id: VoucherId,
    /// Entries that were published, and whose order was recomputed.
    pub entries: usize,
    /// Buyers who came after the close, on a machine that is busy with something else.
    pub late: usize,
    /// From the close of the entries until they were drawn.
    pub drawn_after_ms: Option<i64>,
    pub fast: Served,
    pub slow: Served,
    /// Of fast and slow buyers with and without a voucher of the draw; one degree of freedom.
    pub chi_square: f64,
    /// Chance alone is above it once in 1,000 times.
    pub bound: f64,
}

/// The fast buyers and the others, of those who entered: who of them got a voucher.
fn groups(entered: &[usize], first_come: &[usize], drawn: &[usize]) -> [Served; 2] {
    [true, false].map(|fast| {
        let count = |places: &[usize]| places.iter().filter(|it| is_fast(it) == fast).count();
        let buyers = count(entered);
        let expected = (drawn.len() * buyers) as f64 / entered.len().max(1) as f64;
        Served { buyers, first_come: count(first_come), drawn: count(drawn), expected }
    })
}

/// Pearson's, of two groups of whom so many have a voucher: how far that is from equal chances.
fn chi_square(groups: [(usize, usize); 2]) -> f64 {
    let (all, served) = groups.iter().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    let cell = |found: usize, expected: f64| match expected > 0.0 {
        true => (found as f64 - expected).powi(2) / expected,
        false => 0.0,
    };
    let of_group = |(buyers, taken): (usize, usize)| {
        let share = buyers as f64 / all.max(1) as f64;
        cell(taken, share * served as f64) + cell(buyers - taken, share * (all - served) as f64)
    };
    groups.map(of_group).iter().sum()
}

/// Sends the crowd to both with `send`, first to the draw, and holds the draw against what was published of it. The report
/// is of both; its rates and latencies are those of the sale where whoever came first was served.
///
/// # Errors
/// When a crowd cannot be sent, or the database does not answer.
pub async fn run(
    (database, node): (&Database, SocketAddr),
    (first, drawn): (&DemoSale<'_>, &DemoSale<'_>),
    seed: u64,
    send: impl AsyncFn(&str, Vec<Buyer>) -> anyhow::Result<CrowdReport>,
) -> anyhow::Result<(CrowdReport, VoucherVerdict, DrawFigures)> {
    let mut entered = send("The entries", crowd(drawn, seed)).await?;
    let mut report = send("First come", crowd(first, seed)).await?;
    let entered = entered.told_at.remove(&drawn.path).unwrap_or_default();
    let first = report.told_at.get(&first.path).cloned().unwrap_or_default();
    let (verdict, told, figures) = judge((database, node), drawn, &entered, &first).await?;
    report.told_at.insert(Arc::clone(&drawn.path), told);
    Ok((report, verdict, figures))
}

async fn judge(
    (database, node): (&Database, SocketAddr),
    sale: &DemoSale<'_>,
    entered: &Told,
    first_come: &Told,
) -> anyhow::Result<(VoucherVerdict, Told, DrawFigures)> {
    let users = sale.buyers.len();
    let until = Instant::now() + entries_for(users) + DRAWN_WITHIN;
    let draw = published(node, sale.voucher.id, until).await;
    while sale.audit(database).await?.orders < sale.voucher.initial_stock.into() {
        if Instant::now() >= until {
            break;
        }
        sleep(LOOK_EVERY).await;
    }
    let mut objections = Vec::new();
    let order = draw.as_ref().map_or(Err("it did not take place"), Draw::verify);
    let order = order.unwrap_or_else(|why| {
        objections.push(format!("the draw does not hold: {why}"));
        Vec::new()
    });
    // From here on a buyer is the place among the buyers.
    let places: HashMap<i64, usize> =
        sale.buyers.iter().enumerate().map(|(place, (user, _))| (user.get(), place)).collect();
    let place_of = |user: i64| places.get(&user).copied();
    let acknowledged = |told: &Told| -> Vec<usize> {
        told.acknowledged_ids().into_iter().filter_map(|(user, _)| place_of(user)).collect()
    };
    let entries = entries(database, sale.voucher.id).await?;
    let owners: HashMap<Uuid, i64> = entries.iter().map(|(id, user, _)| (*id, *user)).collect();
    let owner = |entry: &Uuid| owners.get(entry).copied().and_then(place_of);
    let drawn_from: Vec<usize> = order.iter().filter_map(owner).collect();
    // They stand in line behind those who were drawn.
    let late: Vec<usize> =
        entries.iter().filter(|it| it.2).filter_map(|it| place_of(it.1)).collect();
    let known: HashSet<usize> = drawn_from.iter().chain(&late).copied().collect();
    let missing = acknowledged(entered).iter().filter(|place| !known.contains(*place)).count();
    if missing > 0 {
        objections.push(format!("{missing} entries that were acknowledged were not drawn"));
    }
    let stock = sale.voucher.initial_stock.unsigned_abs() as usize;
    let drawn = &drawn_from[..stock.min(drawn_from.len())];
    let told = told(node, sale, drawn, entered).await;
    let drawn_after = draw.and_then(|draw| Some(draw.drawn_at? - draw.draw_time));
    let [fast, slow] = groups(&drawn_from, &acknowledged(first_come), drawn);
    let figures = DrawFigures {
        voucher_id: sale.voucher.id,
        entries: drawn_from.len(),
        late: late.len() + entered.count(DRAW_CLOSED) as usize,
        drawn_after_ms: drawn_after.map(|after| after.num_milliseconds()),
        fast,
        slow,
        chi_square: chi_square([fast, slow].map(|group| (group.buyers, group.drawn))),
        bound: BOUND,
    };
    if figures.chi_square > BOUND {
        objections.push(format!(
            "{} of the fast tenth were drawn, where equal chances give {:.1}: the chi-square {:.2} is above {BOUND}, as by \
             chance once in 1,000 times",
            figures.fast.drawn, figures.fast.expected, figures.chi_square
        ));
    }
    let (mut books, _) = sale.books(database, &told).await?;
    books.objections.extend(objections);
    let verdict = VoucherVerdict::new(sale.voucher.id, users as i64, &books, &told);
    Ok((verdict, told, figures))
}

fn get(node: SocketAddr, path: String, token: Option<&str>) -> Call {
    let (node, token) = (node.into(), token.map(Arc::from));
    Call {
        node,
        method: Method::GET,
        path,
        token,
        headers: Default::default(),
        body: Default::default(),
    }
}

/// What was published of the draw once it was drawn. `None`: it never was.
async fn published(node: SocketAddr, voucher: VoucherId, until: Instant) -> Option<Draw> {
    let look = [get(node, format!("/api/vouchers/{voucher}/draw"), None)];
    loop {
        let answer = calls::send(&look, 1, ANSWER_WITHIN).await.pop().flatten();
        let draw: Option<Draw> = answer.and_then(|it| serde_json::from_slice(&it.body).ok());
        if let Some(draw) = draw.filter(|draw| draw.seed.is_some()) {
            return Some(draw);
        }
        if Instant::now() >= until {
            return None;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Each entry, its user, and whether it came after the close.
async fn entries(
    database: &Database,
    voucher: VoucherId,
) -> Result<Vec<(Uuid, i64, bool)>, StoreError> {
    let query = sqlx::query_as(
        "select e.id, e.user_id, e.entered_at >= v.draw_time
         from entries e join vouchers v on v.id = e.voucher_id where e.voucher_id = $1",
    );
    let query = query.bind(voucher.get());
    Work::snapshot(ANSWER_WITHIN, database.pool())
        .run(async |session| query.fetch_all(session).await)
        .await
}

/// What those are told who were drawn first, and what came of the entries that were not taken.
async fn told(node: SocketAddr, sale: &DemoSale<'_>, drawn: &[usize], entered: &Told) -> Told {
    let buyers: Vec<_> = drawn.iter().map(|place| &sale.buyers[*place]).collect();
    let ask =
        |(_, token): &&(UserId, String)| get(node, sale.path.to_string(), Some(token.as_str()));
    let asked: Vec<Call> = buyers.iter().map(ask).collect();
    let answers = calls::send(&asked, AT_ONCE, ANSWER_WITHIN).await;
    let mut told = Told::default();
    for ((user, _), answer) in buyers.into_iter().zip(answers) {
        let body = answer.map(|answer| answer.body).unwrap_or_default();
        let entry: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut outcome = entry["status"].as_str().unwrap_or(NO_ANSWER);
        if outcome == "bought" {
            outcome = ORDERED;
            told.served += 1;
            let order_id = entry["order_id"].as_str().map(str::to_owned);
            let user_id = user.to_string().into();
            told.acknowledged.push(AcknowledgedOrder { user_id, order_id });
        }
        *told.outcomes.entry(outcome.to_owned()).or_default() += 1;
    }
    let is_told = |code: &str| ![ORDERED, DRAW_CLOSED].contains(&code);
    for (code, count) in entered.outcomes.iter().filter(|(code, _)| is_told(code)) {
        *told.outcomes.entry(code.clone()).or_default() += count;
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_that_favours_the_fast_is_told_from_a_fair_one() {
        // By hand: 10 of 100 and 90 of 900 are as expected; 20 and 80 are 10 off, in cells of 10, 90, 90 and 810.
        assert_eq!(chi_square([(100, 10), (900, 90)]), 0.0);
        let off = 100.0 * (1.0 / 10.0 + 1.0 / 90.0 + 1.0 / 90.0 + 1.0 / 810.0);
        assert!((chi_square([(100, 20), (900, 80)]) - off).abs() < 1e-9);
        assert!(chi_square([(100, 19), (900, 81)]) < BOUND && off > BOUND);
        assert_eq!([chi_square([(0, 0), (0, 0)]), chi_square([(1, 1), (9, 9)])], [0.0, 0.0]);
    }

    #[test]
    fn what_a_test_says_nothing_of_is_refused() {
        for (users, stock, is_enough) in [
            (100, 50, true),
            (1_000, 100, true),
            (1_000, 49, false),
            (149, 100, false),
            (150, 100, true),
        ] {
            assert_eq!(check(users, stock).is_ok(), is_enough, "{users} {stock}");
        }
    }

    #[test]
    fn every_tenth_buyer_is_fast_and_counted_with_those() {
        let all: Vec<usize> = (0..101).collect();
        let [fast, slow] = groups(&all, &[0, 10, 20, 1], &[3, 100]);
        let Served { buyers, first_come, drawn, .. } = fast;
        assert_eq!((buyers, first_come, drawn), (11, 3, 1));
        let Served { buyers, first_come, drawn, expected } = slow;
        assert_eq!((buyers, first_come, drawn), (90, 1, 1));
        assert!((fast.expected + expected - 2.0).abs() < 1e-9);
    }
}
