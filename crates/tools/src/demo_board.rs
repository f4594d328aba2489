//! The board of a demo: its first node serves it, and stays until somebody interrupts the demo.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use tempfile::TempPath;
use url::Url;

use program::browser::opens;
use seckill::config::ConfigError;
use seckill::http::address::reachable;
use seckill::http::server;
use seckill::http::tokens::Tokens;
use seckill::model::VoucherId;
use seckill::store::users::{self, NOBODYS_PHONE};
use seckill::store::{Database, order_steps};

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

    /// Says where the board of `node` is, and opens it where that was asked for: the answer is the file that is opened, to
    /// be kept as long as the demo lasts.
    ///
    /// # Errors
    /// When that file cannot be written.
    pub fn show(
        &self,
        node: SocketAddr,
        voucher: VoucherId,
        token: &str,
    ) -> io::Result<Option<TempPath>> {
        // The token stands where no server sees it, and is good in this demo alone.
        let url = format!("http://{}/board?voucher={voucher}#token={token}", reachable(node));
        eprintln!("Board: {url}");
        let page = if self.open { Some(page_that_leads_to(&url)?) } else { None };
        // The name of the directory for temporary files may have blanks, and a URL has none.
        let file = page.as_ref().and_then(|page| Url::from_file_path(page).ok());
        if page.is_some() && !file.is_some_and(|file| opens(file.as_str())) {
            eprintln!("No browser could be opened: open the address yourself.");
        }
        eprintln!("The sale begins in {} s.", BEGINS_IN.as_secs());
        Ok(page)
    }
}

/// A page, its owner's alone to read, that leads to `url`: everybody on the machine sees the arguments of a browser, in which
/// a token has no place.
fn page_that_leads_to(url: &str) -> io::Result<TempPath> {
    let mut page = tempfile::Builder::new().prefix("seckill-board-").suffix(".html").tempfile()?;
    let there = url.replace('&', "&amp;");
    writeln!(
        page,
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={there}\"><a href=\"{there}\">the board</a>"
    )?;
    Ok(page.into_temp_path())
}

/// A token of the administrator whom the demo's nodes know.
///
/// # Errors
/// When the user cannot be made.
pub async fn admin_token(database: &Database, tokens: &Tokens) -> anyhow::Result<String> {
    let now = order_steps::time(database.pool()).await?;
    let admin = users::find_or_create(database.pool(), NOBODYS_PHONE, "demo", now).await?;
    Ok(tokens.mint(admin.id, admin.tokens_not_before, now, now + WATCHED_FOR))
}
