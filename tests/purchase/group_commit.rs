//! Strategy `group-commit`: purchases that wait go together, and each is judged for itself.
//! What it promises with every strategy is in `purchase`.

use std::sync::Arc;

use futures_util::future::join_all;
use seckill::purchase::PurchaseError;
use sqlx::Connection;

use super::placing::{orders_in_good_books, transactions};
use super::shops::{GROUPS, asks_again, buyers, no_lock, rush};
use testkit::shop::world::{World, each_of, each_strategy, run_sql, user};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn purchases_that_wait_are_committed_together_and_one_that_comes_alone_goes_alone() {
    each_of(GROUPS, async |world| {
        world.users(210).await;
        let voucher = world.voucher(1000).await;
        let shop = world.shop().await;
        for number in 201..=210 {
            assert_eq!(shop.buy(user(number), voucher.id).await.unwrap().code(), "ordered");
        }
        assert_eq!(transactions(&world).await, 10);
        let (codes, orders) = rush(&[Arc::clone(&shop)], voucher.id, 200, 1).await;
        assert_eq!((codes["ordered"], orders.len()), (200, 200));
        let transactions = transactions(&world).await - 10;
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
    run_sql(&world.database_url, &statement).await;
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
        assert_eq!(orders_in_good_books(&world).await, 59);
        assert!(no_lock(&world, 60).await);
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
        let may_help = PurchaseError::retry_may_help;
        let codes = (1..=200)
            .map(|number| asks_again(&shop, vouchers[number as usize % 20], number, may_help));
        let codes = join_all(codes).await;
        assert_eq!(codes.iter().filter(|code| **code == "ordered").count(), 100, "{codes:?}");
        assert!(codes.iter().all(|code| matches!(*code, "ordered" | "sold_out")));
        let audits = world.audits_hold().await;
        assert!(audits.iter().all(|audit| audit.stock == 0), "{audits:?}");
    })
    .await;
}
