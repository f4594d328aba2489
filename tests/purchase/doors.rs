//! The doors at which one can buy, each with the same handle.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use group_commit::Limits;
use seckill::model::{Clock, Member, OrderId, Outcome, Refusal, VoucherId};
use seckill::purchase::{Purchases, PurchasesOptions, Strategy};
use seckill::store::{DatabaseClock, NewOrder, OrderIds, OrderWriter, Placed};
use serde_json::json;
use tokio::sync::Semaphore;

use testkit::shop::api_client::{Answer, Api};
use testkit::shop::world::{World, user};

/// Which door.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// One order a call of the database's function.
    Calls,
    /// Orders that wait go into one call.
    Batches,
    /// The service, on a node of each of these strategies.
    Service(&'static [Strategy]),
    Http,
}

impl Kind {
    /// How the world of this door sells.
    pub fn strategy(self) -> Strategy {
        match self {
            Self::Service(nodes) => nodes[0],
            _ => Strategy::default(),
        }
    }
}

/// A door of a world, at which one voucher is bought.
pub struct Door {
    pub voucher: VoucherId,
    /// Moves a crowd's users on to the next node.
    pub turn: usize,
    kind: Kind,
    writer: OrderWriter,
    /// Those of the service.
    nodes: Vec<Arc<Purchases>>,
    api: Api,
    ids: OrderIds,
    callers: Semaphore,
}

/// What a buyer is told.
#[derive(Debug)]
pub struct Told {
    pub code: String,
    pub order: Option<OrderId>,
    pub begin_time: Option<DateTime<Utc>>,
}

const ONE_BY_ONE: Limits = Limits::batches_of(1).waiting(1);
const TOGETHER: Limits = Limits::batches_of(256);

/// Title by language of each refusal of the table.
const TITLES: [(&str, [&str; 2]); 4] = [
    ("sale_not_started", ["秒杀尚未开始", "The sale has not begun"]),
    ("sale_ended", ["秒杀已经结束", "The sale is over"]),
    ("sold_out", ["库存不足", "The voucher is sold out"]),
    ("already_bought", ["用户已经购买过一次", "You have bought this voucher already"]),
];

fn writing(world: &World, limits: Limits) -> OrderWriter {
    let clock = Arc::new(DatabaseClock::new(world.clock.clone()));
    OrderWriter::new(world.database.clone(), clock, limits, false)
}

impl Door {
    pub async fn new(world: World, kind: Kind) -> Self {
        let ids = world.order_ids(None);
        let api = Api::at(world, ([127, 0, 0, 1], 0).into());
        let voucher = VoucherId::new(1).unwrap();
        let callers = Semaphore::new(8);
        let (writer, nodes) = (writing(&api.world, TOGETHER), Vec::new());
        let mut door = Self { voucher, turn: 0, kind, writer, nodes, api, ids, callers };
        door.restart().await;
        door
    }

    pub fn world(&self) -> &World {
        &self.api.world
    }

    /// New processes take the place of those that were there.
    pub async fn restart(&mut self) {
        for node in self.nodes.drain(..) {
            node.shutdown().await;
        }
        self.writer = writing(self.world(), TOGETHER);
        match self.kind {
            Kind::Calls | Kind::Batches => {}
            Kind::Service(strategies) => {
                for &strategy in strategies {
                    let options = PurchasesOptions { strategy, ..self.world().options() };
                    let node = self.world().purchases(options).await;
                    self.nodes.push(node);
                }
            }
            Kind::Http => self.api.client.address = self.world().serve().await,
        }
    }

    /// One attempt of a user. Attempts that follow one another go to different nodes, and by different ways.
    pub async fn buy(&self, number: i64, attempt: usize) -> Told {
        let place = usize::try_from(number).unwrap() + attempt + self.turn;
        match self.kind {
            Kind::Calls => {
                // Each is a transaction of its own, which a row keeps waiting for less than a second.
                let _turn = self.callers.acquire().await.unwrap();
                self.place(&writing(self.world(), ONE_BY_ONE), number).await
            }
            Kind::Batches => self.place(&self.writer, number).await,
            Kind::Service(_) => {
                let node = &self.nodes[place % self.nodes.len()];
                node.buy(user(number), self.voucher).await.unwrap().into()
            }
            Kind::Http => self.ask(number, place.is_multiple_of(2), "en").await.into(),
        }
    }

    async fn place(&self, writer: &OrderWriter, number: i64) -> Told {
        let at = self.world().clock.now();
        let order = NewOrder { id: self.ids.next().await.unwrap(), user: user(number), at };
        match writer.place(self.voucher, order).await.unwrap() {
            Placed::Ordered(_) => Told::of_order("ordered", order.id),
            Placed::Refused(refusal) => refusal.into(),
            Placed::IdTaken => panic!("another order has {}", order.id),
        }
    }

    /// A request with a body goes by the router, and one without by the short way.
    async fn ask(&self, number: i64, has_body: bool, language: &str) -> Answer {
        let request = self.api.buying(number, self.voucher).header("accept-language", language);
        let body = json!({ "user_id": number.to_string() });
        self.api.send(if has_body { request.json(&body) } else { request }).await
    }

    /// Over HTTP a refusal is told in the language of the buyer, by both ways.
    pub async fn says_so_in_both_languages(&self, number: i64, code: &str) {
        let Some((_, titles)) = TITLES.iter().find(|(known, _)| *known == code) else { return };
        let Kind::Http = self.kind else { return };
        let languages = [("zh-CN,zh;q=0.9,en;q=0.8", "zh-CN"), ("en", "en")];
        for (title, (language, tag)) in titles.iter().zip(languages) {
            for has_body in [false, true] {
                let answer = self.ask(number, has_body, language).await;
                answer.problem(409, code);
                assert_eq!(answer.text_of("title"), *title);
                assert_eq!(answer.header("content-language"), Some(tag));
                assert!(answer.header("vary").is_some_and(|it| it.contains("accept-language")));
            }
        }
    }
}

impl Told {
    fn of_order(code: &str, id: OrderId) -> Self {
        Self { code: code.to_owned(), order: Some(id), begin_time: None }
    }
}

impl From<Outcome> for Told {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ordered(order) => Self::of_order("ordered", order.id),
            Outcome::Refused(refusal) => refusal.into(),
        }
    }
}

impl From<Refusal> for Told {
    fn from(Refusal { code, member, .. }: Refusal) -> Self {
        let (order, begin_time) = match member {
            Some(Member::OrderId(order)) => (Some(order), None),
            Some(Member::BeginTime(begin_time)) => (None, Some(begin_time)),
            _ => (None, None),
        };
        Self { code: code.as_str().to_owned(), order, begin_time }
    }
}

impl From<Answer> for Told {
    fn from(answer: Answer) -> Self {
        let code = if answer.status == 201 {
            "ordered"
        } else {
            let code = answer.text_of("code");
            answer.problem(if code == "voucher_not_found" { 404 } else { 409 }, code);
            code
        };
        let parsed = |member: &str| answer.body[member].as_str().map(str::to_owned);
        Self {
            code: code.to_owned(),
            order: parsed("order_id").map(|id| OrderId::new(id.parse().unwrap()).unwrap()),
            begin_time: parsed("begin_time").map(|time| time.parse().unwrap()),
        }
    }
}
