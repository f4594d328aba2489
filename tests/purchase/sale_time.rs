//! Sales begin and end by the database's clock, whatever the clocks of the nodes show.

use std::sync::Arc;

use chrono::TimeDelta;
use seckill::model::{Code, ManualClock, Member, Outcome, Refusal};
use seckill::store::cancelled_sales;

use testkit::shop::world::{World, each_strategy, midnight, run_sql, user};

#[tokio::test]
async fn a_node_whose_clock_is_an_hour_off_sells_when_the_sale_is_on_and_not_otherwise() {
    each_strategy(async |world| {
        world.users(2).await;
        let (hour, half) = (TimeDelta::hours(1), TimeDelta::minutes(30));
        let running = world.voucher_between(9, midnight() - half, midnight() + half).await.id;
        let coming = world.voucher_between(9, midnight() + half, midnight() + hour).await;
        let over = world.voucher_between(9, midnight() - hour, midnight() - half).await.id;
        for (number, off) in [(1, hour), (2, -hour)] {
            let clock = Arc::new(ManualClock::starting_at(midnight() + off));
            let node = world.purchases_by(clock, world.options()).await;
            let buyer = user(number);
            let Outcome::Ordered(order) = node.buy(buyer, running).await.unwrap() else {
                panic!("the sale is on, {off} off");
            };
            assert_eq!(order.created_at, midnight());
            let begin_time = coming.begin_time;
            let early = node.buy(buyer, coming.id).await.unwrap();
            let not_started = Refusal::from(Code::SaleNotStarted);
            assert_eq!(early, Outcome::Refused(not_started.with(Member::BeginTime(begin_time))));
            let late = node.buy(buyer, over).await.unwrap();
            assert_eq!(late, Outcome::Refused(Code::SaleEnded.into()));
        }
        world.audits_hold().await;
    })
    .await;
}

#[tokio::test]
async fn an_order_outside_the_sale_is_a_violation_of_the_books() {
    let world = World::new().await;
    world.users(2).await;
    world.voucher_between(2, midnight(), midnight() + TimeDelta::hours(1)).await;
    let placed = "insert into orders (id, user_id, voucher_id, created_at)
                  select number, number, voucher_id, placed_at
                  from seckill_vouchers, unnest(array[begin_time, end_time]) with ordinality it (placed_at, number);
                  update seckill_vouchers set stock = 0";
    run_sql(&world.database_url, placed).await;
    let audit = world.audit().await;
    let expected = ["sale_window: 1 orders before the sale began or after it ended: 2"];
    let named: Vec<String> = audit.violations.iter().map(ToString::to_string).collect();
    assert_eq!(named, expected);
}

/// The sale was cancelled for good, and then the database's clock goes back.
#[tokio::test]
async fn a_cancelled_sale_sells_nothing_whatever_the_clock_says() {
    each_strategy(async |world| {
        world.users(2).await;
        let hour = TimeDelta::hours(1);
        let voucher = world.voucher_between(2, midnight() - hour, midnight() + hour).await.id;
        let steps = world.database.steps();
        assert!(cancelled_sales::cancel(steps, voucher).await.unwrap());
        cancelled_sales::close(steps, voucher).await.unwrap();
        world.set_time(midnight() - TimeDelta::seconds(2)).await;
        let node = world.shop().await;
        let refused = Outcome::Refused(Code::SaleEnded.into());
        assert_eq!(node.buy(user(1), voucher).await.unwrap(), refused);
        // An order that nobody ends is named.
        let place = "insert into orders (id, user_id, voucher_id, created_at)
                     select 1, 1, voucher_id, '2026-11-10T23:00:00Z' from seckill_vouchers;
                     update seckill_vouchers set stock = 1";
        run_sql(&world.database_url, place).await;
        let audit = world.audit().await;
        let named: Vec<&str> = audit.violations.iter().map(|it| it.what.as_str()).collect();
        assert_eq!(named, ["1 orders are open though their sale was cancelled and wound up: 1"]);
    })
    .await;
}
