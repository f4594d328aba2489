//! A small shop of two nodes before one database, with a bug that is chosen, or none.

mod routes;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::routes::{books, buy, checkout, course, login, mine, new_voucher, order, pay};
use super::wire::Wire;

/// How it is built: first those that are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Design {
    /// One transaction.
    Right,
    /// It accepts, a worker writes, and buyers ask later.
    Queues,
    /// Who asks again hears the same yes.
    Repeats,
    /// The same without the order's id.
    RepeatsUnnamed,
    /// Orders are not paid, and cancelled: their stock comes back.
    Expires,
    /// The books follow the orders by half a second.
    BooksLate,
    /// A buyer may have ten.
    TenEach,
    /// The stock is read, and written back so many milliseconds later.
    Oversells(u64),
    /// Whether a buyer has an order is looked up so many milliseconds before it is written.
    Duplicates(u64),
    /// One millisecond before, behind a lock in each node.
    DuplicatesPerNode,
    /// One order in a hundred is told and not written; its stock is gone.
    LosesOrderAndStock,
    /// The same; its stock stays.
    LosesOrder,
    /// Every order is told with the id of the voucher's first.
    SharesIds,
    /// Every twentieth order is written, and then refused.
    WritesThenRefuses,
    /// Every twentieth order does not take from the stock.
    ForgetsDecrement,
    /// The last tenth of the stock is never sold.
    RefusesLastTenth,
    /// One attempt in a hundred hears that all is sold.
    RefusesOneInHundred,
    /// One attempt in a hundred is answered with 500; every other one of these has bought.
    Fails,
    /// The worker writes an order once more, 8 s later.
    DuplicatesLate,
    /// It sells what is closed.
    SellsAfterTheEnd,
    /// Every tenth buyer is accepted, and hears nothing more.
    ForgetsAccepted,
    /// A buyer may have ten, and gets eleven.
    ElevenEach,
    /// User 7 is answered with this status, and a text so many times.
    Says(u16, &'static str, usize),
    /// User 7 is never answered.
    Hangs,
    /// A stranger buys whenever user 7 does.
    SellsToStrangers,
    /// The books cannot be read at every second look.
    BooksStumble,
    /// The books can be read once.
    BooksBreak,
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
    /// How often the books were looked at.
    looks: u64,
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
    database: Arc<Database>,
    _nodes: JoinSet<()>,
}

type Reply = (StatusCode, HeaderMap, String);

fn reply(status: u16, body: &Value) -> Reply {
    (StatusCode::from_u16(status).unwrap(), HeaderMap::new(), body.to_string())
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
            // So large that a number of JavaScript has not all of their digits.
            last_id: AtomicU64::new(1 << 60),
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
                .route("/voucher-order/seckill/{voucher}", post(course))
                .route("/mine/{voucher}", get(mine))
                .route("/orders/{order}", get(order))
                .route("/books/{voucher}", get(books))
                .with_state(node);
            nodes.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        }
        Self { addresses: addresses.try_into().unwrap(), database, _nodes: nodes }
    }

    /// The same behind such a front, if any.
    pub(crate) async fn behind(self, wire: Option<Wire>) -> Self {
        let Some(wire) = wire else { return self };
        let front = wire.before(self.addresses[0]).await;
        Self { addresses: [front; 2], ..self }
    }

    /// See [`Database::voucher`].
    pub(crate) fn voucher(&self, stock: i64, old: &[&str]) -> u64 {
        self.database.voucher(stock, old)
    }

    /// The line of a file that names a new voucher.
    pub(crate) fn on_sale(&self, stock: i64) -> String {
        format!("voucher = {}", self.voucher(stock, &[]))
    }

    /// Who bought, voucher by voucher.
    pub(crate) fn buyers(&self) -> Vec<Vec<String>> {
        let sales = self.database.sales();
        let users = |sale: &Sale| sale.orders.iter().map(|order| order.1.clone()).collect();
        sales.values().map(users).collect()
    }

    /// The orders that were told and are not written.
    pub(crate) fn lost_orders(&self) -> Vec<String> {
        let gone = |user: String| user.strip_prefix("gone ").map(str::to_owned);
        self.buyers().into_iter().flatten().filter_map(gone).collect()
    }

    /// The file that says how to talk to it, without books; `more` comes before the first table. New vouchers are put
    /// on sale, unless it names one.
    pub(crate) fn file_without_books(&self, more: &str) -> String {
        let [a, b] = self.addresses.map(|address| address.port());
        let addresses =
            format!("addresses = [\"http://127.0.0.1:{a}\", \"http://localhost:{b}/\"]");
        let sale = if more.starts_with("voucher") { "" } else { SALE };
        let problem = |code: &str| {
            format!("[[answer]]\nis = \"{code}\"\npointer = \"/code\"\nequals = \"{code}\"\n")
        };
        let problems = ["sold_out", "already_bought", "sale_ended"].map(problem).concat();
        format!("{addresses}\n{more}\n{PURCHASE}{problems}{sale}")
    }

    /// The same with books by a request, of which `books` tells more.
    pub(crate) fn file(&self, more: &str, books: &str) -> String {
        let file = self.file_without_books(more);
        format!("{file}[books]\nrequest = {{ path = \"/books/{{voucher}}\" }}\n{books}")
    }
}

/// How one buys there, and what the shop answers; besides, it answers a problem with its code.
const PURCHASE: &str = r#"[purchase]
path = "/buy/{voucher}"
headers = { user = "{user}" }
[[answer]]
is = "ordered"
status = 201
order = "/id"
[[answer]]
is = "accepted"
status = 202
"#;

/// How a voucher is put on sale there.
pub(crate) const SALE: &str = r#"[sale]
request = { path = "/vouchers", body = '{"stock": {stock}}' }
"#;

/// How buyers ask what became of a purchase that was queued.
pub(crate) const LATER: &str = r#"
[later]
request = { path = "/mine/{voucher}", headers = { user = "{user}" } }
within = "5s"
[[later.answer]]
is = "ordered"
status = 201
order = "/id"
[[later.answer]]
is = "accepted"
status = 202
[[later.answer]]
is = "sold_out"
status = 409
"#;

impl Database {
    fn sales(&self) -> MutexGuard<'_, HashMap<u64, Sale>> {
        self.sales.lock().unwrap()
    }

    fn change<T>(&self, voucher: u64, change: impl FnOnce(&mut Sale) -> T) -> T {
        change(self.sales().get_mut(&voucher).unwrap())
    }

    fn id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::SeqCst)
    }

    /// Puts a voucher on sale of which these users had orders before, and returns its id.
    fn voucher(&self, stock: i64, old: &[&str]) -> u64 {
        let id = self.id();
        let orders = old.iter().map(|user| (self.id(), (*user).to_owned(), false)).collect();
        let initial = stock + old.len() as i64;
        let sale = Sale { initial, stock, orders, shown: (stock, old.len()), ..Sale::default() };
        self.sales().insert(id, sale);
        id
    }

    /// Why a buyer gets nothing, if so.
    fn refusal(&self, voucher: u64, user: &str) -> Option<Reply> {
        let sales = self.sales();
        let sale = sales.get(&voucher)?;
        let own: Vec<_> = sale.orders.iter().filter(|it| it.1 == user).collect();
        let limit = match self.design {
            Design::TenEach => 10,
            Design::ElevenEach => 11,
            _ => 1,
        };
        if own.len() >= limit {
            return Some(match self.design {
                Design::Repeats => self.yes(Some(own[0].0), user),
                Design::RepeatsUnnamed => self.yes(None, user),
                _ => code(409, "already_bought"),
            });
        }
        let kept = if self.design == Design::RefusesLastTenth { sale.initial / 10 } else { 0 };
        (sale.stock <= kept).then(|| code(409, "sold_out"))
    }

    /// Writes an order, whatever there is.
    fn write(self: &Arc<Self>, voucher: u64, user: &str, stock: i64) -> u64 {
        let id = self.id();
        self.change(voucher, |sale| {
            sale.stock = stock;
            sale.orders.push((id, user.to_owned(), false));
        });
        let (database, expires) = (Arc::clone(self), self.design == Design::Expires);
        if expires || self.design == Design::BooksLate {
            tokio::spawn(async move {
                sleep(Duration::from_millis(if expires { 700 } else { 500 })).await;
                database.change(voucher, |sale| {
                    if expires {
                        sale.stock += 1;
                        sale.orders.iter_mut().filter(|it| it.0 == id).for_each(|it| it.2 = true);
                    }
                    sale.shown = (sale.stock, sale.orders.len());
                });
            });
        }
        id
    }

    /// One transaction.
    fn sell(self: &Arc<Self>, voucher: u64, user: &str) -> Reply {
        let _transaction = self.transaction.lock().unwrap();
        if let Some(refusal) = self.refusal(voucher, user) {
            return refusal;
        }
        let (stock, sold) = match self.sales().get(&voucher) {
            None => return code(404, "no_such_voucher"),
            Some(sale) => (sale.stock, sale.orders.len() as u64 + 1),
        };
        let told = match self.design {
            Design::LosesOrder | Design::LosesOrderAndStock if sold % 100 == 50 => {
                // Written, and gone again.
                let id = self.id();
                self.change(voucher, |sale| {
                    sale.stock -= i64::from(self.design == Design::LosesOrderAndStock);
                    sale.orders.push((0, format!("gone {id}"), true));
                });
                id
            }
            Design::ForgetsDecrement if sold.is_multiple_of(20) => self.write(voucher, user, stock),
            Design::SharesIds => {
                self.write(voucher, user, stock - 1);
                self.sales()[&voucher].orders[0].0
            }
            _ => self.write(voucher, user, stock - 1),
        };
        match self.design {
            Design::WritesThenRefuses if sold.is_multiple_of(20) => code(409, "sold_out"),
            _ => self.yes(Some(told), user),
        }
    }

    /// The answer that tells of an order.
    fn yes(&self, order: Option<u64>, user: &str) -> Reply {
        let mut told = json!({ "request": self.id(), "user": user, "shop": 5 });
        if let Some(order) = order {
            told["id"] = order.into();
        }
        reply(201, &told)
    }

    /// Looks, waits, and writes what it saw.
    async fn look_and_write(self: &Arc<Self>, voucher: u64, user: &str, window_ms: u64) -> Reply {
        if let Some(refusal) = self.refusal(voucher, user) {
            return refusal;
        }
        let seen = self.sales()[&voucher].stock;
        sleep(Duration::from_millis(window_ms)).await;
        let _transaction = self.transaction.lock().unwrap();
        let is_oversell = matches!(self.design, Design::Oversells(_));
        let now = self.sales()[&voucher].stock;
        let has_one = self.sales()[&voucher].orders.iter().any(|it| it.1 == user);
        if is_oversell && has_one {
            return code(409, "already_bought");
        }
        if !is_oversell && now <= 0 {
            return code(409, "sold_out");
        }
        let stock = if is_oversell { seen.min(now) } else { now };
        reply(201, &json!({ "id": self.write(voucher, user, stock - 1) }))
    }
}
