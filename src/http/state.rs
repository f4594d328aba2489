//! What every handler can reach, built in one place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Bytes;
use tokio::sync::Semaphore;

use super::admission::{Admission, StrangersPermits};
use super::entries;
use super::event_hub::{EventHub, StreamLimits};
use super::health::{self, Health};
use super::revocations::Revocations;
use super::sms::SmsGateway;
use super::tokens::Tokens;
use super::voucher_pages::VoucherPages;
use super::webhook::SigningKey;
use crate::config::ServerArgs;
use crate::model::{SharedClock, VoucherId};
use crate::orders::Orders;
use crate::purchase::Purchases;
use crate::store::nodes::ConnectedNode;
use crate::store::step_turns::{BUYERS_STEPS_OF_A_VOUCHER, STEPS_OF_A_VOUCHER};
use crate::store::{Database, Keys, ReadCache};
use redis_link::Redis;

/// Requests of buyers that may be under way at once, beside purchases; one more is refused.
const MAX_READS: usize = 64;

/// Cancellations of buyers that may be under way at once, each of which may wait for the row of a sale; one more is
/// refused.
const MAX_CANCELLATIONS: usize = 64;

/// Requests of administrators that may be under way at once; one more is refused.
const MAX_ADMINISTRATION: usize = 32;

/// Notifications of the payment gateway that may be settled at once; one more is to be sent again.
const MAX_NOTIFICATIONS: usize = 32;

/// Logins that may be under way at once; one more is refused.
const MAX_LOGINS: usize = 64;

/// Login codes that may be on their way to the SMS gateway at once, each of which may take seconds; one more is
/// refused.
const MAX_LOGIN_CODES: usize = 256;

/// Payments that buyers may begin at once, each of which may wait seconds for the gateway; one more is
/// refused.
const MAX_PAYMENTS: usize = 64;
/// Buyers who enter a draw or a line, or leave it, at once: they wait for a batch, and all those of a voucher for one
/// connection.
const MAX_ENTERING: usize = 4_096;

/// The row of one voucher, however many wait for it, leaves as many permits to the others.
const _: () = {
    assert!(2 * BUYERS_STEPS_OF_A_VOUCHER <= MAX_CANCELLATIONS);
    assert!(2 * BUYERS_STEPS_OF_A_VOUCHER <= MAX_PAYMENTS);
    assert!(2 * STEPS_OF_A_VOUCHER <= MAX_NOTIFICATIONS);
    assert!(2 * STEPS_OF_A_VOUCHER <= MAX_ADMINISTRATION);
};

/// The state of the API. Its parts are reached as `app.database`, `app.purchases` and so on. Each request
/// clones it several times, on every core: so it is one `Arc`.
#[derive(Debug, Clone)]
pub struct App(Arc<(AppParts, AppMemory)>);

/// What an [`App`] is made of: the stores, the purchase, the settings.
#[derive(Debug)]
#[allow(missing_docs)] // the names and types say it
pub struct AppParts {
    pub database: Database,
    pub redis: Redis,
    pub keys: Keys,
    pub clock: SharedClock,
    pub purchases: Arc<Purchases>,
    pub orders: Orders,
    /// Signs what the payment gateway says.
    pub payment_key: Option<SigningKey>,
    /// Whether the payment gateway is the sandbox.
    pub has_sandbox: bool,
    pub tokens: Tokens,
    pub revocations: Revocations,
    /// What the process can reach.
    pub health: Health,
    /// Sends login codes; without it nobody can log in.
    pub sms: Option<Box<dyn SmsGateway>>,
    pub event_streams: StreamLimits,
    pub settings: ServerArgs,
}

/// Answers that serve many requests, and permits for those that ask a store.
#[derive(Debug)]
pub struct AppMemory {
    /// The list of vouchers.
    pub voucher_pages: Arc<VoucherPages>,
    /// What is sent to all who watch the sales.
    pub events: EventHub,
    /// The metrics as text.
    pub metrics: ReadCache<(), Bytes>,
    /// What is published of draws.
    pub draws: ReadCache<VoucherId, Option<Bytes>>,
    /// The server processes that use the database.
    pub nodes: ReadCache<(), Arc<[ConnectedNode]>>,
    /// The permit of an audit.
    pub audits: Semaphore,
    /// A permit for each notification of the payment gateway.
    pub notifications: Arc<Semaphore>,
    /// A permit for each login.
    pub logins: Arc<StrangersPermits>,
    /// A permit for each login code that is being sent.
    pub login_codes: Arc<StrangersPermits>,
    /// Permits for cancellations of buyers.
    pub cancellations: Arc<Semaphore>,
    /// Permits for buyers who enter a draw or a line, or leave it.
    pub entering: Arc<Semaphore>,
    /// A permit for each payment that a buyer begins.
    pub payments: Arc<Semaphore>,
    /// A permit for each request of a buyer that asks the database.
    pub reads: Arc<Semaphore>,
    /// A permit for each request of an administrator.
    pub administration: Arc<Semaphore>,
    /// What each buyer and each address has used.
    pub admission: Admission,
    draining: AtomicBool,
}

impl App {
    /// The state made of `parts`.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(parts: AppParts) -> Self {
        let voucher_pages = Arc::new(VoucherPages::new(&parts.database, &parts.purchases));
        let memory = AppMemory {
            events: EventHub::new(&voucher_pages, &parts.purchases, parts.event_streams),
            voucher_pages,
            metrics: health::metrics_text(&parts.purchases, &parts.database),
            draws: entries::draws(&parts.database),
            nodes: health::nodes(&parts.database),
            audits: Semaphore::new(1),
            logins: Arc::new(StrangersPermits::new(MAX_LOGINS, parts.settings.address_rate)),
            login_codes: Arc::new(StrangersPermits::new(
                MAX_LOGIN_CODES,
                parts.settings.address_rate,
            )),
            cancellations: Arc::new(Semaphore::new(MAX_CANCELLATIONS)),
            entering: Arc::new(Semaphore::new(MAX_ENTERING)),
            payments: Arc::new(Semaphore::new(MAX_PAYMENTS)),
            notifications: Arc::new(Semaphore::new(MAX_NOTIFICATIONS)),
            reads: Arc::new(Semaphore::new(MAX_READS)),
            administration: Arc::new(Semaphore::new(MAX_ADMINISTRATION)),
            admission: Admission::new(parts.settings.address_rate),
            draining: AtomicBool::new(false),
        };
        Self(Arc::new((parts, memory)))
    }

    /// What it keeps in memory for its readers.
    pub fn memory(&self) -> &AppMemory {
        &self.0.1
    }

    /// Tells balancers and clients to go elsewhere. Requests that still come are served.
    pub fn drain(&self) {
        self.memory().draining.store(true, Ordering::Relaxed);
    }

    /// Whether [`App::drain`] was called.
    pub fn is_draining(&self) -> bool {
        self.memory().draining.load(Ordering::Relaxed)
    }
}

impl std::ops::Deref for App {
    type Target = AppParts;
    fn deref(&self) -> &AppParts {
        &self.0.0
    }
}
