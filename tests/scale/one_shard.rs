//! What a purchase costs a distributed database: one call to the coordinator, one to one worker.

use std::sync::Arc;

use seckill::model::{Clock, SystemClock};
use seckill::orders::Orders;
use seckill::purchase::{Purchases, audit};
use seckill::store::notices::{Money, Notice, NoticeOutcome};
use seckill::store::order_steps::{Actor, AdministratorStep};
use seckill::store::refunds;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::citus::Citus;
use super::routes::world_on;
use crate::orders::races::bought;
use testkit::shop::world::{World, user};

/// The commands that the coordinator sent to workers since its log was `before`.
fn remote_commands(log: &str, before: usize) -> Vec<&str> {
    log[before..].lines().filter_map(|line| Some(line.split_once("NOTICE:  issuing ")?.1)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_is_one_command_to_one_worker_and_no_two_phase_commit() {
    let Some(cluster) = Citus::distributed(2).await else { return };
    let log_all = "alter database seckill set citus.log_remote_commands = on;
        alter database seckill set log_statement = 'all'";
    cluster.coordinator.run(log_all).await;
    let world = world_on(&cluster).await;
    world.clock.set(SystemClock.now());
    world.users(30).await;
    let voucher = world.voucher(20).await.id;
    let shop = world.purchases(world.options()).await;
    // The first one makes the connections and learns the sale.
    bought(&shop, 1, voucher).await;
    for number in 2..=20 {
        // Each in turn, so that each is a transaction of its own; also after the sixth, from which on the
        // coordinator may plan a prepared statement for all its calls at once.
        let before = cluster.coordinator.log().len();
        bought(&shop, number, voucher).await;
        let log = cluster.coordinator.log();
        let of_orders = |line: &&str| !line.contains("seckill_vouchers");
        let commands: Vec<_> =
            remote_commands(&log, before).into_iter().filter(of_orders).collect();
        assert_eq!(commands.len(), 1, "{commands:#?}");
        assert!(commands[0].contains("FROM public.sell("), "{commands:#?}");
        let calls = log[before..].matches(": select * from sell").count();
        assert_eq!(calls, 1, "{}", &log[before..]);
        assert!(!log[before..].contains("PREPARE TRANSACTION"));
    }
    // So is each step of an order's life, of the 20 orders one after the other.
    let orders = world.orders(&shop);
    let priced = world.priced_voucher(20).await.id;
    for number in 1..=8 {
        let order = bought(&shop, number, priced).await;
        let before = cluster.coordinator.log().len();
        let payment = orders.pay(order.id, user(number)).await.unwrap().id.to_string();
        let transaction = format!("t{number}");
        let paid = Notice::Succeeded(Money { transaction, amount: order.amount, return_id: None });
        assert_eq!(orders.take_notice(&payment, &paid).await.unwrap(), NoticeOutcome::Applied);
        orders.administer(AdministratorStep::Refund, order.id, None).await.unwrap();
        let (pool, payment) = (world.database.pool(), payment.parse().unwrap());
        let waiting = refunds::find_waiting(pool, payment).await.unwrap().unwrap();
        assert_eq!((&*waiting.refund_id, waiting.amount), (&*payment.to_string(), order.amount));
        let finished = refunds::finish(pool, payment, &waiting.refund_id, waiting.amount).await;
        assert_eq!(finished.unwrap(), NoticeOutcome::Returned);
        let unpaid = bought(&shop, number + 10, priced).await;
        orders.cancel(unpaid.id, Actor::Administrator(None)).await.unwrap();
        let log = cluster.coordinator.log();
        let steps =
            ["open_payment", "apply_payment", "refund_order", "finish_refund", "cancel_order"];
        let sent = remote_commands(&log, before);
        for step in steps {
            let calls = sent.iter().filter(|it| it.contains(&format!("public.{step}("))).count();
            assert_eq!(calls, 1, "{step}: {sent:#?}");
        }
        assert!(!log[before..].contains("PREPARE TRANSACTION"));
    }
    a_held_order_keeps_its_sale_for_a_moment(&world, &shop).await;
    the_same_money_is_found(&world, &shop, &orders).await;
    // The control: what two workers have to agree on is seen in the log.
    let before = cluster.coordinator.log().len();
    cluster.coordinator.run("update users set nickname = 'one' where id = 1").await;
    assert!(cluster.coordinator.log()[before..].contains("PREPARE TRANSACTION"));
    shop.shutdown().await;
}

/// The worker that locks a sale for a step counts the short limit too, and not the step's own.
async fn a_held_order_keeps_its_sale_for_a_moment(world: &World, shop: &Arc<Purchases>) {
    let voucher = world.priced_voucher(1).await.id;
    let order = bought(shop, 9, voucher).await.id;
    let mut session = PgConnection::connect(&world.database_url).await.unwrap();
    let patient =
        "alter function cancel_order set lock_timeout = '60s'; set statement_timeout = '20s'";
    sqlx::raw_sql(patient).execute(&mut session).await.unwrap();
    let held = format!(
        "update orders set updated_at = updated_at where id = {order} and voucher_id = {voucher}"
    );
    let holder = world.begin(&held).await;
    let call = format!("select refusal from cancel_order({voucher}, {order}, 1::smallint, 9)");
    let cancelled = sqlx::raw_sql(AssertSqlSafe(call)).execute(&mut session).await;
    let error = cancelled.unwrap_err();
    let code = error.as_database_error().and_then(|error| error.code());
    assert_eq!(code.as_deref(), Some("55P03"), "{error}");
    holder.close().await.unwrap();
}

/// No index of a distributed table is unique over all vouchers: the same money pays for orders of two of them, if
/// the gateway says so, and an audit over all finds it.
async fn the_same_money_is_found(world: &World, shop: &Arc<Purchases>, orders: &Orders) {
    for _ in 0..2 {
        let order = bought(shop, 9, world.priced_voucher(1).await.id).await;
        let payment = orders.pay(order.id, user(9)).await.unwrap().id.to_string();
        let money =
            Money { transaction: "the same".to_owned(), amount: order.amount, return_id: None };
        let settled = orders.take_notice(&payment, &Notice::Succeeded(money)).await.unwrap();
        assert_eq!(settled, NoticeOutcome::Applied);
    }
    let audits = audit::run(world.database.pool(), None).await.unwrap();
    let mut found = audits.iter().flat_map(|audit| &audit.violations);
    assert!(found.any(|it| it.what.contains("applied twice")), "{audits:?}");
}
