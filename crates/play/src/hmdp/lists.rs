//! The list of vouchers as it is sent.

use std::collections::HashMap;

use axum::body::Bytes;
use chrono::Local;
use group_commit::{Batcher, Limits};
use seckill::model::Voucher;
use seckill::store::{Database, StoreError, vouchers};
use serde::Serialize;

use super::answer::success_body;
use super::local_time;

/// Vouchers in a list, the newest: the application's list has no pages.
const MAX_LISTED: i64 = 100;

/// Requests for the list that one read serves.
const READ_TOGETHER: usize = 256;

/// The list of a shop as it is sent. One read serves all who asked before it began. So the list has what was put on
/// sale a moment ago, as the application's has, and many who ask at once cost the database one read after the other.
pub(super) type ListAnswers = Batcher<i64, Bytes, StoreError>;

/// The lists of what is in `database`. There are no shops: each has all vouchers.
pub(super) fn list_answers(database: &Database) -> ListAnswers {
    let database = database.clone();
    let limits = Limits::batches_of(READ_TOGETHER).waiting(usize::MAX);
    Batcher::new(limits, move |shops: Vec<i64>| {
        let database = database.clone();
        async move {
            let vouchers = vouchers::list(database.pool(), None, MAX_LISTED).await?;
            let mut lists = HashMap::new();
            let list_of = |id| lists.entry(id).or_insert_with(|| list_body(id, &vouchers)).clone();
            Ok(shops.into_iter().map(list_of).collect())
        }
    })
}

/// A voucher as the application lists it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HmdpVoucher<'a> {
    id: i64,
    shop_id: i64,
    title: &'a str,
    sub_title: &'a str,
    rules: &'a str,
    pay_value: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    actual_value: Option<i64>,
    /// A flash sale.
    r#type: u8,
    /// To be seen.
    status: u8,
    stock: i32,
    begin_time: String,
    end_time: String,
}

fn list_body(shop_id: i64, vouchers: &[Voucher]) -> Bytes {
    let listed = vouchers.iter().map(|voucher| HmdpVoucher {
        id: voucher.id.get(),
        shop_id,
        title: &voucher.title,
        sub_title: &voucher.subtitle,
        rules: &voucher.terms,
        pay_value: voucher.price,
        actual_value: voucher.value,
        r#type: 1,
        status: 1,
        stock: voucher.stock,
        begin_time: local_time::written(&Local, voucher.begin_time),
        end_time: local_time::written(&Local, voucher.end_time),
    });
    success_body(Some(listed.collect::<Vec<_>>()))
}
