//! Where login codes go.

use async_trait::async_trait;

/// Sends text messages.
#[async_trait]
pub trait SmsGateway: Send + Sync + std::fmt::Debug {
    /// Sends a login code.
    ///
    /// # Errors
    /// In words, for the log, when the gateway did not take the message.
    async fn send_login_code(&self, phone: &str, code: &str) -> Result<(), String>;
}

/// Stands in for a gateway: the code appears in the log.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogSms;

#[async_trait]
impl SmsGateway for LogSms {
    async fn send_login_code(&self, phone: &str, code: &str) -> Result<(), String> {
        tracing::info!(phone, code, "login code (a log line stands in for the SMS gateway)");
        Ok(())
    }
}
