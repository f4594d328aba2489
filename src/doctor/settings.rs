//! What is found in the settings themselves, and at the gateways that they name.

use std::time::Duration;

use axum::http::Uri;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Finding;
use crate::config::{PaymentSettings, ServerArgs, SmsSettings};
use crate::model::BucketRate;

/// How long a gateway may take to be reached.
const REACHED_WITHIN: Duration = Duration::from_secs(3);
/// As many open files are room for the connections of a busy sale.
const ENOUGH_FILES: u64 = 4_096;

/// The server's own settings.
pub fn of_server(server: &ServerArgs) -> Vec<Finding> {
    let mut found = vec![Finding::fine("strategy", server.strategy.to_string())];
    let rates = format!("a buyer {}, an address {}", server.buyer_rate, server.address_rate);
    let words = "no limit: one buyer can take what the others need; see SECKILL_BUYER_RATE";
    found.push(match server.buyer_rate {
        BucketRate::Off => Finding::note("rates", words),
        BucketRate::Per(..) => Finding::fine("rates", rates),
    });
    if !server.listen.ip().is_loopback() && server.trusted_proxies.0.is_empty() {
        found.push(Finding::note(
            "balancer",
            "none is trusted: behind one, set SECKILL_TRUSTED_PROXIES, or all clients count as one address",
        ));
    }
    if server.admin_phones.0.is_empty() {
        found.push(Finding::note(
            "administrators",
            "none: set SECKILL_ADMIN_PHONES for the board, or use seckill voucher in the shell",
        ));
    }
    let files = rlimit::getrlimit(rlimit::Resource::NOFILE).map_or(0, |(_, hard)| hard);
    found.push(if files < ENOUGH_FILES {
        let words = format!("{files} at most: few connections; raise the limit (ulimit -n)");
        Finding::danger("open files", words)
    } else {
        Finding::fine("open files", format!("{files} at most"))
    });
    found
}

/// What sends login codes.
pub async fn of_sms(sms: &SmsSettings<'_>, is_private: bool) -> Finding {
    let about = "SMS gateway";
    match sms {
        SmsSettings::Nothing => Finding::danger(about, "none: nobody can log in; set SECKILL_SMS"),
        SmsSettings::Log if is_private => {
            Finding::note(about, "the log, for development: with DATABASE_URL it is off")
        }
        SmsSettings::Log => Finding::danger(
            about,
            "the log: whoever reads it can log in as anybody; set SECKILL_SMS=http",
        ),
        SmsSettings::Http { url, .. } => reached(about, url).await,
    }
}

/// What takes payments.
pub async fn of_payments(payments: &PaymentSettings<'_>, is_private: bool) -> Finding {
    let about = "payment gateway";
    match payments {
        PaymentSettings::Nothing => {
            Finding::note(about, "none: vouchers that cost something can be ordered and not paid")
        }
        PaymentSettings::Sandbox if is_private => {
            Finding::note(about, "the sandbox, for development: no money moves")
        }
        PaymentSettings::Sandbox => Finding::danger(
            about,
            "the sandbox: everybody can say that an order is paid; set SECKILL_PAYMENTS=http",
        ),
        PaymentSettings::Http { url, .. } => reached(about, url).await,
    }
}

/// Whether something listens there. Nothing is sent: a message would cost money.
async fn reached(about: &'static str, url: &Uri) -> Finding {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let default_port = if url.scheme_str() == Some("https") { 443 } else { 80 };
    let port = url.port_u16().unwrap_or(default_port);
    let place = format!("{host}:{port}");
    let why = match timeout(REACHED_WITHIN, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => return Finding::fine(about, format!("{place} takes connections")),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no connection within {REACHED_WITHIN:?}"),
    };
    Finding::danger(about, format!("{place} cannot be reached: {why}"))
}
