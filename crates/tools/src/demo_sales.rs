//! The sales of a demo: a voucher each, whose buyers want no other.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chrono::TimeDelta;

use super::verdict::{VoucherVerdict, books};
use load::crowd::{Buyer, CrowdReport};
use load::told::Told;
use load::verdict::Books;
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{Clock, SystemClock, UserId, Voucher};
use seckill::purchase::audit::{self, OrderLives, VoucherAudit};
use seckill::store::Database;
use seckill::store::vouchers;

/// What a voucher costs that is not free: 80 yuan.
pub const PRICE: i64 = 8_000;

/// One voucher and all who want it.
pub struct DemoSale<'a> {
    /// The voucher.
    pub voucher: Voucher,
    /// Where it is bought, or a draw is entered.
    pub path: Arc<str>,
    /// At least one, with tokens.
    pub buyers: &'a [(UserId, String)],
}

impl DemoSale<'_> {
    /// Its part of the crowd.
    pub fn crowd(&self) -> impl Iterator<Item = Buyer> {
        let path = Some(&self.path);
        self.buyers.iter().map(move |buyer| Buyer { path: path.cloned(), ..Buyer::from(buyer) })
    }

    /// Its books as they are now.
    ///
    /// # Errors
    /// When the database does not answer, or does not know the voucher any more.
    pub async fn audit(&self, database: &Database) -> anyhow::Result<VoucherAudit> {
        let audits = audit::run(database.pool(), Some(self.voucher.id)).await?;
        audits.into_iter().next().context("a voucher is gone from the database")
    }

    /// The books for the judge of what its buyers were `told`, as it was put on sale, whatever the database says of that
    /// by now; and what became of its orders.
    ///
    /// # Errors
    /// As [`audit`](Self::audit).
    pub async fn books(
        &self,
        database: &Database,
        told: &Told,
    ) -> anyhow::Result<(Books, OrderLives)> {
        let audit = self.audit(database).await?;
        let orders = told.acknowledged_ids();
        let lost = audit::count_lost(database.pool(), self.voucher.id, &orders).await?;
        let initial_stock = self.voucher.initial_stock.into();
        Ok((Books { initial_stock, ..books(&audit, audit.orders, lost) }, audit.life))
    }
}

/// What is put on sale.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// Vouchers.
    pub count: usize,
    /// Stock of each.
    pub stock: i32,
    /// When the sale begins.
    pub begins_in: Duration,
    /// How long a buyer has to pay; `None`: the vouchers are free.
    pub pay_within: Option<Duration>,
    /// How long after the beginning of the sale it is drawn; `None`: whoever comes first is served first.
    pub draw_after: Option<Duration>,
}

/// Puts vouchers on sale, and shares out `buyers`, who are at least as many, among them.
///
/// # Errors
/// As any statement.
pub async fn open<'a>(
    database: &Database,
    offer: Offer,
    buyers: &'a [(UserId, String)],
) -> anyhow::Result<Vec<DemoSale<'a>>> {
    let Offer { count, stock, begins_in, pay_within, draw_after } = offer;
    let (what, entrance) =
        if draw_after.is_some() { (" (draw)", "entries") } else { ("", "orders") };
    let now = SystemClock.now();
    let begin_time = now + begins_in;
    let mut sales = Vec::with_capacity(count);
    for index in 0..count {
        let number = if count == 1 { String::new() } else { format!(" ({})", index + 1) };
        let title = format!("Demo: 100 yuan for 80{number}{what}");
        let end_time = begin_time + TimeDelta::hours(1);
        let mut new = NewVoucher::free(title, stock, begin_time, end_time);
        if let Some(pay_within) = pay_within {
            new.price = Some(PRICE);
            new.pay_within_s = Some(i32::try_from(pay_within.as_secs())?);
        }
        new.draw_time = draw_after.map(|after| begin_time + after);
        let voucher = vouchers::create(database.pool(), &new, now).await?;
        let path = format!("/api/vouchers/{}/{entrance}", voucher.id).into();
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
        let told = crowd.told_at.get(&sale.path).unwrap_or(&nothing);
        let (books, _) = sale.books(database, told).await?;
        verdicts.push(VoucherVerdict::new(sale.voucher.id, sale.buyers.len() as i64, &books, told));
    }
    Ok(verdicts)
}
