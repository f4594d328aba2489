//! Where login codes go.

use async_trait::async_trait;
use serde_json::json;

use super::webhook::{TRIES, Webhook};

/// Sends text messages.
#[async_trait]
pub trait SmsGateway: Send + Sync + std::fmt::Debug {
    /// Sends a login code that is good for `expires_in_s`. The error says in words, for the log, why the gateway did not
    /// take it.
    async fn send_login_code(
        &self,
        phone: &str,
        code: &str,
        expires_in_s: u64,
    ) -> Result<(), String>;
}

/// Stands in for a gateway: the code appears in the log.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogSms;

#[async_trait]
impl SmsGateway for LogSms {
    async fn send_login_code(&self, phone: &str, code: &str, _: u64) -> Result<(), String> {
        tracing::info!(phone, code, "login code (a log line stands in for the SMS gateway)");
        Ok(())
    }
}

/// Each message is `{"phone", "code", "expires_in_s"}`.
#[async_trait]
impl SmsGateway for Webhook {
    async fn send_login_code(
        &self,
        phone: &str,
        code: &str,
        expires_in_s: u64,
    ) -> Result<(), String> {
        let message = json!({ "phone": phone, "code": code, "expires_in_s": expires_in_s });
        self.send(&message, TRIES).await.map(|_| ())
    }
}
