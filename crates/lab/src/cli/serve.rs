//! `seckill lab serve`.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;

use crate::{LabServer, World};
use ladder::Tables;
use program::{say, stop};
use seckill::config::StoreArgs;
use seckill::http::server;

/// Serve every rung over HTTP, to watch it oversell with k6, JMeter, wrk or plain curl
///
/// POST /lab/RUNG/vouchers/ID/orders buys: as the user N with `Authorization: Bearer N`, as
/// somebody new without. GET of the same path says what became of that user's purchase. GET
/// /lab/RUNG/vouchers/ID shows what the books say; POST /lab/RUNG/vouchers {"stock":N} puts another
/// voucher on sale. All is gone when it stops.
#[derive(Debug, Args)]
pub struct LabServeArgs {
    /// Address to listen at; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    #[command(flatten)]
    stores: StoreArgs,
    /// Stop when standard input ends, so that it does not outlive the program that started it
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

/// Runs the command.
///
/// # Errors
/// When the address is taken, or the lab's servers cannot be started or reached.
pub async fn run(args: LabServeArgs) -> anyhow::Result<()> {
    // First of all, so that an interrupt during the start is not lost.
    let stop = stop::requested(args.until_stdin_closes)?;
    let listener =
        server::listen(args.listen).with_context(|| format!("cannot listen at {}", args.listen))?;
    let address = listener.local_addr()?;
    let world = World::on(args.stores).await?;
    let world = Arc::new(world);
    let served = async {
        let server = LabServer::open(&world, address).await?;
        // Standard output may be closed: the server sells all the same.
        let _ = say(format_args!("listening on http://{address}"));
        let _ = say(list(&world, &server)?);
        server.serve(listener, stop).await
    }
    .await;
    // Every other holder has ended by now.
    if let Some(world) = Arc::into_inner(world) {
        world.close().await?;
    }
    served
}

/// What is on sale, and where the books are.
fn list(world: &World, server: &LabServer) -> anyhow::Result<String> {
    let mut text = String::new();
    for on_sale in server.on_sale() {
        text += &format!(
            "\n{}: {}\n    {}\n",
            on_sale.rung.id,
            on_sale.rung.line("Idea"),
            on_sale.curl
        );
    }
    text += "\nEvery request without `Authorization: Bearer N` comes from a new user. What a \
             voucher's books say: GET /lab/RUNG/vouchers/ID, or";
    for (tables, what) in [
        (Tables::Bare, "the rungs without a safety net"),
        (Tables::Guarded, "those with the production tables' constraints"),
    ] {
        let url = without_password(&world.database_url(tables)?)?;
        text += &format!("\n    DATABASE_URL='{url}' seckill audit    # {what}");
    }
    Ok(text + "\nCtrl-C stops it and drops everything.")
}

/// Passwords are not for screens.
fn without_password(url: &str) -> anyhow::Result<String> {
    let mut url = url::Url::parse(url)?;
    if url.password().is_some() {
        // Refused only by URLs that cannot have one.
        let _ = url.set_password(Some("PASSWORD"));
    }
    Ok(url.into())
}
