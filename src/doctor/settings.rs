//! What is found in the settings themselves, and at the gateways that they name.

use std::time::Duration;

use axum::http::Uri;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Finding;
use crate::config::{GatewaySettings, ServerArgs};

/// How long a gateway may take to be reached.
const REACHED_WITHIN: Duration = Duration::from_secs(3);
/// As many open files are room for the connections of a busy sale.
const ENOUGH_FILES: u64 = 4_096;

/// The server's own settings.
pub fn of_server(server: &ServerArgs) -> Vec<Finding> {
    let files = rlimit::getrlimit(rlimit::Resource::NOFILE).map_or(0, |(_, hard)| hard);
    let mut found = vec![if files < ENOUGH_FILES {
        let words = format!("{files} at most: few connections; raise the limit (ulimit -n)");
        Finding::danger("open files", words)
    } else {
        Finding::fine("open files", format!("{files} at most"))
    }];
    if server.trusted_proxies.0.is_empty() {
        let of_balancer = if server.listen.ip().is_loopback() { "=127.0.0.1,::1" } else { "" };
        found.push(Finding::note(
            "balancer",
            format!(
                "none is trusted: behind one, set SECKILL_TRUSTED_PROXIES{of_balancer}, or all clients count as one \
                 address and share each limit"
            ),
        ));
    }
    found
}

/// The gateway that `variable` sets: login codes, payments, or events. Where it is not set, `serve` says so.
pub async fn of_gateway(
    about: &'static str,
    variable: &str,
    gateway: &GatewaySettings<'_>,
) -> Option<Finding> {
    match gateway {
        GatewaySettings::Nothing => None,
        GatewaySettings::Development => {
            let words = "for development: people act in the name of others; set";
            Some(Finding::danger(about, format!("{words} {variable}=http")))
        }
        GatewaySettings::Http { url, .. } => Some(reached(about, url).await),
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
