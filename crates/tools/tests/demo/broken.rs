//! Demos on databases that break the promises: the verdict must be able to fail.

use futures_util::{StreamExt, stream};
use sqlx::{AssertSqlSafe, Executor};

use super::{Demo, demo, number};
use testkit::program::Program;
use testkit::servers;

/// When the sabotage may happen: after an order, or when one was paid, in time or just after it.
const ORDERED: &str = "after insert on orders for each row when (pg_trigger_depth() = 0)";
const PAID: &str = "after update on orders initially deferred
    for each row when (old.status in (1, 4) and new.status = 2)";

/// After every tenth `event` happens `action`, which knows the order as `new`.
fn every_tenth(event: &str, action: &str) -> String {
    let kind = if event == PAID { "constraint trigger" } else { "trigger" };
    format!(
        "create sequence seen;
         create function sabotage() returns trigger language plpgsql as $$
         begin
           if nextval('seen') % 10 = 0 then {action} end if;
           return null;
         end $$;
         create {kind} sabotage {event} execute function sabotage();"
    )
}

/// A small demo on a database that was prepared with `sabotage`. One order a transaction: a batch
/// might sell all before anything of the sabotage is seen. One attempt a buyer: so as many orders are
/// written as there are vouchers, whatever the sabotage takes away.
async fn demo_on(sabotage: String, more: &[&str]) -> Demo {
    let servers = servers::own().await;
    let (database, redis) = (servers.database_url().unwrap(), servers.redis_url().unwrap());
    let named = Program::alone().with("DATABASE_URL", database).with("REDIS_URL", redis);
    named.says(&["migrate"]).await;
    let pool = sqlx::PgPool::connect(database).await.unwrap();
    pool.execute(AssertSqlSafe(sabotage)).await.unwrap();
    pool.close().await;
    let arguments = ["--stock", "100", "--users", "300", "--attempts", "1", "--strategy", "locked"];
    let arguments = [&arguments[..], more].concat();
    let done = demo(&arguments, Some((database, redis))).await;
    servers::ended(servers).await;
    done
}

/// Exit status 1, `BROKEN`, and the promise by its words.
#[track_caller]
fn is_broken(demo: &Demo, words: &str) {
    assert_eq!(demo.ran.status, 1, "{demo:#?}");
    assert_eq!(demo.verdict["holds"], false, "{demo:#?}");
    assert!(demo.ran.stdout.starts_with("BROKEN") && demo.ran.stdout.contains(words), "{demo:#?}");
}

/// When, what, the words of the verdict and its figures.
type Sabotage =
    (&'static str, &'static str, &'static [&'static str], &'static [(&'static str, i64)]);

/// Everybody pays where a row is about payments, so that no wave waits.
const BROKEN: [Sabotage; 7] = [
    (ORDERED, "delete from orders where id = new.id;",
     &["10 acknowledged orders lost"],
     &[("told", 100), ("orders", 90), ("lost", 10), ("undersold", 10)]),
    (ORDERED, "insert into orders (id, user_id, voucher_id)
               values (new.id - 1000000000000, new.user_id, new.voucher_id);",
     &["10 sold twice to one buyer"],
     &[("duplicates", 10), ("oversold", 10), ("orders", 110)]),
    (ORDERED, "update orders set user_id = 1000000 + new.user_id where id = new.id;",
     &["10 acknowledged orders lost"],
     &[]),
    (PAID, "delete from payments where order_id = new.id;",
     &["10 payments that buyers were told of paid for no order of theirs",
       "no_lost_payment: 10 orders are paid or used without one payment"],
     &[("paid", 100), ("payments", 90), ("lost_payments", 10), ("lost", 0)]),
    // And sold again. Of 110 payments 11 are a tenth one.
    (PAID, "update orders set status = 4, cancelled_at = now(), cancelled_by = 3 where id = new.id;
            update seckill_vouchers set stock = stock + 1, revision = revision + 1
            where voucher_id = new.voucher_id;",
     &["11 payments that buyers were told of paid for no order of theirs",
       "no_lost_payment: 11 orders took a payment and are not paid"],
     &[("paid", 100), ("payments", 111), ("lost_payments", 11), ("oversold", 0)]),
    (PAID, "update orders set status = 4, cancelled_at = now(), cancelled_by = 3 where id = new.id;",
     &["90 paid orders for a stock of 100"],
     &[("paid", 90), ("lost_payments", 10), ("undersold", 10), ("lost", 0)]),
    (PAID, "insert into payments (voucher_id, order_id, number, amount, status, transaction_id,
                                  paid_amount, created_at)
            values (new.voucher_id, new.id, 2, new.amount, 2, 'again-' || new.id, new.amount, now());",
     &["110 payments, less 0 given back, of 100 paid orders"],
     &[("lost_payments", 0)]),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_sabotage_is_named_and_counted() {
    // Two demos at once: each has servers of its own.
    let judged = BROKEN.map(async |(event, action, words, figures)| {
        let mut sabotage = every_tenth(event, action);
        if action.starts_with("insert into orders") {
            sabotage += "drop index orders_one_live_per_user;";
        }
        let more: &[&str] = if event == PAID { &["--pay", "1"] } else { &[] };
        let demo = demo_on(sabotage, more).await;
        for words in words {
            is_broken(&demo, words);
        }
        demo.has(figures);
    });
    stream::iter(judged).buffer_unordered(2).collect::<()>().await;
}

/// Three vouchers with a hundred buyers each, of which one is sabotaged.
#[tokio::test(flavor = "multi_thread")]
async fn one_broken_sale_of_three_is_named_and_breaks_the_whole() {
    let delete = "delete from orders where id = new.id
           and voucher_id = (select max(voucher_id) from seckill_vouchers);";
    let demo = demo_on(every_tenth(ORDERED, delete), &["--vouchers", "3"]).await;
    is_broken(&demo, "BROKEN for 1 of 3 vouchers: ");
    let verdict = &demo.verdict;
    let vouchers = verdict["vouchers"].as_array().unwrap();
    let holds: Vec<_> = vouchers.iter().map(|voucher| voucher["holds"] == true).collect();
    assert_eq!(holds, [true, true, false], "{verdict}");
    let lost = number(verdict, "lost");
    assert!(lost > 0 && lost == number(&vouchers[2], "lost"), "{verdict}");
    demo.has(&[("orders", 300 - lost)]);
}

/// After every tenth order, and where it should come back from those that expired.
#[tokio::test(flavor = "multi_thread")]
async fn stock_that_vanishes_is_undersold() {
    let vanish = "update seckill_vouchers set stock = greatest(stock - 1, 0)
         where voucher_id = new.voucher_id;";
    let demo = demo_on(every_tenth(ORDERED, vanish), &[]).await;
    is_broken(&demo, "left unsold while buyers wanted them");
    assert!(number(&demo.verdict, "undersold") > 0, "{demo:#?}");

    let sabotage = "
        create function sabotage() returns trigger language plpgsql as $$
        begin
          new.stock := old.stock;
          return new;
        end $$;
        create trigger sabotage before update on seckill_vouchers
          for each row when (new.stock > old.stock) execute function sabotage();";
    let demo = demo_on(sabotage.to_owned(), &["--pay", "0.9"]).await;
    is_broken(&demo, "left unsold while buyers wanted them");
    let expired = number(&demo.verdict, "expired");
    assert!(expired > 0, "{demo:#?}");
    demo.has(&[("undersold", expired), ("paid", 100 - expired), ("waves", 1)]);
}
