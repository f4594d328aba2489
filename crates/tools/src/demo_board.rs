//! The board of a demo: its first node serves it, and stays until somebody interrupts the demo.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use crate::DEMO_ADMIN_PHONE;
use private_stores::on_search_path;
use seckill::config::ConfigError;
use seckill::http::address::reachable;
use seckill::http::server;
use seckill::http::tokens::Tokens;
use seckill::model::VoucherId;
use seckill::store::{Database, order_steps, users};

/// How long the people at the board have until the sale begins.
pub const BEGINS_IN: Duration = Duration::from_secs(8);
/// How long the token of the board is good: no demo is watched for longer.
const WATCHED_FOR: chrono::TimeDelta = chrono::TimeDelta::days(1);

/// Whether a demo has a board, and where.
#[derive(Debug, Args)]
pub struct BoardArgs {
    /// Open the board in a browser: the sale begins 8 seconds later, and after the verdict the
    /// board stays until Ctrl-C
    #[arg(long, help_heading = "Board")]
    open: bool,
    /// Serve the board here without opening it [with --open: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR", help_heading = "Board")]
    listen: Option<SocketAddr>,
}

impl BoardArgs {
    /// Where the node listens that serves the board; `None`: no board.
    pub fn address(&self) -> Option<SocketAddr> {
        let free_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        self.listen.or_else(|| self.open.then_some(free_port))
    }

    /// Looks, before anything is started, whether it can listen there.
    ///
    /// # Errors
    /// When it cannot.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Some(address) = self.address() else { return Ok(()) };
        let listening = server::listen(address);
        listening
            .map(drop)
            .map_err(|error| ConfigError(format!("cannot listen at {address}: {error}")))
    }

    /// Says where the board of `node` is, and opens it where that was asked for.
    pub fn show(&self, node: SocketAddr, voucher: VoucherId, token: &str) {
        // The token stands where no server sees it, and is good in this demo alone.
        let url = format!("http://{}/board?voucher={voucher}#token={token}", reachable(node));
        eprintln!("Board: {url}");
        if self.open && !opens(&url) {
            eprintln!("No browser could be opened: open the address yourself.");
        }
        eprintln!("The sale begins in {} s.", BEGINS_IN.as_secs());
    }
}

/// A token of the administrator whom the demo's nodes know.
///
/// # Errors
/// When the user cannot be made.
pub async fn admin_token(database: &Database, tokens: &Tokens) -> anyhow::Result<String> {
    let now = order_steps::time(database.pool()).await?;
    let admin = users::find_or_create(database.pool(), DEMO_ADMIN_PHONE, "demo", now).await?;
    tokens.mint(admin.id, now, now + WATCHED_FOR).context("a token could not be signed")
}

/// Hands `url` to the platform's opener; whether there is one.
#[must_use]
pub fn opens(url: &str) -> bool {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let Some(opener) = on_search_path(opener) else { return false };
    let mut command = Command::new(opener);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    // It may be the browser itself, and runs as long as that does.
    std::thread::spawn(move || child.wait());
    true
}
