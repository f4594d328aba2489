//! The gateways to people and their money, as the settings of `serve` name them.

use std::sync::Arc;

use anyhow::Context;
use axum::http::Uri;

use crate::config::{GatewaySettings, UrlSchemes};
use crate::http::payments::PaymentWebhook;
use crate::http::sms::{LogSms, SmsGateway};
use crate::http::webhook::{SigningKey, Webhook};
use crate::model::SystemClock;
use crate::orders::PaymentGateway;

/// The gateways to people and their money.
#[derive(Debug)]
#[allow(missing_docs)] // the names and types say it
pub struct Gateways {
    /// Sends login codes; without it nobody can log in.
    pub sms: Option<Box<dyn SmsGateway>>,
    pub payments: Payments,
}

/// How payments are taken.
#[derive(Debug)]
pub enum Payments {
    /// Nobody can pay.
    Nothing,
    /// A page for development; it signs with the server's own secret.
    Sandbox,
    /// An operator's own service, and the key that verifies its notifications.
    Http(Arc<dyn PaymentGateway>, SigningKey),
}

impl Payments {
    /// `schemes`: to which addresses the operator's service may send buyers.
    pub(super) fn with(
        settings: &GatewaySettings<'_>,
        schemes: &UrlSchemes,
        is_private: bool,
    ) -> anyhow::Result<Self> {
        match settings {
            GatewaySettings::Nothing => {
                tracing::warn!(
                    "SECKILL_PAYMENTS is not set: vouchers that cost something can be ordered, and \
                     nobody can pay for them (set it to http, or to sandbox for development)"
                );
                Ok(Self::Nothing)
            }
            GatewaySettings::Development => {
                if !is_private {
                    tracing::warn!(
                        "SECKILL_PAYMENTS=sandbox: everybody who reaches this server can say that an \
                         order is paid"
                    );
                }
                Ok(Self::Sandbox)
            }
            GatewaySettings::Http { url, secret, previous } => {
                let key = SigningKey::new(secret.as_bytes()).or(previous.map(str::as_bytes));
                let webhook = webhook("SECKILL_PAYMENTS_URL", url, secret)?;
                Ok(Self::Http(Arc::new(PaymentWebhook { webhook, schemes: schemes.clone() }), key))
            }
        }
    }
}

/// The gateway that sends login codes; `None`: there is none.
pub(super) fn sms_gateway(
    settings: &GatewaySettings<'_>,
) -> anyhow::Result<Option<Box<dyn SmsGateway>>> {
    match settings {
        GatewaySettings::Nothing => {
            tracing::warn!(
                "SECKILL_SMS is not set: nobody can log in, POST /api/login-codes answers 503 \
                 (set it to http, or to log for development)"
            );
            Ok(None)
        }
        GatewaySettings::Development => Ok(Some(Box::new(LogSms))),
        GatewaySettings::Http { url, secret, .. } => {
            Ok(Some(Box::new(webhook("SECKILL_SMS_URL", url, secret)?)))
        }
    }
}

fn webhook(variable: &str, url: &Uri, secret: &str) -> anyhow::Result<Webhook> {
    let webhook = Webhook::new(url.clone(), secret.as_bytes(), Arc::new(SystemClock));
    webhook.with_context(|| format!("no certificates of authorities for {variable}"))
}
