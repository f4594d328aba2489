//! Sales for the door "Buy something" of a demonstration in which there is nothing to buy.

use chrono::{DateTime, TimeDelta, Utc};
use seckill::model::SaleStatus;
use seckill::model::voucher_terms::NewVoucher;
use seckill::store::vouchers;
use sqlx::PgPool;

/// How long they are open.
const OPEN_FOR: TimeDelta = TimeDelta::days(7);

/// So many of the newest sales are looked at for something to buy.
const LOOKED_AT: i64 = 100;

/// Puts one voucher that is free and one that is paid for on sale, unless something is on sale with vouchers left.
///
/// # Errors
/// When the database is gone.
pub(super) async fn put_on_sale(pool: &PgPool, now: DateTime<Utc>) -> anyhow::Result<()> {
    let known = vouchers::list(pool, None, LOOKED_AT).await?;
    let can_be_bought = known.iter().any(|it| it.status_at(now) == SaleStatus::OnSale);
    if !can_be_bought {
        for sale in samples(now) {
            vouchers::create(pool, &sale, now).await?;
        }
    }
    Ok(())
}

/// Their names are in both languages: a voucher has one name.
fn samples(now: DateTime<Utc>) -> [NewVoucher; 2] {
    let tea = NewVoucher::free("Tea for two · 双人下午茶", 100, now, now + OPEN_FOR);
    let paid = NewVoucher {
        title: "100 yuan for 80 · 80 元抵 100 元".to_owned(),
        subtitle: Some("Pay in the sandbox: no money moves · 沙箱支付，不动真钱".to_owned()),
        terms: Some("One a person. · 每人限购一张。".to_owned()),
        value: Some(10_000),
        price: Some(8_000),
        ..NewVoucher::free("", 20, now, now + OPEN_FOR)
    };
    // The shop shows the newest first.
    [paid, NewVoucher { value: Some(3_000), ..tea }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_sales_as_an_operator_may_make_them() {
        for sale in samples(DateTime::UNIX_EPOCH) {
            assert_eq!(sale.check(DateTime::UNIX_EPOCH), Ok(()), "{}", sale.title);
        }
    }
}
