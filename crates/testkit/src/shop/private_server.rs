//! A `seckill play` with private stores of its own, as `make play` starts it.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use seckill::model::{Clock, SystemClock};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::processes::{Node, place, seckill};
use crate::servers;
use crate::shop::api_client::{Answer, Client};
use crate::wait::eventually;

/// The administrator whom nobody configured.
pub use seckill::store::users::NOBODYS_PHONE as DEMO_ADMIN_PHONE;

/// The argument that begins with an empty shop.
const EMPTY_SHOP: &[&str] = &["--no-samples"];

/// The server, and a client of it.
pub struct PrivateServer {
    pub node: Node,
    pub api: Client,
    pub place: TempDir,
    /// Arguments of every start.
    always: &'static [&'static str],
    admin_token: OnceCell<String>,
}

fn play(place: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = seckill(&["play", "--data-dir"]);
    command.arg(place.join("data")).args(arguments).env("TMPDIR", place);
    command.env("RUST_LOG", "info").envs(variables.iter().copied());
    command.stderr(File::create(place.join("log")).unwrap());
    command
}

/// What a server keeps that has started and ended once, and sold nothing. Each server of a test begins with a copy: it
/// does not take `initdb` and the migrations again.
async fn first_data() -> &'static Path {
    static MADE: OnceCell<PathBuf> = OnceCell::const_new();
    let make = async || {
        let place = servers::directory().await.join("play");
        fs::create_dir(&place).unwrap();
        let arguments = [&["--listen", "127.0.0.1:0"], EMPTY_SHOP].concat();
        let mut node = Node::start(&mut play(&place, &arguments, &[])).await;
        until_ready(node.address).await;
        node.send(Signal::SIGTERM);
        assert!(node.ended().await.success());
        place.join("data")
    };
    MADE.get_or_init(make).await
}

/// On a busy machine a server listens, and refuses, before it reaches its own database; when it has, it closes the
/// connections on which it has refused.
pub async fn until_ready(address: SocketAddr) {
    let http = reqwest::Client::new();
    eventually("the server is ready", async || {
        let answer = http.get(format!("http://{address}/readyz")).send().await;
        answer.is_ok_and(|answer| answer.status() == 200)
    })
    .await;
}

impl PrivateServer {
    pub async fn start() -> Self {
        Self::start_with(&["--listen", "127.0.0.1:0"], &[]).await
    }

    /// With these arguments, `--listen` among them, and variables.
    pub async fn start_with(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::begin(EMPTY_SHOP, arguments, variables).await
    }

    /// With what `play` puts on sale in an empty shop.
    pub async fn with_samples() -> Self {
        Self::begin(&[], &["--listen", "127.0.0.1:0"], &[]).await
    }

    async fn begin(
        always: &'static [&'static str],
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let place = place();
        let copied =
            Command::new("cp").arg("-a").arg(first_data().await).arg(place.path()).status().await;
        assert!(copied.unwrap().success());
        let arguments = &[arguments, always].concat();
        let node = Node::start(&mut play(place.path(), arguments, variables)).await;
        let api = Client::at(node.address);
        until_ready(node.address).await;
        Self { node, api, place, always, admin_token: OnceCell::new() }
    }

    /// Ends it and starts it again, at the same address and with the same data.
    pub async fn restart(&mut self) {
        self.node.send(Signal::SIGTERM);
        assert!(self.node.ended().await.success());
        self.start_again().await;
    }

    /// Starts it at the same address and with the same data: it has ended.
    pub async fn start_again(&mut self) {
        let address = self.node.address.to_string();
        let arguments = [&["--listen", &address], self.always].concat();
        self.node = Node::start(&mut play(self.place.path(), &arguments, &[])).await;
        until_ready(self.node.address).await;
    }

    /// Logs in with a code from the log.
    pub async fn login(&self, phone: &str) -> String {
        self.api.ask_code(phone).await.is(202);
        let mut code = String::new();
        eventually("the code is in the log", async || {
            let log = fs::read_to_string(self.place.path().join("log")).unwrap();
            let line = log.lines().rfind(|line| line.contains(&format!("phone=\"{phone}\"")));
            let found = line.and_then(|line| line.split("code=\"").nth(1)?.get(..6));
            code = found.unwrap_or_default().to_owned();
            !code.is_empty()
        })
        .await;
        self.api.try_code(phone, &code).await.is(201).text_of("token").to_owned()
    }

    /// The token of the administrator whom nobody configured.
    pub async fn admin(&self) -> String {
        self.admin_token.get_or_init(|| self.login(DEMO_ADMIN_PHONE)).await.clone()
    }

    pub async fn send(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: Option<&Value>,
    ) -> Answer {
        match body {
            Some(body) => self.api.call_with(method, path, token, body).await,
            None => self.api.call(method, path, token).await,
        }
    }

    /// The same until the answer is another than "unavailable": of a server in the middle of a crowd, on a
    /// machine that is busy with other tests, too.
    pub async fn insist(&self, method: &str, path: &str, token: &str) -> Answer {
        let mut answer = None;
        eventually("there is an answer", async || {
            let told = self.send(method, path, token, None).await;
            answer = (told.status != 503).then_some(told);
            answer.is_some()
        })
        .await;
        answer.unwrap()
    }

    /// Puts a voucher on sale that begins so many seconds from now.
    pub async fn voucher(&self, token: &str, stock: i32, begins_in_s: i64) -> String {
        self.voucher_called("100 for 80", token, stock, begins_in_s).await
    }

    pub async fn voucher_called(
        &self,
        title: &str,
        token: &str,
        stock: i32,
        begins_in_s: i64,
    ) -> String {
        let begin_time = SystemClock.now() + chrono::TimeDelta::seconds(begins_in_s);
        let body = json!({ "title": title, "stock": stock, "begin_time": begin_time });
        let created = self.send("POST", "/api/vouchers", token, Some(&body)).await;
        created.is(201).text_of("id").to_owned()
    }
}
