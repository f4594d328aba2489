//! Two steps of one order, or a step and a purchase, at the same moment. The first is held open in a
//! transaction of its own until the second waits for it, and then committed: so each order of the two is
//! played, every time.

mod gateway;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::future::join_all;
use seckill::model::{Clock, Order, Outcome, Refusal, Voucher, VoucherId};
use seckill::orders::{Orders, StepAnswer};
use seckill::purchase::Purchases;
use seckill::store::order_steps::Actor;
use seckill::store::payments::{Money, Notice, NoticeOutcome, Opened, PaymentId, open};
use seckill::store::step_turns::NOTICES_OF_A_VOUCHER;
use seckill::store::vouchers::{self, Changed, VoucherChange};

use tokio::task::yield_now;

use testkit::shop::held_rows::{set_lock_timeouts, set_wait_behind_sales};
use testkit::shop::world::{PRICE, World, midnight, user};
use testkit::wait::eventually;

/// A shop with one sale, in which user 1 has the unpaid order, and a payment of it.
struct Stage {
    world: World,
    shop: Arc<Purchases>,
    orders: Orders,
    voucher: Voucher,
    order: Order,
    payment: PaymentId,
}

impl Stage {
    async fn new(stock: i32) -> Self {
        let world = World::new().await;
        world.users(5).await;
        patient(&world).await;
        let voucher = world.priced_voucher(stock).await;
        let shop = world.shop().await;
        let orders = world.orders(&shop);
        let order = bought(&shop, 1, voucher.id).await;
        let opened = open(world.database.steps(), &order, user(1), Duration::from_secs(4)).await;
        let Opened::Ask { payment, attempt: 1 } = opened.unwrap() else {
            panic!("the order is unpaid");
        };
        Self { world, shop, orders, voucher, order, payment: payment.id }
    }

    async fn pay(&self, transaction: &str) -> NoticeOutcome {
        let money = Money { transaction: transaction.to_owned(), amount: PRICE };
        let notice = Notice::Succeeded(money);
        self.orders.take_notice(&self.payment.to_string(), &notice).await.unwrap()
    }

    async fn pass(&self, seconds: i64) {
        self.world.set_time(self.world.clock.now() + TimeDelta::seconds(seconds)).await;
    }

    async fn cancel(&self) {
        let cancelled = self.orders.cancel(self.order.id, Actor::Buyer(user(1))).await;
        assert!(matches!(cancelled.unwrap(), StepAnswer::Done(_)));
    }

    /// Every promise was kept, so many orders are live, and so much is left.
    async fn ends(&self, orders: i64, stock: i64) {
        let audit = &self.world.audits_hold().await[0];
        assert_eq!((audit.orders, audit.stock), (orders, stock));
    }
}

/// Rows are waited for longer than a busy machine takes to play a race.
pub async fn patient(world: &World) {
    set_lock_timeouts(world.database.pool(), "lock_timeout", "10s").await;
    set_wait_behind_sales(world.database.pool(), "10s").await;
}

pub async fn bought(shop: &Arc<Purchases>, number: i64, voucher: VoucherId) -> Order {
    match shop.buy(user(number), voucher).await.unwrap() {
        Outcome::Ordered(order) => order,
        refused => panic!("{refused:?}"),
    }
}

async fn code(shop: &Arc<Purchases>, number: i64, voucher: VoucherId) -> &'static str {
    shop.buy(user(number), voucher).await.unwrap().code()
}

#[tokio::test]
async fn of_twelve_notifications_at_once_one_pays() {
    let stage = Stage::new(1).await;
    // As many as may wait for one voucher.
    let said = join_all((0..NOTICES_OF_A_VOUCHER).map(|_| stage.pay("first"))).await;
    let count = |outcome| said.iter().filter(|it| **it == outcome).count();
    assert_eq!(count(NoticeOutcome::Applied), 1, "{said:?}");
    assert_eq!(count(NoticeOutcome::Repeated), said.len() - 1, "{said:?}");
    stage.ends(1, 0).await;
}

/// A change of a voucher and a purchase: whichever has the row first is obeyed.
#[tokio::test]
async fn a_sale_that_changes_sells_by_the_change_or_before_it() {
    let paused = VoucherChange { paused: Some(true), ..VoucherChange::default() };
    let closed = VoucherChange { end_time: Some(midnight()), ..VoucherChange::default() };
    for (sql, change, told) in
        [("paused = true", paused, "sale_paused"), ("end_time = sale_time()", closed, "sale_ended")]
    {
        // The change is first.
        let stage = Stage::new(2).await;
        let first = format!(
            "update vouchers set latest_end_time = sale_time() + interval '1 day';
             update seckill_vouchers set {sql}, revision = revision + 1"
        );
        let late = stage.world.behind(&first, code(&stage.shop, 2, stage.voucher.id)).await;
        assert_eq!(late, told);
        stage.ends(1, 1).await;
        // The purchase is first.
        let stage = Stage::new(2).await;
        let id = stage.voucher.id;
        let sold = format!("select * from sell({id}, array[77], array[2], array[sale_time()])");
        let changed = vouchers::change(stage.world.database.pool(), id, &change);
        let changed = stage.world.behind(&sold, changed).await.unwrap();
        assert!(matches!(changed, Changed::Voucher(voucher) if voucher.stock == 0), "{told}");
        eventually("the shop knows of the change", async || {
            code(&stage.shop, 3, stage.voucher.id).await == told
        })
        .await;
        assert_eq!(code(&stage.shop, 2, stage.voucher.id).await, "already_bought");
    }
}

/// The one voucher comes back while a thousand ask for it on two servers: one of them gets it, and nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_voucher_that_comes_back_is_sold_once() {
    let stage = Stage::new(1).await;
    stage.world.users(1_001).await;
    let shops = [Arc::clone(&stage.shop), stage.world.shop().await];
    let voucher = stage.voucher.id;
    let is_gone = AtomicBool::new(false);
    let ask = async |number: i64| {
        loop {
            match shops[number as usize % 2].buy(user(number), voucher).await {
                Ok(Outcome::Ordered(_) | Outcome::Refused(Refusal::AlreadyBought { .. })) => {
                    is_gone.store(true, Ordering::SeqCst);
                    return true;
                }
                Ok(Outcome::Refused(Refusal::SoldOut)) if is_gone.load(Ordering::SeqCst) => {
                    return false;
                }
                Ok(Outcome::Refused(Refusal::SoldOut)) => {}
                Ok(other) => panic!("user {number} was told {other:?}"),
                // A machine that is busy enough refuses some of the thousand: they ask again.
                Err(error) => assert!(error.retry_may_help(), "{error}"),
            }
            // Memory answers without waiting: the cancellation gets its turn.
            yield_now().await;
        }
    };
    let crowd = join_all((2..=1_001).map(ask));
    let (sold, ()) = tokio::join!(crowd, stage.cancel());
    assert_eq!(sold.into_iter().filter(|sold| *sold).count(), 1);
    stage.ends(1, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cancels_buys_again_when_the_pause_is_over_also_on_another_server() {
    let stage = Stage::new(1).await;
    let other = stage.world.shop().await;
    // Both servers know of the order, and that nothing is left.
    assert_eq!(code(&stage.shop, 1, stage.voucher.id).await, "already_bought");
    assert_eq!(code(&other, 1, stage.voucher.id).await, "already_bought");
    stage.cancel().await;
    stage.pass(1).await;
    // This server sells at once; the other one within the second for which memory is believed.
    let again = bought(&stage.shop, 1, stage.voucher.id).await;
    let cancelled = stage.orders.cancel(again.id, Actor::Buyer(user(1))).await.unwrap();
    assert!(matches!(cancelled, StepAnswer::Done(_)));
    stage.pass(2).await;
    eventually("the other server sells again", async || {
        code(&other, 1, stage.voucher.id).await == "ordered"
    })
    .await;
    assert_eq!(code(&stage.shop, 2, stage.voucher.id).await, "sold_out");
    stage.ends(1, 0).await;
}

/// The stock goes 0, 1, 0 between two looks: an owner is told of the order, and a former owner is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_comes_back_to_the_same_stock_is_not_the_same_sale() {
    let stage = Stage::new(1).await;
    let other = stage.world.shop().await;
    // The other server has the owners in memory.
    let sale = other.sale(stage.voucher.id).await.unwrap().unwrap();
    eventually("the owners are in memory", async || {
        assert_eq!(code(&other, 2, stage.voucher.id).await, "sold_out");
        let sale = other.sale(stage.voucher.id).await.unwrap().unwrap();
        other.knows_owners_of(&sale.voucher)
    })
    .await;
    assert_eq!(sale.voucher.stock, 0);
    stage.cancel().await;
    bought(&stage.shop, 3, stage.voucher.id).await;
    eventually("the other server knows the new owner", async || {
        code(&other, 3, stage.voucher.id).await == "already_bought"
    })
    .await;
    assert_eq!(code(&other, 1, stage.voucher.id).await, "sold_out");
    assert_eq!(code(&other, 3, stage.voucher.id).await, "already_bought");
}
