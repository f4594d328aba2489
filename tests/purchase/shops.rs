//! Shops, some of whose connections can be broken, their crowds, and what is left behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use faults::Proxy;
use redis_link::Redis;
use seckill::model::{Order, Outcome, VoucherId};
use seckill::purchase::{PurchaseError, Purchases, PurchasesOptions, Strategy};
use seckill::store::Database;
use testkit::shop::world::{World, user};
use testkit::wait::eventually;
use tokio::task::JoinSet;

/// The strategies that commit together.
pub const GROUPS: [Strategy; 2] = [Strategy::GroupCommit, Strategy::GroupCommitUnlocked];

/// Those that lock.
pub const LOCKING: [Strategy; 2] = [Strategy::Locked, Strategy::GroupCommit];

pub type Answer = Result<Outcome, PurchaseError>;

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

/// Every user's attempts, all at once, spread over the shops. By outcome, and the orders.
pub async fn rush(
    shops: &[Arc<Purchases>],
    voucher: VoucherId,
    users: i64,
    attempts: usize,
) -> (BTreeMap<&'static str, usize>, Vec<Order>) {
    let mut tasks: JoinSet<Answer> = JoinSet::new();
    for attempt in 0..attempts {
        for number in 1..=users {
            let shop = Arc::clone(&shops[(number as usize + attempt) % shops.len()]);
            tasks.spawn(async move { shop.buy(user(number), voucher).await });
        }
    }
    let (mut codes, mut orders) = (BTreeMap::new(), Vec::new());
    for outcome in tasks.join_all().await.into_iter().map(Result::unwrap) {
        *codes.entry(outcome.code()).or_default() += 1;
        if let Outcome::Ordered(order) = outcome {
            orders.push(order);
        }
    }
    (codes, orders)
}

pub fn nothing_was_done((number, answer): (i64, Answer)) {
    let error = answer.unwrap_err();
    assert!(error.retry_may_help() && !error.outcome_unknown(), "{number}: {error:?}");
}

/// Asks again while the answer is an error after which it may: on a machine that is busy with other tests an order's turn may not come
/// within its second. Returns what the buyer is told then.
pub async fn asks_again(
    shop: &Arc<Purchases>,
    voucher: VoucherId,
    number: i64,
    may_ask_again: fn(&PurchaseError) -> bool,
) -> &'static str {
    let mut code = "";
    eventually("the buyer has an answer", async || match shop.buy(user(number), voucher).await {
        Ok(outcome) => {
            code = outcome.code();
            true
        }
        Err(error) => {
            assert!(may_ask_again(&error), "{error:?}");
            false
        }
    })
    .await;
    code
}

pub async fn no_lock(world: &World, users: i64) -> bool {
    world.locks_held(1..=users).await == 0
}

pub async fn restock(world: &World, voucher: VoucherId, more: i32) {
    let more = format!("stock = stock + {more}, initial_stock = initial_stock + {more}");
    change_sale(world, voucher, &more).await;
}

/// As an administrator would.
pub async fn change_sale(world: &World, voucher: VoucherId, what: &str) {
    let change = format!(
        "update seckill_vouchers set {what}, revision = revision + 1 where voucher_id = {voucher}"
    );
    let change = sqlx::query(sqlx::AssertSqlSafe(change));
    let done = change.execute(world.database.pool()).await.unwrap();
    assert_eq!(done.rows_affected(), 1);
}

/// A shop whose connections to the stores can be broken.
pub struct Linked {
    pub shop: Arc<Purchases>,
    pub connections: Database,
    pub database: Proxy,
    pub redis: Proxy,
}

/// The database by a way that can be broken.
pub async fn linked_database(world: &World) -> (Proxy, Database) {
    let url = url::Url::parse(&world.database_url).unwrap();
    let socket = url.query_pairs().find(|(name, _)| name == "host").unwrap().1;
    let socket = Path::new(&*socket).join(".s.PGSQL.5432");
    let database = Proxy::before_socket(socket).await.unwrap();
    let database_url = format!("postgres://postgres@{}{}", database.address(), url.path());
    (database, Database::new(&database_url).unwrap())
}

pub async fn linked_shop(world: &World) -> Linked {
    let (database, connections) = linked_database(world).await;
    let redis = Proxy::start(&world.redis_url).await.unwrap();
    let options = PurchasesOptions { lease: Duration::from_secs(1), ..world.options() };
    let (by, keys, clock) =
        (Redis::new(redis.url()).unwrap(), world.keys.clone(), world.clock.clone());
    let shop = Purchases::start(connections.clone(), by, keys, clock, options).await.unwrap();
    Linked { shop, connections, database, redis }
}
