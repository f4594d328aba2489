//! `seckill lab serve`, the binary, and what its users do.

use std::process::{ExitStatus, Stdio};

use child_process::ChildProcess;
use nix::sys::signal::Signal;
use reqwest::{Client, Response};
use serde_json::{Value, json};
use testkit::processes::{seckill, send};
use testkit::shop::world::World;
use testkit::wait::{PATIENCE, must};
use tokio::process::{ChildStdin, Command};

/// A running `lab serve`.
pub struct Serving {
    pub base: String,
    /// All it said before anybody came.
    pub said: String,
    pub child: ChildProcess,
    /// Its end is the program's, too, so that it does not outlive a test that was killed.
    _stdin: ChildStdin,
    pub client: Client,
    /// Whose stores it has, unless these are its own.
    pub world: Option<World>,
}

impl Serving {
    pub async fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = ChildProcess::start(command, Signal::SIGKILL).unwrap();
        let mut said = String::new();
        let is_all = |line: &str| {
            said += &format!("{line}\n");
            line.starts_with("Ctrl-C stops").then_some(())
        };
        child.ready(PATIENCE, is_all).await.unwrap();
        let first = said.lines().next().unwrap();
        let base = first.strip_prefix("listening on ").expect("the line is fixed").to_owned();
        let stdin = child.pipes().0.unwrap();
        Self { base, said, child, _stdin: stdin, client: Client::new(), world: None }
    }

    /// On the stores of a world of its own.
    pub async fn begin() -> Self {
        let (mut command, world) = (serve(), World::new().await);
        command.env("DATABASE_URL", &world.database_url).env("REDIS_URL", &world.redis_url);
        Self { world: Some(world), ..Self::start(command).await }
    }

    pub async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Response {
        self.client.post(format!("{}{path}", self.base)).body(body).send().await.unwrap()
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        read(self.client.get(format!("{}{path}", self.base)).send().await.unwrap()).await
    }

    pub async fn voucher(&self, rung: &str, stock: i64) -> String {
        let body = json!({ "stock": stock }).to_string();
        let (status, new) = read(self.post(&format!("/lab/{rung}/vouchers"), body).await).await;
        assert_eq!(status, 201, "{new}");
        assert_eq!((&new["initial_stock"], &new["stock"]), (&stock.into(), &stock.into()));
        new["voucher_id"].as_str().unwrap().to_owned()
    }

    pub async fn buy(&self, rung: &str, voucher: &str, user: Option<i64>) -> (u16, Value) {
        let path = format!("{}/lab/{rung}/vouchers/{voucher}/orders", self.base);
        let request = self.client.post(path);
        let request = match user {
            Some(user) => request.bearer_auth(user),
            None => request,
        };
        read(request.send().await.unwrap()).await
    }

    /// What a user is told of a purchase.
    pub async fn ask(&self, rung: &str, voucher: &str, user: i64) -> (u16, Value) {
        let path = format!("{}/lab/{rung}/vouchers/{voucher}/orders", self.base);
        read(self.client.get(path).bearer_auth(user).send().await.unwrap()).await
    }

    /// The same, when it is decided.
    pub async fn decided(&self, rung: &str, voucher: &str, user: i64) -> (u16, Value) {
        let decided = async {
            loop {
                match self.ask(rung, voucher, user).await {
                    (202, _) => tokio::task::yield_now().await,
                    decided => return decided,
                }
            }
        };
        must("it is decided", decided).await
    }

    pub async fn books(&self, rung: &str, voucher: &str) -> Value {
        let (status, books) = self.get(&format!("/lab/{rung}/vouchers/{voucher}")).await;
        assert_eq!(status, 200, "{books}");
        books
    }

    /// The URL of a scratch database, as the program says it.
    pub fn database(&self, which: &str) -> &str {
        let of = |line: &&str| line.contains("DATABASE_URL='") && line.contains(which);
        let line = self.said.lines().find(of).expect("it says where its databases are");
        line.split('\'').nth(1).unwrap()
    }

    pub async fn ends_on(&mut self, signal: Signal) -> ExitStatus {
        send(self.child.id().unwrap(), signal);
        must("it ends", self.child.wait()).await.unwrap()
    }
}

/// The command, without stores.
pub fn serve() -> Command {
    seckill(&["lab", "serve", "--listen", "127.0.0.1:0", "--until-stdin-closes"])
}

/// The answer, in the form that all have.
pub async fn read(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    let expected = if status < 400 { "application/json" } else { "application/problem+json" };
    assert_eq!(kind, expected, "{status}");
    assert_eq!(response.headers().contains_key("retry-after"), status == 503);
    let body: Value = response.json().await.unwrap();
    if status >= 400 {
        assert_eq!(body["status"], status, "{body}");
        assert!(body["title"].is_string() && body["code"].is_string(), "{body}");
    }
    (status, body)
}
