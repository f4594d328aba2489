//! Strategy `group-commit`: purchases that wait go together, and each is judged for itself.
//! What it promises with every strategy is in `purchase`.

#[allow(unused_imports)]
use crate::worlds::*;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::poll;
use seckill::model::{Outcome, UserId, VoucherId};
use seckill::purchase::{PurchaseError, Purchases, Strategy};
use sqlx::Connection;
use tokio::task::JoinSet;

use crate::purchase::group_commit_faults::nothing_was_done;
use crate::purchase::strategies::rush;
use testkit::shop::world::{World, each_of, each_strategy, user};
use testkit::wait::{eventually, must};

/// The strategies that commit together.
pub const GROUPS: [Strategy; 2] = [Strategy::GroupCommit, Strategy::GroupCommitUnlocked];

pub type Answer = Result<Outcome, PurchaseError>;

#[easy_ext::ext(GroupCommitWorld)]
pub impl World {
    /// By how many transactions the orders of `voucher` were written.
    async fn transactions(&self, voucher: VoucherId) -> i64 {
        sqlx::query_scalar("select count(distinct xmin::text) from orders where voucher_id = $1")
            .bind(voucher.get())
            .fetch_one(self.database.pool())
            .await
            .unwrap()
    }
}

/// Users `first` to `last`, each once, in tasks of their own.
pub fn buyers(
    shop: &Arc<Purchases>,
    voucher: VoucherId,
    first: i64,
    last: i64,
) -> JoinSet<(i64, Answer)> {
    let mut tasks = JoinSet::new();
    for number in first..=last {
        let shop = Arc::clone(shop);
        tasks.spawn(async move { (number, shop.buy(user(number), voucher).await) });
    }
    tasks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn purchases_that_wait_are_committed_together_and_one_that_comes_alone_goes_alone() {
    each_of(GROUPS, async |world| {
        world.users(210).await;
        let voucher = world.voucher(1000).await;
        let shop = world.shop().await;
        for number in 201..=210 {
            assert_eq!(shop.buy(user(number), voucher.id).await.unwrap().code(), "ordered");
        }
        assert_eq!(world.transactions(voucher.id).await, 10);
        let (codes, orders) = rush(&[Arc::clone(&shop)], voucher.id, 200, 1).await;
        assert_eq!((codes["ordered"], orders.len()), (200, 200));
        let transactions = world.transactions(voucher.id).await - 10;
        println!("200 orders in {transactions} transactions");
        assert!(transactions < 100, "{transactions}");
        assert!(world.audit().await.holds);
    })
    .await;
}

/// A trigger of the database refuses one user's orders.
async fn poison(world: &World, number: i64) {
    let statement = format!(
        "create function refuse() returns trigger language plpgsql as
         $$ begin raise exception 'poisoned'; end $$;
         create trigger refuse before insert on orders for each row
         when (new.user_id = {number}) execute function refuse()"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(world.database.pool()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_poisoned_member_fails_alone() {
    each_of(GROUPS, async |world| {
        world.users(60).await;
        let voucher = world.voucher(100).await;
        let shop = world.shop().await;
        shop.sale(voucher.id).await.unwrap();
        poison(&world, 30).await;
        world.wait_long_for_rows().await;
        let row = world.hold_the_row().await;
        let first = buyers(&shop, voucher.id, 1, 1);
        world.until_one_waits().await;
        let others = buyers(&shop, voucher.id, 2, 60);
        row.close().await.unwrap();
        let (first, others) = (first.join_all().await, others.join_all().await);
        for (number, answer) in first.into_iter().chain(others) {
            if number == 30 {
                assert!(answer.is_err_and(|error| !error.retry_may_help()), "the poisoned one");
            } else {
                assert_eq!(answer.unwrap().code(), "ordered", "{number}");
            }
        }
        let audit = world.audit().await;
        assert!(audit.holds && audit.orders == 59, "{audit:?}");
        assert!(!world.any_lock(60).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_shutdown_waits_for_purchases_that_wait_for_their_batch() {
    each_of(GROUPS, async |world| {
        world.users(100).await;
        let voucher = world.voucher(100).await;
        let shop = world.shop().await;
        shop.sale(voucher.id).await.unwrap();
        world.wait_long_for_rows().await;
        let row = world.hold_the_row().await;
        let each = (1..=100).map(async |number| shop.buy(user(number), voucher.id).await);
        let mut buying = pin!(join_all(each));
        // Each is under way now, in a task of its own.
        assert!(poll!(&mut buying).is_pending());
        world.until_one_waits().await;
        let shutdown = async {
            must("the shutdown ends", shop.shutdown()).await;
            world.audit().await
        };
        let free = async { row.close().await.unwrap() };
        let (told, at_the_end, ()) = tokio::join!(buying, shutdown, free);
        assert!(told.iter().all(|answer| matches!(answer, Ok(Outcome::Ordered(_)))), "{told:?}");
        assert_eq!(at_the_end.orders, 100);
        assert!(at_the_end.holds && !world.any_lock(100).await);
    })
    .await;
}

/// A row that somebody holds keeps nobody from another.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn while_the_row_of_one_voucher_is_held_the_others_are_sold() {
    each_strategy(async |world| {
        world.users(40).await;
        let (held, free) = (world.voucher(50).await.id, world.voucher(50).await.id);
        let shop = world.shop().await;
        for voucher in [held, free] {
            shop.sale(voucher).await.unwrap();
        }
        let row = world.begin("select from seckill_vouchers where voucher_id = 1 for update").await;
        assert_eq!(held.get(), 1);
        nothing_was_done((1, shop.buy(user(1), held).await));
        // Its circuit is open: the others hear so without waiting for the row.
        let refused = shop.buy(user(3), held).await;
        assert!(matches!(refused, Err(PurchaseError::CircuitOpen)), "{refused:?}");
        let sold = buyers(&shop, free, 10, 40).join_all().await;
        assert!(sold.iter().all(|(_, answer)| answer.is_ok()), "{sold:?}");
        row.close().await.unwrap();
        eventually("the voucher is sold again", async || shop.buy(user(3), held).await.is_ok())
            .await;
        must("the shutdown ends", shop.shutdown()).await;
        assert!(!world.any_lock(40).await);
        let audits = seckill::purchase::audit::run(world.database.pool(), None).await.unwrap();
        assert!(audits.iter().all(|audit| audit.holds), "{audits:?}");
        assert_eq!((audits[0].orders, audits[1].orders), (1, 31));
    })
    .await;
}

/// More vouchers than batches may be in flight at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_vouchers_on_sale_at_once_are_each_sold_by_their_own_books() {
    each_strategy(async |world| {
        world.users(200).await;
        let mut vouchers = Vec::new();
        for _ in 0..20 {
            vouchers.push(world.voucher(5).await.id);
        }
        let shop = world.shop().await;
        let mut tasks = JoinSet::new();
        for number in 1..=200 {
            let shop = Arc::clone(&shop);
            let voucher = vouchers[number as usize % 20];
            tasks.spawn(async move { buy_when_there_is_room(&shop, user(number), voucher).await });
        }
        let codes = tasks.join_all().await;
        assert_eq!(codes.iter().filter(|code| **code == "ordered").count(), 100, "{codes:?}");
        assert!(codes.iter().all(|code| matches!(*code, "ordered" | "sold_out")));
        let audits = seckill::purchase::audit::run(world.database.pool(), None).await.unwrap();
        assert!(audits.iter().all(|audit| audit.holds && audit.stock == 0), "{audits:?}");
    })
    .await;
}

/// As a client that obeys `Retry-After`: on a machine that is busy with other tests an order's turn may not come within
/// its second.
async fn buy_when_there_is_room(
    shop: &Arc<Purchases>,
    user: UserId,
    voucher: VoucherId,
) -> &'static str {
    loop {
        match shop.buy(user, voucher).await {
            Err(error) if error.retry_may_help() && !error.outcome_unknown() => {
                tokio::time::sleep(error.failure().answer().retry_after.unwrap()).await;
            }
            bought => return bought.unwrap().code(),
        }
    }
}
