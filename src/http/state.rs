//! What every handler can reach, built in one place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Bytes;

use super::draw_documents::{self, DrawDocuments};
use super::entries;
use super::event_hub::EventHub;
use super::health::{self, Health};
use super::limits::Limits;
use super::revocations::Revocations;
use super::sms::SmsGateway;
use super::tokens::Tokens;
use super::voucher_pages::VoucherPages;
use super::webhook::SigningKey;
use crate::config::ServerArgs;
use crate::model::{Line, SharedClock, VoucherId};
use crate::orders::Orders;
use crate::purchase::Purchases;
use crate::store::{Database, Keys, ReadCache};
use redis_link::Redis;

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
    pub sms: Option<Arc<dyn SmsGateway>>,
    /// Streams of events that may be open at once, all together.
    pub event_streams: usize,
    pub settings: ServerArgs,
}

/// Answers that serve many requests, and what is under way.
#[derive(Debug)]
pub struct AppMemory {
    /// The list of vouchers.
    pub voucher_pages: Arc<VoucherPages>,
    /// What is sent to all who watch the sales.
    pub events: EventHub,
    /// The metrics as text.
    pub metrics: ReadCache<(), Bytes>,
    /// What is published of draws.
    pub draws: DrawDocuments,
    /// How many wait for a voucher, as administrators see it.
    pub lines: ReadCache<VoucherId, Option<Line>>,
    /// What counts against each limit on requests.
    pub limits: Limits,
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
            events: EventHub::new(&voucher_pages, &parts.purchases),
            voucher_pages,
            metrics: health::metrics_text(&parts.purchases, &parts.database),
            draws: draw_documents::documents(&parts.database),
            lines: entries::lines(&parts.database),
            limits: Limits::new(&parts.settings, parts.event_streams),
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
