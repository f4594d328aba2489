//! The sales of a demo: a voucher each, whose buyers want no other.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chrono::TimeDelta;

use super::verdict::{VoucherVerdict, books};
use load::crowd::{Buyer, CrowdReport};
use load::told::Told;
use load::verdict::Books;
use seckill::model::{Clock, SystemClock, UserId, Voucher};
use seckill::purchase::audit;
use seckill::store::vouchers::{self, NewVoucher};
use seckill::store::{Database, StoreError};

/// One voucher and all who want it.
pub struct DemoSale<'a> {
    /// The voucher.
    pub voucher: Voucher,
    /// Where it is bought.
    pub path: Arc<str>,
    /// At least one, with tokens.
    buyers: &'a [(UserId, String)],
}

impl DemoSale<'_> {
    /// Its part of the crowd.
    pub fn crowd(&self) -> impl Iterator<Item = Buyer> {
        let path = Some(&self.path);
        self.buyers.iter().map(move |buyer| Buyer { path: path.cloned(), ..Buyer::from(buyer) })
    }
}

/// Puts `count` vouchers on sale in `begins_in`, with `stock` each, and shares out `buyers`, who are at
/// least as many, among them.
///
/// # Errors
/// As any statement.
pub async fn open<'a>(
    database: &Database,
    count: u32,
    stock: i32,
    begins_in: Duration,
    buyers: &'a [(UserId, String)],
) -> Result<Vec<DemoSale<'a>>, StoreError> {
    let (now, count) = (SystemClock.now(), count as usize);
    let begin_time = now + begins_in;
    let mut sales = Vec::with_capacity(count);
    for index in 0..count {
        let number = if count == 1 { String::new() } else { format!(" ({})", index + 1) };
        let title = format!("Demo: 100 yuan for 80{number}");
        let end_time = begin_time + TimeDelta::hours(1);
        let new = NewVoucher::free(title, stock, begin_time, end_time);
        let voucher = vouchers::create(database.pool(), &new, now).await?;
        let path = format!("/api/vouchers/{}/orders", voucher.id).into();
        let share = index * buyers.len() / count..(index + 1) * buyers.len() / count;
        sales.push(DemoSale { voucher, path, buyers: &buyers[share] });
    }
    Ok(sales)
}

/// Holds the books of each sale against what `crowd` was told there.
///
/// # Errors
/// When the database does not answer, or does not know a voucher any more.
pub async fn judge(
    database: &Database,
    sales: &[DemoSale<'_>],
    crowd: &CrowdReport,
) -> anyhow::Result<Vec<VoucherVerdict>> {
    let nothing = Told::default();
    let mut verdicts = Vec::with_capacity(sales.len());
    for sale in sales {
        let id = sale.voucher.id;
        let audits = audit::run(database.pool(), Some(id)).await?;
        let audit = audits.first().context("a voucher is gone from the database")?;
        let told = crowd.told_at.get(&sale.path).unwrap_or(&nothing);
        let lost = audit::count_lost(database.pool(), id, &told.acknowledged_ids()).await?;
        // As it was put on sale, whatever the database says of that by now.
        let initial_stock = sale.voucher.initial_stock.into();
        let books = Books { initial_stock, ..books(audit, audit.orders, lost) };
        verdicts.push(VoucherVerdict::new(id, sale.buyers.len() as i64, &books, told));
    }
    Ok(verdicts)
}
