//! Buyers are told by text message what happened to their orders.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::TimeDelta;
use seckill::http::buyer_texts::{BuyerTexts, ToPhones};
use seckill::http::sms::{BuyerText, SmsGateway};
use seckill::model::Currency;
use seckill::orders::event_sender::EventSender;
use seckill::orders::outbox::Outbox;
use seckill::orders::winding_up::WindingUp;
use seckill::store::cancelled_sales;

use super::events::until_complete;
use testkit::shop::till::Till;
use testkit::shop::world::World;

/// The texts that came, each its id, its phone and its words; and how many are refused first.
#[derive(Debug, Clone, Default)]
struct Phones {
    came: Arc<Mutex<Vec<[String; 3]>>>,
    refusals: Arc<Mutex<u32>>,
}

#[async_trait]
impl SmsGateway for Phones {
    async fn send_login_code(&self, _: &str, _: &str, _: u64) -> Result<(), String> {
        unreachable!("nobody logs in")
    }

    async fn send_text(&self, text: &BuyerText<'_>) -> Result<(), String> {
        let text = [text.id.clone(), text.phone.to_owned(), text.text.clone()];
        self.came.lock().unwrap().push(text);
        let mut refusals = self.refusals.lock().unwrap();
        let taken = refusals.checked_sub(1).map_or(Ok(()), |_| Err("it is away".to_owned()));
        *refusals = refusals.saturating_sub(1);
        taken
    }
}

struct Teller {
    phones: Phones,
    events: EventSender,
    texts: Outbox<ToPhones>,
}

impl Teller {
    /// Of what happens from now on.
    async fn of(world: &World, occasions: &str) -> Self {
        let (database, phones) = (world.database.clone(), Phones::default());
        let occasions = occasions.parse().unwrap();
        let buyers = BuyerTexts { database: database.clone(), occasions };
        let to_phones = ToPhones {
            database: database.clone(),
            sms: Arc::new(phones.clone()),
            currency: Currency::default(),
        };
        let teller = Self {
            phones,
            events: EventSender::new(database.clone(), Box::new(buyers)),
            texts: Outbox::new(database, to_phones),
        };
        assert!(teller.told(world).await.is_empty());
        teller
    }

    /// The texts that come now.
    async fn texts(&self, world: &World) -> Vec<[String; 3]> {
        loop {
            until_complete(world).await;
            if self.events.step().await.unwrap() == 0 {
                break;
            }
        }
        while self.texts.step().await.unwrap().0 > 0 {}
        std::mem::take(&mut *self.phones.came.lock().unwrap())
    }

    /// The same: to whom, and the words.
    async fn told(&self, world: &World) -> Vec<(String, String)> {
        let texts = self.texts(world).await.into_iter();
        texts.map(|[_, phone, words]| (phone, words)).collect()
    }
}

async fn phone_of(till: &Till, user: i64) -> String {
    let phone = sqlx::query_scalar("select phone from users where id = $1").bind(user);
    phone.fetch_one(till.world.database.pool()).await.unwrap()
}

#[tokio::test]
async fn buyers_are_told_of_each_step_that_matters_once_and_in_the_language_of_their_phone() {
    let till = Till::open(1).await;
    till.sql("update vouchers set has_line = true where id = $1").await;
    till.sql("update users set phone = '13800138000' where id = 2 and $1 > 0").await;
    let teller = Teller::of(&till.world, "offered, paid,refunded,cancelled").await;
    let (world, first) = (&till.world, phone_of(&till, 1).await);

    let order = till.buy(1).await;
    till.enter(2).await.is(201);
    assert_eq!(teller.told(world).await, [], "whoever buys knows it");
    till.pay(1, &order, "t1").await;
    let paid = "Your order for 100 for 80 is paid.";
    assert_eq!(teller.told(world).await, [(first.clone(), paid.to_owned())]);

    till.admin_step(&order, "refund").await.is(202);
    assert_eq!(teller.told(world).await, [], "the money is not back yet");
    till.gateway_work().await.step().await.unwrap();
    let back = "80.00 CNY for 100 for 80 has been refunded.";
    assert_eq!(teller.told(world).await, [(first, back.to_owned())]);

    till.serve().await;
    till.after(TimeDelta::seconds(61)).await;
    let offered = "您排队的“100 for 80”到了：请在 13 分钟内支付 80.00 CNY，逾期将留给下一位。";
    assert_eq!(teller.told(world).await, [("13800138000".to_owned(), offered.to_owned())]);

    assert!(cancelled_sales::cancel(world.database.pool(), till.voucher.id).await.unwrap());
    let ends = WindingUp::new(world.database.clone());
    assert_eq!(ends.step(till.voucher.id).await.unwrap().cancelled, 1);
    let cancelled = "商家取消了您的“100 for 80”订单。";
    assert_eq!(teller.told(world).await, [("13800138000".to_owned(), cancelled.to_owned())]);
    assert_eq!(teller.told(world).await, []);
}

/// What is off is not told, nor what is long ago or not true any more; what the gateway refuses is sent again by the same id.
#[tokio::test]
async fn a_text_comes_until_it_is_taken_and_only_while_it_is_true() {
    let till = Till::with_line(2, 5).await;
    let teller = Teller::of(&till.world, "offered").await;
    let world = &till.world;
    let orders = [till.buy(1).await, till.buy(2).await];
    for waits in [3, 4] {
        till.enter(waits).await.is(201);
    }
    for (buyer, order) in (1..).zip(&orders) {
        till.own_step(buyer, order, "cancellation").await.is(200);
    }
    till.serve().await;
    *teller.phones.refusals.lock().unwrap() = 2;
    let refused = teller.texts(world).await;
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert_eq!(teller.texts(world).await.len(), 0, "they wait");
    till.after(TimeDelta::seconds(2)).await;
    // By the same name; the minutes that are left may be fewer.
    let named =
        |texts: Vec<[String; 3]>| texts.into_iter().map(|[id, ..]| id).collect::<BTreeSet<_>>();
    assert_eq!(named(refused), named(teller.texts(world).await));
    till.after(TimeDelta::hours(1)).await;
    assert_eq!(teller.texts(world).await, Vec::<[String; 3]>::new());

    // The offer of a moment that is over is told to nobody.
    let over = Teller::of(&till.world, "offered,cancelled").await;
    till.enter(5).await;
    till.expire().await;
    till.serve().await;
    till.after(TimeDelta::minutes(15)).await;
    assert_eq!(over.told(world).await, []);
}
