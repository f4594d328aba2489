//! Where login codes and other text messages go.

use async_trait::async_trait;
use serde::Serialize;
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

    /// Sends a text about an order. It may come twice, with the same id. The error says the same.
    async fn send_text(&self, text: &BuyerText<'_>) -> Result<(), String>;
}

/// A text about an order.
#[derive(Debug, Serialize)]
pub struct BuyerText<'a> {
    /// Names it.
    pub id: String,
    /// Its receiver.
    pub phone: &'a str,
    /// Which template it was made of, for gateways that have their own: `offered`, `paid`, `yours`, `refunded`, `cancelled` or
    /// `cancelled_refund`.
    pub template: &'static str,
    /// The whole of it, in the language of the phone.
    pub text: String,
    /// The title of the voucher.
    pub title: &'a str,
    /// In the currency's smallest unit.
    pub amount: i64,
    /// How long the buyer of an offered order has left, in whole minutes.
    pub minutes: Option<i64>,
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

    async fn send_text(&self, text: &BuyerText<'_>) -> Result<(), String> {
        let BuyerText { phone, text, .. } = text;
        tracing::info!(phone, text, "text message (a log line stands in for the SMS gateway)");
        Ok(())
    }
}

/// A login code is `{"phone", "code", "expires_in_s"}`; a text about an order is a [`BuyerText`], and `"type": "text"`.
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

    async fn send_text(&self, text: &BuyerText<'_>) -> Result<(), String> {
        let mut message = json!(text);
        message["type"] = "text".into();
        self.send(&message, 1).await.map(drop)
    }
}
