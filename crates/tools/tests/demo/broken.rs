//! Demos on databases that break the promises: the verdict must be able to fail.

use std::process::Output;

use private_stores::{Home, Plan, Servers};
use serde_json::Value;
use sqlx::Executor;

use super::{demo, number, told};
use testkit::processes::{place, seckill};

/// What every sabotage is made of: `when_tenth` happens after every tenth order.
macro_rules! after_every_tenth_order {
    ($prelude:literal, $action:literal) => {
        concat!(
            $prelude,
            "create sequence orders_seen;
             create function sabotage() returns trigger language plpgsql as $$
             begin
               if nextval('orders_seen') % 10 = 0 then ",
            $action,
            " end if;
               return null;
             end $$;
             create trigger sabotage after insert on orders
               for each row when (pg_trigger_depth() = 0) execute function sabotage();"
        )
    };
}

/// A small demo on a database that was prepared with `sabotage`. One order a transaction: a batch
/// might sell all before anything of the sabotage is seen. One attempt a buyer: so as many orders are
/// written as there are vouchers, whatever the sabotage takes away.
async fn demo_on(sabotage: &'static str, more: &[&str]) -> (Output, Value) {
    let plan = Plan { home: Home::Throwaway, postgres: true, redis: true, durable: false };
    let started = tokio::task::spawn_blocking(move || Servers::start(&plan));
    let servers = started.await.unwrap().unwrap();
    let (database, redis) = (servers.database_url().unwrap(), servers.redis_url().unwrap());
    let migrate = seckill(&["migrate"])
        .env("DATABASE_URL", database)
        .env("REDIS_URL", redis)
        .output()
        .await
        .unwrap();
    assert!(migrate.status.success(), "{migrate:?}");
    let pool = sqlx::PgPool::connect(database).await.unwrap();
    pool.execute(sabotage).await.unwrap();
    pool.close().await;

    let place = place();
    let arguments = ["--stock", "100", "--users", "300", "--attempts", "1", "--strategy", "locked"];
    let arguments = [&arguments[..], more].concat();
    let done = demo(place.path(), &arguments, Some((database, redis))).await;
    tokio::task::spawn_blocking(|| servers.stop()).await.unwrap().unwrap();
    done
}

/// Exit status 1, `BROKEN`, and the promise by its words.
fn is_broken(output: &Output, verdict: &Value, words: &str) {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(verdict["holds"], false, "{verdict}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("BROKEN") && said.contains(words), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_vanish_are_lost() {
    let (output, verdict) =
        demo_on(after_every_tenth_order!("", "delete from orders where id = new.id;"), &[]).await;
    is_broken(&output, &verdict, "10 acknowledged orders lost");
    assert_eq!(told(&verdict, "ordered"), number(&verdict, "orders") + number(&verdict, "lost"));
    assert_eq!(number(&verdict, "undersold"), 10, "{verdict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn second_orders_are_duplicates_and_oversold() {
    let (output, verdict) = demo_on(
        after_every_tenth_order!(
            "drop index orders_one_live_per_user;",
            "insert into orders (id, user_id, voucher_id)
         values (new.id - 1000000000000, new.user_id, new.voucher_id);"
        ),
        &[],
    )
    .await;
    is_broken(&output, &verdict, "10 sold twice to one buyer");
    assert_eq!(number(&verdict, "duplicates"), 10, "{verdict}");
    assert_eq!(number(&verdict, "oversold"), 10, "{verdict}");
    assert_eq!(number(&verdict, "orders"), 110, "{verdict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_change_hands_are_lost() {
    let (output, verdict) = demo_on(
        after_every_tenth_order!(
            "",
            "update orders set user_id = 1000000 + new.user_id where id = new.id;"
        ),
        &[],
    )
    .await;
    is_broken(&output, &verdict, "10 acknowledged orders lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_that_vanishes_is_undersold() {
    let (output, verdict) = demo_on(
        after_every_tenth_order!(
            "",
            "update seckill_vouchers set stock = greatest(stock - 1, 0)
         where voucher_id = new.voucher_id;"
        ),
        &[],
    )
    .await;
    is_broken(&output, &verdict, "left unsold while buyers wanted them");
    assert!(number(&verdict, "undersold") > 0, "{verdict}");
}

/// Three vouchers with a hundred buyers each, of which one is sabotaged.
#[tokio::test(flavor = "multi_thread")]
async fn one_broken_sale_of_three_is_named_and_breaks_the_whole() {
    let sabotage = after_every_tenth_order!(
        "",
        "delete from orders where id = new.id
           and voucher_id = (select max(voucher_id) from seckill_vouchers);"
    );
    let (output, verdict) = demo_on(sabotage, &["--vouchers", "3"]).await;
    is_broken(&output, &verdict, "BROKEN for 1 of 3 vouchers: ");
    let vouchers = verdict["vouchers"].as_array().unwrap();
    let holds: Vec<_> = vouchers.iter().map(|voucher| voucher["holds"] == true).collect();
    assert_eq!(holds, [true, true, false], "{verdict}");
    let lost = number(&verdict, "lost");
    assert!(lost > 0 && lost == number(&vouchers[2], "lost"), "{verdict}");
    assert_eq!(number(&verdict, "orders"), 300 - lost, "{verdict}");
}

/// What happens after every tenth order that is paid, in time or just after it. `$action` knows the order
/// as `new`.
macro_rules! after_every_tenth_payment {
    ($action:literal) => {
        concat!(
            "create sequence payments_seen;
             create function sabotage() returns trigger language plpgsql as $$
             begin
               if nextval('payments_seen') % 10 = 0 then ",
            $action,
            " end if;
               return null;
             end $$;
             create constraint trigger sabotage after update on orders initially deferred
               for each row when (old.status in (1, 4) and new.status = 2) execute function sabotage();"
        )
    };
}

/// Everybody pays, so that no wave waits.
const ALL_PAY: [&str; 2] = ["--pay", "1"];

#[tokio::test(flavor = "multi_thread")]
async fn payments_that_vanish_are_lost() {
    let sabotage = after_every_tenth_payment!("delete from payments where order_id = new.id;");
    let (output, verdict) = demo_on(sabotage, &ALL_PAY).await;
    is_broken(
        &output,
        &verdict,
        "10 payments that buyers were told of paid for no order of theirs",
    );
    is_broken(&output, &verdict, "no_lost_payment: 10 orders are paid or used without one payment");
    for (field, figure) in [("paid", 100), ("payments", 90), ("lost_payments", 10), ("lost", 0)] {
        assert_eq!(number(&verdict, field), figure, "{field}: {verdict}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn paid_orders_that_are_cancelled_and_sold_again_took_money_for_nothing() {
    let sabotage = after_every_tenth_payment!(
        "update orders set status = 4, cancelled_at = now(), cancelled_by = 3 where id = new.id;
         update seckill_vouchers set stock = stock + 1, revision = revision + 1
         where voucher_id = new.voucher_id;"
    );
    let (output, verdict) = demo_on(sabotage, &ALL_PAY).await;
    // Of 110 payments 11 are a tenth one.
    is_broken(
        &output,
        &verdict,
        "11 payments that buyers were told of paid for no order of theirs",
    );
    is_broken(&output, &verdict, "no_lost_payment: 11 orders took a payment and are not paid");
    let figures = [("paid", 100), ("payments", 111), ("lost_payments", 11), ("oversold", 0)];
    for (field, figure) in figures {
        assert_eq!(number(&verdict, field), figure, "{field}: {verdict}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn paid_orders_that_are_cancelled_and_not_sold_again_are_undersold_as_well() {
    let sabotage = after_every_tenth_payment!(
        "update orders set status = 4, cancelled_at = now(), cancelled_by = 3 where id = new.id;"
    );
    let (output, verdict) = demo_on(sabotage, &ALL_PAY).await;
    is_broken(&output, &verdict, "90 paid orders for a stock of 100");
    let figures = [("paid", 90), ("lost_payments", 10), ("undersold", 10), ("lost", 0)];
    for (field, figure) in figures {
        assert_eq!(number(&verdict, field), figure, "{field}: {verdict}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_are_paid_twice_are_found() {
    let sabotage = after_every_tenth_payment!(
        "insert into payments (voucher_id, order_id, number, amount, status, transaction_id,
                               paid_amount, created_at)
         values (new.voucher_id, new.id, 2, new.amount, 2, 'again-' || new.id, new.amount, now());"
    );
    let (output, verdict) = demo_on(sabotage, &ALL_PAY).await;
    is_broken(&output, &verdict, "110 payments, less 0 given back, of 100 paid orders");
    assert_eq!(number(&verdict, "lost_payments"), 0, "{verdict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_that_does_not_come_back_from_expired_orders_is_undersold() {
    let sabotage = "
        create function sabotage() returns trigger language plpgsql as $$
        begin
          new.stock := old.stock;
          return new;
        end $$;
        create trigger sabotage before update on seckill_vouchers
          for each row when (new.stock > old.stock) execute function sabotage();";
    let (output, verdict) = demo_on(sabotage, &["--pay", "0.9"]).await;
    is_broken(&output, &verdict, "left unsold while buyers wanted them");
    let expired = number(&verdict, "expired");
    assert!(expired > 0, "{verdict}");
    assert_eq!(number(&verdict, "undersold"), expired, "{verdict}");
    assert_eq!(number(&verdict, "paid"), 100 - expired, "{verdict}");
    assert_eq!(number(&verdict, "waves"), 1, "{verdict}");
}
