//! *Idea.* The production strategy: the purchases of one voucher that wait together go into one
//! transaction, which is committed once for all of them; the lock per user and the constraints
//! stay.
//! *Holds.* Everything, and faster the greater the crowd: a row is locked, and the disk is
//! waited for, once a batch.
//! *Breaks when* the Redis of the lock is down: nobody buys, and nothing is lost. When an asynchronous standby is
//! promoted, as in r18a. With one buyer at a time it is no faster than that.
//! *Next.* More vouchers, more nodes: `docs/benchmarks.md` says where the next limit is.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Answer, Design, Purchase, Resources, RungError};
use seckill::model::{Code, Outcome, SystemClock};
use seckill::purchase::{PurchaseError, Purchases, PurchasesOptions, Strategy};
use seckill::store::Database;

const LEASE: Duration = Duration::from_secs(1);

struct GroupCommit {
    purchases: Arc<Purchases>,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let database = Database::new(&resources.database_url)?;
    let (redis, clock) = (resources.first_redis()?, Arc::new(SystemClock));
    let strategy = Strategy::GroupCommit;
    // A lease shorter than in production: the lab waits for its end.
    let options = PurchasesOptions { strategy, lease: LEASE, ..PurchasesOptions::default() };
    let purchases = Purchases::start(database, redis, resources.keys, clock, options).await?;
    Ok(Box::new(GroupCommit { purchases }))
}

#[async_trait]
impl Design for GroupCommit {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        match self.purchases.buy(purchase.user, purchase.voucher).await? {
            Outcome::Ordered(order) => Ok(Answer::Ordered(order.id.get())),
            Outcome::Refused(refusal) => match refusal.code {
                Code::AlreadyBought => Ok(Answer::AlreadyBought),
                Code::OrderInProgress => Ok(Answer::InProgress),
                Code::SoldOut => Ok(Answer::SoldOut),
                // A voucher that is not on sale is no design's business.
                _ => Err(PurchaseError::Overloaded.into()),
            },
        }
    }

    async fn shutdown(&self) {
        self.purchases.shutdown().await;
    }
}
