//! A small shop of two nodes before one database, with a bug that is chosen, or none.

mod routes;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, StatusCode};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::routes::{books, buy, checkout, login, mine, new_voucher, order, pay};
use super::{PURCHASE, SALE};

/// How it is built: first those that are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Design {
    /// One transaction.
    Right,
    /// It accepts, a worker writes, and buyers ask later.
    Queues,
    /// Who asks again hears the same yes.
    Repeats,
    /// Orders are not paid, and cancelled: their stock comes back.
    Expires,
    /// The books follow the orders by half a second.
    BooksLate,
    /// A buyer may have ten.
    TenEach,
    /// The stock is read, and written back 20 ms later.
    OversellsWide,
    /// The same with a window of 1 ms.
    OversellsNarrow,
    /// Whether a buyer has an order is looked up 20 ms before it is written.
    DuplicatesWide,
    /// The same with a window of 1 ms.
    DuplicatesNarrow,
    /// The same behind a lock in each node.
    DuplicatesPerNode,
    /// One order in a hundred is told and not written; its stock is gone.
    LosesOrderAndStock,
    /// The same; its stock stays.
    LosesOrder,
    /// Every fifth order is told with the id of the one before.
    SharesIds,
    /// Every twentieth order is written, and then refused.
    WritesThenRefuses,
    /// Every twentieth order does not take from the stock.
    ForgetsDecrement,
    /// The last tenth of the stock is never sold.
    RefusesLastTenth,
    /// One attempt in a hundred hears that all is sold.
    RefusesOneInHundred,
    /// One attempt in a hundred is answered with 500.
    Fails,
    /// The worker writes an order once more, 8 s later.
    DuplicatesLate,
    /// It sells what is closed.
    SellsAfterTheEnd,
    /// Every tenth buyer is accepted, and hears nothing more.
    ForgetsAccepted,
    /// A buyer may have ten, and gets eleven.
    ElevenEach,
}

/// A voucher that is closed from the beginning.
pub(crate) const CLOSED: u64 = 9;

#[derive(Debug, Default)]
struct Sale {
    initial: i64,
    stock: i64,
    /// Order, user, and whether it is cancelled.
    orders: Vec<(u64, String, bool)>,
    waiting: Vec<String>,
    /// The books as they are shown, where they are late.
    shown: (i64, usize),
}

struct Database {
    design: Design,
    sales: Mutex<HashMap<u64, Sale>>,
    carts: Mutex<HashMap<String, u64>>,
    /// Held while one buyer is served.
    transaction: Mutex<()>,
    last_id: AtomicU64,
    attempts: AtomicU64,
}

/// One of its nodes.
#[derive(Clone)]
struct Node {
    database: Arc<Database>,
    lock: Arc<tokio::sync::Mutex<()>>,
}

pub(crate) struct Shop {
    pub(crate) addresses: [SocketAddr; 2],
    _nodes: JoinSet<()>,
}

type Reply = (StatusCode, [(HeaderName, String); 2], String);

const LOCATION: HeaderName = HeaderName::from_static("location");
const COOKIE: HeaderName = HeaderName::from_static("set-cookie");

fn reply(status: u16, body: &Value) -> Reply {
    let none = [
        (HeaderName::from_static("x-a"), "1".into()),
        (HeaderName::from_static("x-b"), "2".into()),
    ];
    (StatusCode::from_u16(status).unwrap(), none, body.to_string())
}

fn code(status: u16, code: &str) -> Reply {
    reply(status, &json!({ "code": code }))
}

impl Shop {
    pub(crate) async fn start(design: Design) -> Self {
        let database = Arc::new(Database {
            design,
            sales: Mutex::default(),
            carts: Mutex::default(),
            transaction: Mutex::default(),
            last_id: AtomicU64::new(1_000),
            attempts: AtomicU64::new(0),
        });
        database.sales().insert(CLOSED, Sale { initial: 50, stock: 50, ..Sale::default() });
        let (mut addresses, mut nodes) = (Vec::new(), JoinSet::new());
        for _ in 0..2 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            addresses.push(listener.local_addr().unwrap());
            let node = Node { database: Arc::clone(&database), lock: Arc::default() };
            let routes = Router::new()
                .route("/vouchers", post(new_voucher))
                .route("/login", post(login))
                .route("/checkout/{voucher}", post(checkout))
                .route("/pay", post(pay))
                .route("/buy/{voucher}", post(buy))
                .route("/mine/{voucher}", get(mine))
                .route("/orders/{order}", get(order))
                .route("/books/{voucher}", get(books))
                .with_state(node);
            nodes.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        }
        Self { addresses: addresses.try_into().unwrap(), _nodes: nodes }
    }

    /// Puts a voucher on sale, and returns its id.
    pub(crate) async fn voucher(&self, stock: u32) -> u64 {
        let request = reqwest::Client::new().post(format!("http://{}/vouchers", self.addresses[0]));
        let answer = request.body(json!({ "stock": stock }).to_string()).send().await.unwrap();
        answer.json::<Value>().await.unwrap()["data"].as_u64().unwrap()
    }

    /// The file that says how to talk to it; `more` comes before the first table, `books` at the end.
    pub(crate) fn file(&self, more: &str, books: &str) -> String {
        self.written(more, SALE, books)
    }

    /// The same file for a voucher that is on sale.
    pub(crate) fn file_of(&self, voucher: u64, more: &str, books: &str) -> String {
        self.written(&format!("voucher = {voucher}\n{more}"), "", books)
    }

    fn written(&self, more: &str, sale: &str, books: &str) -> String {
        let [a, b] = self.addresses;
        let addresses = format!("addresses = [\"http://{a}\", \"http://{b}\"]");
        format!("{addresses}\n{more}\n{PURCHASE}{ENDED}{sale}{ITS_BOOKS}{books}")
    }
}

/// What it answers besides.
const ENDED: &str = r#"[[answer]]
is = "sale_ended"
pointer = "/code"
equals = "sale_ended"
"#;

const ITS_BOOKS: &str = r#"[books]
request = { path = "/books/{voucher}" }
"#;

impl Database {
    fn sales(&self) -> MutexGuard<'_, HashMap<u64, Sale>> {
        self.sales.lock().unwrap()
    }

    fn id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::SeqCst)
    }

    fn limit(&self) -> usize {
        match self.design {
            Design::TenEach => 10,
            Design::ElevenEach => 11,
            _ => 1,
        }
    }

    /// Why a buyer gets nothing, if so.
    fn refusal(&self, voucher: u64, user: &str) -> Option<Reply> {
        let sales = self.sales();
        let sale = sales.get(&voucher)?;
        let own: Vec<_> = sale.orders.iter().filter(|it| it.1 == user).collect();
        if own.len() >= self.limit() {
            return Some(match self.design {
                Design::Repeats => {
                    reply(201, &json!({ "id": own[0].0, "request": self.id(), "user": user }))
                }
                _ => code(409, "already_bought"),
            });
        }
        let kept = if self.design == Design::RefusesLastTenth { sale.initial / 10 } else { 0 };
        (sale.stock <= kept).then(|| code(409, "sold_out"))
    }

    /// Writes an order, whatever there is.
    fn write(self: &Arc<Self>, voucher: u64, user: &str, stock: i64) -> u64 {
        let id = self.id();
        let mut sales = self.sales();
        let sale = sales.get_mut(&voucher).unwrap();
        sale.stock = stock;
        sale.orders.push((id, user.to_owned(), false));
        let database = Arc::clone(self);
        match self.design {
            Design::Expires => {
                tokio::spawn(async move {
                    sleep(Duration::from_millis(700)).await;
                    let mut sales = database.sales();
                    let sale = sales.get_mut(&voucher).unwrap();
                    sale.stock += 1;
                    sale.orders.iter_mut().filter(|it| it.0 == id).for_each(|it| it.2 = true);
                });
            }
            Design::BooksLate => {
                tokio::spawn(async move {
                    sleep(Duration::from_millis(500)).await;
                    let mut sales = database.sales();
                    let sale = sales.get_mut(&voucher).unwrap();
                    sale.shown = (sale.stock, sale.orders.len());
                });
            }
            _ => {}
        }
        id
    }

    /// One transaction.
    fn sell(self: &Arc<Self>, voucher: u64, user: &str) -> Reply {
        let _transaction = self.transaction.lock().unwrap();
        let refusal = self.refusal(voucher, user);
        let (stock, sold) = match self.sales().get(&voucher) {
            None => return code(404, "no_such_voucher"),
            Some(sale) => (sale.stock, sale.orders.len() as u64 + 1),
        };
        if let Some(refusal) = refusal {
            return refusal;
        }
        let told = match self.design {
            Design::LosesOrder if sold % 100 == 50 => {
                // Written, and gone again.
                let id = self.id();
                let mut sales = self.sales();
                sales.get_mut(&voucher).unwrap().orders.push((0, format!("gone {id}"), true));
                return reply(201, &json!({ "id": id, "request": id, "user": user }));
            }
            Design::LosesOrderAndStock if sold % 100 == 50 => {
                let id = self.id();
                let mut sales = self.sales();
                let sale = sales.get_mut(&voucher).unwrap();
                sale.stock -= 1;
                sale.orders.push((0, format!("gone {id}"), true));
                return reply(201, &json!({ "id": id, "request": id, "user": user }));
            }
            Design::ForgetsDecrement if sold.is_multiple_of(20) => self.write(voucher, user, stock),
            Design::SharesIds if sold.is_multiple_of(5) => {
                self.write(voucher, user, stock - 1);
                self.sales()[&voucher].orders[sold as usize - 2].0
            }
            _ => self.write(voucher, user, stock - 1),
        };
        match self.design {
            Design::WritesThenRefuses if sold.is_multiple_of(20) => code(409, "sold_out"),
            _ => reply(201, &json!({ "id": told, "request": self.id(), "user": user })),
        }
    }

    /// Looks, waits, and writes what it saw.
    async fn look_and_write(self: &Arc<Self>, voucher: u64, user: &str, window: Duration) -> Reply {
        if let Some(refusal) = self.refusal(voucher, user) {
            return refusal;
        }
        let seen = self.sales()[&voucher].stock;
        sleep(window).await;
        let _transaction = self.transaction.lock().unwrap();
        let is_oversell = matches!(self.design, Design::OversellsWide | Design::OversellsNarrow);
        let stock = {
            let sales = self.sales();
            let sale = &sales[&voucher];
            if is_oversell && sale.orders.iter().any(|it| it.1 == user) {
                return code(409, "already_bought");
            }
            if !is_oversell && sale.stock <= 0 {
                return code(409, "sold_out");
            }
            if is_oversell { seen.min(sale.stock) } else { sale.stock }
        };
        reply(201, &json!({ "id": self.write(voucher, user, stock - 1) }))
    }
}
