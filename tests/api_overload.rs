//! An overload, as those see it who are refused: told to come later, and not listened to if they
//! do not.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use seckill::seckill::{GateOptions, PurchasesOptions};
use sqlx::{Executor, PgConnection};
use tokio::io::BufReader;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::api_client::{PATIENCE, until};
use crate::api_connections::{hold_rows, somebody_waits};
use crate::raw_http::{Raw, RawAnswer, purchase_head};
use crate::world::World;

const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const HEALTHZ: &str = "GET /healthz HTTP/1.1\r\nhost: s\r\n\r\n";

async fn from_the_proxy(address: SocketAddr) -> Raw {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((PROXY, 0).into()).unwrap();
    Raw(BufReader::new(socket.connect(address).await.unwrap()))
}

/// A sale in which one purchase may be under way, and one always is: it waits for a row that is
/// held, and when it is given up, the next does.
struct Stuck {
    world: World,
    address: SocketAddr,
    voucher: String,
    waiting: JoinSet<()>,
    held: PgConnection,
}

impl Stuck {
    async fn new() -> Self {
        let world = World::new().await;
        world.users(10).await;
        let voucher = world.voucher(10).await.id.to_string();
        let wait = Duration::from_millis(25);
        let gate = GateOptions { least: 1, burst: 1, most: 1, wait };
        let options = PurchasesOptions { gate, ..world.options() };
        let address = world.serve_with(options, vec![IpAddr::from(PROXY).into()]).await;
        let held = hold_rows(&world).await;
        let mut waiting = JoinSet::new();
        for buyer in 4..=6 {
            let head = purchase_head(&world.token(buyer), &voucher, "");
            let mut raw = from_the_proxy(address).await;
            waiting.spawn(async move {
                loop {
                    raw.send(&head).await;
                    assert_eq!(raw.answer().await.unwrap().status, 503);
                    // Often enough that there never seems to be room.
                    sleep(Duration::from_millis(5)).await;
                }
            });
        }
        until("a purchase waits for the row", || somebody_waits(&world)).await;
        Self { world, address, voucher, waiting, held }
    }

    async fn buy(&self, raw: &mut Raw, buyer: i64) -> RawAnswer {
        raw.send(purchase_head(&self.world.token(buyer), &self.voucher, "")).await;
        raw.answer().await.unwrap()
    }

    /// A connection that is not listened to: it asked so often that it was told to come later
    /// than usual.
    async fn benched(&self) -> Raw {
        let mut raw = Raw::connect(self.address).await;
        let begun = Instant::now();
        loop {
            let answer = self.buy(&mut raw, 3).await;
            assert_eq!((answer.status, &answer.json()["code"]), (503, &"unavailable".into()));
            if answer.head.contains("\r\nretry-after: 5\r\n") {
                return raw;
            }
            assert!(answer.head.contains("\r\nretry-after: 1\r\n"), "{answer:?}");
            assert!(begun.elapsed() < PATIENCE, "never told to come later than usual");
        }
    }

    /// Nobody wants to buy any more, and the row is free.
    async fn let_go(&mut self) {
        self.waiting.shutdown().await;
        self.held.execute("rollback").await.unwrap();
    }

    /// It is over: whoever asks now is served.
    async fn is_over(&self, raw: &mut Raw) {
        let begun = Instant::now();
        while self.buy(raw, 2).await.status != 201 {
            assert!(begun.elapsed() < PATIENCE, "never over");
        }
        assert!(self.world.audit().await.holds);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_wait_as_he_was_told_is_not_listened_to_until_there_is_room() {
    let mut stuck = Stuck::new().await;
    let before = Instant::now();
    let mut early = stuck.benched().await;
    // On the same connection nothing is heard, whatever it asks for; on others everything is.
    early.send(HEALTHZ).await;
    let mut other = Raw::connect(stuck.address).await;
    for _ in 0..20 {
        other.send(HEALTHZ).await;
        assert_eq!(other.answer().await.unwrap().status, 200);
    }
    let unheard = timeout(Duration::from_millis(300), early.answer()).await;
    // On a busy machine the longest that nobody listens may be over.
    assert!(unheard.is_err() || before.elapsed() > Duration::from_secs(3), "{unheard:?}");
    stuck.let_go().await;
    assert_eq!(early.answer().await.unwrap().status, 200);
    stuck.is_over(&mut early).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_purchase_is_refused_even_if_there_is_room_by_then_with_a_body_or_without() {
    for more in ["\r\n", "content-length: 2\r\n\r\n{}"] {
        let mut stuck = Stuck::new().await;
        let mut early = stuck.benched().await;
        let purchase = purchase_head(&stuck.world.token(2), &stuck.voucher, "");
        early.send(purchase.replace("\r\n\r\n", &format!("\r\n{more}"))).await;
        stuck.let_go().await;
        let answer = early.answer().await.unwrap();
        assert_eq!(answer.status, 503, "{answer:?}");
        stuck.is_over(&mut early).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connection_of_a_proxy_is_that_of_many_and_is_always_listened_to() {
    let stuck = Stuck::new().await;
    let mut proxy = from_the_proxy(stuck.address).await;
    let _benched = stuck.benched().await;
    // So is that of one who is not trusted, but says that he is one.
    let mut other = Raw::connect(stuck.address).await;
    for _ in 0..5 {
        let head = purchase_head(&stuck.world.token(2), &stuck.voucher, "via: 1.1 b\r\n");
        for (raw, head) in [(&mut proxy, head.replace("via: 1.1 b\r\n", "")), (&mut other, head)] {
            raw.send(head).await;
            let answer = raw.answer().await.unwrap();
            assert_eq!(answer.status, 503);
            assert!(answer.head.contains("\r\nretry-after: 1\r\n"), "{answer:?}");
        }
    }
}
