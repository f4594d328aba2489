//! A rung that answers first: how far its orders are behind its answers.

use std::time::Duration;

use sqlx::postgres::PgPool;
use tokio::time::{Instant, sleep};

use load::crowd::CrowdReport;
use load::outcome::{ACCEPTED, ORDERED};
use load::rungs::WrittenLater;
use seckill::model::VoucherId;

/// How often orders are counted, where counting takes no time.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So many times as long as a count takes nobody counts: what is watched is not to be slowed down by it.
const REST: u32 = 20;
/// Without a new order for so long none is to come: longer than any entry is left alone (r22).
const NOTHING_FOR: Duration = Duration::from_secs(40);
/// How long they are waited for at most.
const WRITTEN_WITHIN: Duration = Duration::from_secs(300);

/// Waits until everything is written that was promised, or nothing is to come.
pub(super) async fn until_written(
    database: &PgPool,
    voucher: VoucherId,
    crowd: &CrowdReport,
) -> sqlx::Result<WrittenLater> {
    let begun = Instant::now();
    let told = crowd.told();
    let promised = told.count(ORDERED) + told.count(ACCEPTED);
    let promised = i64::try_from(promised).unwrap_or(i64::MAX);
    let at_first = orders(database, voucher).await?;
    let (mut written, mut last, mut counting) = (at_first, begun, Duration::ZERO);
    while written < promised && last.elapsed() < NOTHING_FOR && begun.elapsed() < WRITTEN_WITHIN {
        sleep(LOOK_EVERY.max(REST * counting)).await;
        let look = Instant::now();
        let now = orders(database, voucher).await?;
        counting = look.elapsed();
        if now > written {
            (written, last) = (now, Instant::now());
        }
    }
    let answering = crowd.elapsed_ms / 1000.0;
    let behind_s = last.duration_since(begun).as_secs_f64();
    let rounded = |number: f64| (number * 10.0).round() / 10.0;
    Ok(WrittenLater {
        promised,
        answered_per_s: rounded(promised as f64 / answering),
        durable_per_s: rounded(written as f64 / (answering + behind_s)),
        behind: (promised - at_first).max(0),
        behind_s: rounded(behind_s),
        missing: (promised - written).max(0),
    })
}

async fn orders(database: &PgPool, voucher: VoucherId) -> sqlx::Result<i64> {
    let count = sqlx::query_scalar("select count(*) from orders where voucher_id = $1");
    count.bind(voucher.get()).fetch_one(database).await
}
