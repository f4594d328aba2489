//! What every handler can reach, built in one place.

use std::collections::HashSet;
use std::sync::Arc;

use ipnet::IpNet;

use super::revocations::Revocations;
use super::sms::SmsGateway;
use super::tokens::Tokens;
use crate::model::SharedClock;
use crate::seckill::Purchases;
use crate::store::{Database, Keys, LoginLimits, Redis};

/// The state of the API. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App(Arc<AppParts>);

/// The parts of an [`App`].
#[derive(Debug)]
pub struct AppParts {
    /// PostgreSQL.
    pub database: Database,
    /// Redis.
    pub redis: Redis,
    /// Key names.
    pub keys: Keys,
    /// Wall-clock time.
    pub clock: SharedClock,
    /// Sells.
    pub purchases: Arc<Purchases>,
    /// Signs and checks session tokens.
    pub tokens: Tokens,
    /// The tokens that are void before their time.
    pub revocations: Revocations,
    /// Sends login codes; without it nobody can log in.
    pub sms: Option<Box<dyn SmsGateway>>,
    /// How often codes may be asked for and tried.
    pub login_limits: LoginLimits,
    /// The phones whose users may put vouchers on sale.
    pub admin_phones: HashSet<String>,
    /// The proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
}

impl App {
    /// The state made of `parts`.
    pub fn new(parts: AppParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl std::ops::Deref for App {
    type Target = AppParts;
    fn deref(&self) -> &AppParts {
        &self.0
    }
}
