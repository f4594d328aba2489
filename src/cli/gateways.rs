//! The gateways to people, their money and programs, as the settings of `serve` name them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::http::Uri;

use crate::config::{GatewaySettings, Occasions, UrlSchemes};
use crate::http::payments::PaymentWebhook;
use crate::http::sms::{LogSms, SmsGateway};
use crate::http::webhook::{SigningKey, Webhook};
use crate::model::SystemClock;
use crate::orders::PaymentGateway;
use crate::orders::event_sender::EventReceiver;

/// The gateways to people, their money and programs.
#[derive(Debug)]
#[allow(missing_docs)] // the names and types say it
pub struct Gateways {
    /// Sends login codes; without it nobody can log in.
    pub sms: Option<Arc<dyn SmsGateway>>,
    /// Of what buyers are told by text message.
    pub occasions: Occasions,
    pub payments: Payments,
    /// How long an order waits at most for what the payment gateway says of its payment, before time cancels the order.
    pub ask_within: Duration,
    /// Is told of events; without it nobody is.
    pub events: Option<Box<dyn EventReceiver>>,
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
) -> anyhow::Result<Option<Arc<dyn SmsGateway>>> {
    match settings {
        GatewaySettings::Nothing => {
            tracing::warn!(
                "SECKILL_SMS is not set: nobody can log in, POST /api/login-codes answers 503 \
                 (set it to http, or to log for development)"
            );
            Ok(None)
        }
        GatewaySettings::Development => Ok(Some(Arc::new(LogSms))),
        GatewaySettings::Http { url, secret, .. } => {
            Ok(Some(Arc::new(webhook("SECKILL_SMS_URL", url, secret)?)))
        }
    }
}

/// What is told of events; `None`: nothing.
pub(super) fn event_receiver(
    settings: &GatewaySettings<'_>,
) -> anyhow::Result<Option<Box<dyn EventReceiver>>> {
    let GatewaySettings::Http { url, secret, .. } = settings else { return Ok(None) };
    Ok(Some(Box::new(webhook("SECKILL_EVENTS_URL", url, secret)?)))
}

fn webhook(variable: &str, url: &Uri, secret: &str) -> anyhow::Result<Webhook> {
    let webhook = Webhook::new(url.clone(), secret.as_bytes(), Arc::new(SystemClock));
    webhook.with_context(|| format!("no certificates of authorities for {variable}"))
}
