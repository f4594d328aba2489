//! What sends the login codes of a test's world.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use seckill::http::sms::{BuyerText, SmsGateway};
use seckill::http::webhook::Webhook;
use seckill::model::ManualClock;

/// A login code instead of a text message: kept for the test to read.
#[derive(Debug, Clone, Default)]
pub struct KeptSms(pub Arc<Mutex<Vec<(String, String)>>>);

#[async_trait]
impl SmsGateway for KeptSms {
    async fn send_login_code(&self, phone: &str, code: &str, _: u64) -> Result<(), String> {
        self.0.lock().unwrap().push((phone.to_owned(), code.to_owned()));
        Ok(())
    }

    async fn send_text(&self, text: &BuyerText<'_>) -> Result<(), String> {
        self.0.lock().unwrap().push((text.phone.to_owned(), text.text.clone()));
        Ok(())
    }
}

/// What sends the login codes of a world's APIs.
#[derive(Clone)]
pub enum Gateway {
    /// The world's `sms`.
    Kept,
    /// A webhook at this URL, signed with the world's secret.
    Webhook(String),
    Nothing,
}

impl Gateway {
    pub(super) fn opened(
        &self,
        kept: &KeptSms,
        secret: &[u8],
        clock: &Arc<ManualClock>,
    ) -> Option<Arc<dyn SmsGateway>> {
        match self {
            Self::Kept => Some(Arc::new(kept.clone())),
            Self::Webhook(url) => {
                let webhook = Webhook::new(url.parse().unwrap(), secret, clock.clone());
                Some(Arc::new(webhook.unwrap()))
            }
            Self::Nothing => None,
        }
    }
}
