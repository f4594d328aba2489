//! What a test of the shop stands on: a database of its own, cloned from a migrated template, and key
//! names of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use chrono::{DateTime, TimeDelta, Utc};
use ipnet::IpNet;
use seckill::config::{Networks, Phones, ServerArgs};
use seckill::http::health::Health;
use seckill::http::revocations::Revocations;
use seckill::http::server::ServerLimits;
use seckill::http::tokens::Tokens;
use seckill::http::webhook::SigningKey;
use seckill::http::{self, App, AppParts};
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{
    BucketRate, Clock, ManualClock, OrderId, SharedClock, SystemClock, UserId, Voucher,
};
use seckill::orders::{ASK_WITHIN, Orders, PaymentGateway};
use seckill::pages::sandbox::SandboxGateway;
use seckill::pages::{self, Site};
use seckill::purchase::audit::{self, VoucherAudit};
use seckill::purchase::{Purchases, PurchasesOptions, Strategy};
use seckill::store::vouchers;
use seckill::store::{Database, Keys, OrderIds, Redis, StoreError, users};

use super::served::Served;
pub use super::sms::{Gateway, KeptSms};
use super::template;
pub use super::template::{run_sql, with_database};
use crate::wait::eventually;

/// Its user may put vouchers on sale.
pub const ADMIN_PHONE: &str = "13900000001";

/// One test's own world. Its clock begins at 2026-11-11T00:00:00Z and stands still.
#[derive(Clone)]
pub struct World {
    pub database_url: String,
    pub redis_url: String,
    pub database: Database,
    pub redis: Redis,
    pub keys: Keys,
    pub clock: Arc<ManualClock>,
    pub sms: KeptSms,
    pub gateway: Gateway,
    /// What takes payments.
    pub payments: Option<Arc<dyn PaymentGateway>>,
    pub secret: String,
    /// Streams of events that may be open at once, all together.
    pub event_streams: usize,
    /// How this world's servers sell and answer.
    pub settings: ServerArgs,
}

/// The same test in a world of each of `strategies`, one after the other.
pub async fn each_of(strategies: impl IntoIterator<Item = Strategy>, test: impl AsyncFn(World)) {
    for strategy in strategies {
        println!("strategy {strategy}");
        test(World::with(|settings| settings.strategy = strategy).await).await;
    }
}

/// The same test for each strategy.
pub async fn each_strategy(test: impl AsyncFn(World)) {
    each_of(Strategy::ALL.iter().copied(), test).await;
}

/// What `make` makes, sooner or later: a machine that is busy with browsers may have no connection for it at
/// once. Then nothing was written.
async fn made<T>(what: &str, make: impl AsyncFn() -> Result<T, StoreError>) -> T {
    let mut result = None;
    eventually(what, async || {
        result = match make().await {
            Ok(value) => Some(value),
            Err(error) => {
                assert!(!error.outcome_unknown(), "{error}");
                None
            }
        };
        result.is_some()
    })
    .await;
    result.unwrap()
}

impl World {
    pub async fn new() -> Self {
        let (name, database_url, redis_url) = template::cloned().await;
        let redis = Redis::new(&redis_url).unwrap();
        let keys = Keys::with_prefix(&format!("{name}:"));
        Self {
            database: Database::new(&database_url).unwrap(),
            payments: Some(Arc::new(SandboxGateway { redis: redis.clone(), keys: keys.clone() })),
            redis,
            keys,
            clock: Arc::new(ManualClock::starting_at(midnight())),
            sms: KeptSms::default(),
            gateway: Gateway::Kept,
            secret: "a secret of the tests, long enough".to_owned(),
            event_streams: 64,
            settings: ServerArgs {
                buyer_rate: BucketRate::Off,
                address_rate: BucketRate::Off,
                admin_phones: Phones([ADMIN_PHONE.to_owned()].into()),
                ..ServerArgs::default()
            },
            database_url,
            redis_url,
        }
    }

    /// A world whose servers differ in some of their settings.
    pub async fn with(change: impl FnOnce(&mut ServerArgs)) -> Self {
        let mut world = Self::new().await;
        change(&mut world.settings);
        world
    }

    /// Another server process of this world: it has connections of its own.
    pub fn another_process(&self) -> Self {
        Self { database: Database::new(&self.database_url).unwrap(), ..self.clone() }
    }

    /// The time by the clock of the process and by the database's.
    pub async fn set_time(&self, now: DateTime<Utc>) {
        self.clock.set(now);
        let update = sqlx::query("update test_time set now = $1").bind(now);
        update.execute(self.database.pool()).await.unwrap();
    }

    /// From now on time passes, in the database, too: for programs that have a clock of their own.
    pub async fn at_present(&self) {
        self.clock.set(SystemClock.now());
        let passing = "create or replace function sale_time() returns timestamptz
            language sql volatile as 'select clock_timestamp()'";
        sqlx::raw_sql(passing).execute(self.database.pool()).await.unwrap();
    }

    /// A token of `user`, good for an hour.
    pub fn token(&self, user: i64) -> String {
        let tokens = Tokens::new(self.secret.as_bytes(), self.clock.clone());
        let now = self.clock.now();
        tokens.mint(self::user(user), None, now, now + TimeDelta::hours(1))
    }

    /// The same of a user who has the administrator's phone from now on.
    pub async fn admin_token(&self, user: i64) -> String {
        let statement = sqlx::query(
            "insert into users (id, phone, nickname, created_at) values ($1, $2, 'admin', now())
             on conflict (id) do update set phone = excluded.phone",
        );
        statement.bind(user).bind(ADMIN_PHONE).execute(self.database.pool()).await.unwrap();
        self.token(user)
    }

    /// Users 1 to `count`.
    pub async fn users(&self, count: u32) {
        self.users_from(user(1), count, self.clock.now()).await;
    }

    /// As many users, the ids of whom begin with `first`.
    pub async fn users_from(&self, first: UserId, count: u32, now: DateTime<Utc>) {
        let make = async || users::create_range(self.database.pool(), first, count, now).await;
        made("the users are made", make).await;
    }

    /// A voucher on sale since an hour ago, for a day.
    pub async fn voucher(&self, stock: i32) -> Voucher {
        self.new_voucher(&self.free(stock)).await
    }

    /// The same for 80.00, to be paid within 15 minutes.
    pub async fn priced_voucher(&self, stock: i32) -> Voucher {
        let priced = NewVoucher { price: Some(PRICE), value: Some(10_000), ..self.free(stock) };
        self.new_voucher(&priced).await
    }

    /// The same, with a line for what comes back.
    pub async fn voucher_with_line(&self, stock: i32) -> Voucher {
        let with_line = NewVoucher { price: Some(PRICE), line: Some(true), ..self.free(stock) };
        self.new_voucher(&with_line).await
    }

    fn free(&self, stock: i32) -> NewVoucher {
        let begin_time = self.clock.now() - TimeDelta::hours(1);
        NewVoucher::free("100 for 80", stock, begin_time, begin_time + TimeDelta::days(1))
    }

    pub async fn voucher_between(
        &self,
        stock: i32,
        begin_time: DateTime<Utc>,
        end_time: DateTime<Utc>,
    ) -> Voucher {
        let new = NewVoucher::free("100 for 80", stock, begin_time, end_time);
        self.new_voucher(&new).await
    }

    pub async fn new_voucher(&self, new: &NewVoucher) -> Voucher {
        let now = self.clock.now();
        let make = async || vouchers::create(self.database.pool(), new, now).await;
        made("the voucher is made", make).await
    }

    pub fn order_ids(&self, last: Option<OrderId>) -> OrderIds {
        OrderIds::new(self.redis.clone(), self.keys.clone(), self.clock.clone(), last)
    }

    /// Sells as this world's shops sell.
    pub async fn shop(&self) -> Arc<Purchases> {
        self.purchases(self.options()).await
    }

    pub async fn purchases(&self, options: PurchasesOptions) -> Arc<Purchases> {
        self.purchases_by(self.clock.clone(), options).await
    }

    /// The same by another clock.
    pub async fn purchases_by(
        &self,
        clock: SharedClock,
        options: PurchasesOptions,
    ) -> Arc<Purchases> {
        let (database, redis) = (self.database.clone(), self.redis.clone());
        let purchases = Purchases::start(database, redis, self.keys.clone(), clock, options).await;
        // A server has opened its connections before anybody buys. One of each pool is enough for most tests.
        let _ = tokio::join!(self.database.purchases().acquire(), self.database.steps().acquire());
        purchases.unwrap()
    }

    /// As this world's shops sell.
    pub fn options(&self) -> PurchasesOptions {
        PurchasesOptions::from(&self.settings)
    }

    /// The state of an API.
    pub async fn app(&self) -> App {
        self.app_with(self.options(), Vec::new()).await
    }

    /// The same with these options.
    pub async fn app_with(&self, options: PurchasesOptions, trusted_proxies: Vec<IpNet>) -> App {
        // First, as `serve` does: what counts looks its counters up when it is made.
        seckill::telemetry::start_metrics();
        let purchases = self.purchases(options).await;
        let (database, redis) = (self.database.clone(), self.redis.clone());
        let health = Health::start(database.clone(), redis.clone(), self.keys.clone()).await;
        let revocations = Revocations::start(database.clone(), purchases.clock().clone()).await;
        App::new(AppParts {
            orders: self.orders(&purchases),
            payment_key: Some(self.payment_key()),
            has_sandbox: true,
            database,
            redis,
            keys: self.keys.clone(),
            clock: self.clock.clone(),
            tokens: Tokens::new(self.secret.as_bytes(), purchases.clock().clone()),
            revocations: revocations.unwrap(),
            purchases,
            health,
            sms: self.gateway.opened(&self.sms, self.secret.as_bytes(), &self.clock),
            event_streams: self.event_streams,
            settings: ServerArgs {
                trusted_proxies: Networks(trusted_proxies),
                ..self.settings.clone()
            },
        })
    }

    /// The life of orders after the purchase, by this world's payment gateway.
    pub fn orders(&self, purchases: &Arc<Purchases>) -> Orders {
        let gateway = self.payments.clone();
        Orders::new(self.database.clone(), Arc::clone(purchases), gateway, ASK_WITHIN)
    }

    /// What the payment gateway signs with.
    pub fn payment_key(&self) -> SigningKey {
        SigningKey::new(self.secret.as_bytes())
    }

    /// An API on a port of its own, in this process.
    pub async fn serve(&self) -> SocketAddr {
        self.serve_with(self.options(), Vec::new()).await
    }

    /// The same with these options.
    pub async fn serve_with(&self, options: PurchasesOptions, proxies: Vec<IpNet>) -> SocketAddr {
        let app = self.app_with(options, proxies).await;
        let site = Arc::new(Site::of(&app.settings));
        Self::serve_app(app, &site, Router::new())
    }

    /// This API on a port of its own, with these pages and more routes.
    pub fn serve_app(app: App, site: &Arc<Site>, more: Router) -> SocketAddr {
        let routes = http::api(app.clone()).merge(pages::routes(&app, site)).merge(more);
        Served::new(http::served(app, routes), ServerLimits::of(4096)).address
    }

    /// What the books of the only voucher say.
    pub async fn audit(&self) -> VoucherAudit {
        let audits = audit::run(self.database.pool(), None).await.unwrap();
        let [audit]: [VoucherAudit; 1] = audits.try_into().expect("there is one voucher");
        audit
    }
}

/// What a voucher of [`World::priced_voucher`] costs.
pub const PRICE: i64 = 8_000;

/// When every test's clock begins.
pub fn midnight() -> DateTime<Utc> {
    "2026-11-11T00:00:00Z".parse().unwrap()
}

pub fn user(number: i64) -> UserId {
    UserId::new(number).unwrap()
}
