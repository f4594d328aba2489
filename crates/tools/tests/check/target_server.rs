//! A small sale over plain TCP that can be wrong in many ways, each of them certain: what is wrong happens at
//! every voucher, mostly to user 7.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    Nothing,
    Oversells,
    /// To everybody: of a crowd of double clicks some come twice before the stock is gone.
    SellsTwice,
    Loses,
    KeepsSecret,
    RefusesEarly,
    Misbooks,
    SharesOrders,
    Queues,
    QueuesForever,
    /// The answer to a later question fits no rule.
    QueuesUnreadably,
    /// The first question is answered with a 503.
    QueuesBusily,
    /// The books name users by words of their own.
    RenamesUsers,
    /// Every yes names order 5, which is nobody's.
    TellsOneId,
    /// A yes names an order by an id that the books do not have.
    TellsOtherIds,
    /// A yes is repeated to its buyer, without the order's id.
    RepeatsWithoutId,
    /// Each look at the books shows one order more than the one before.
    BooksComeLate,
    /// It is gone as soon as user 7 buys.
    Dies,
    /// The books cannot be read at every second look.
    BooksStumble,
    /// The books can be read once.
    BooksBreak,
    /// Every voucher has the same id.
    SharesVouchers,
    /// The id of a voucher is no plain word.
    NamesVouchersBadly,
    /// A stranger buys, too.
    SellsToStrangers,
    Fails,
    FailsAfterwards,
    Redirects,
    SaysRubbish,
    SaysTooMuch,
    Closes,
    Hangs,
}

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    KeepAlive,
    Chunked,
    /// HTTP/1.0 without a length: the end of the connection is the end of the answer.
    Http10,
}

#[derive(Debug, Default)]
pub(crate) struct Sale {
    pub(crate) stock: usize,
    /// Order and user.
    pub(crate) orders: Vec<(u64, String)>,
    waiting: Vec<String>,
    looks: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Sales {
    pub(crate) sales: HashMap<u64, Sale>,
    last_id: u64,
}

impl Sales {
    fn id(&mut self) -> u64 {
        self.last_id += 1;
        // Beyond what a double holds exactly.
        (1 << 60) + self.last_id
    }
}

/// The sale.
pub(crate) struct TargetServer {
    pub(crate) address: SocketAddr,
    pub(crate) sales: Arc<Mutex<Sales>>,
}

/// Why a connection is over.
enum Ended {
    Closed,
    Dies,
}

enum Reply {
    Answer(u16, String),
    Close,
    Die,
    Never,
}

impl Reply {
    /// As the course application says it.
    fn of_the_course(self) -> Self {
        let Self::Answer(status, body) = self else { return self };
        let body: Value = serde_json::from_str(&body).unwrap();
        let said = match (status, body["code"].as_str()) {
            (201, _) => json!({ "success": true, "errorMsg": null, "data": body["id"] }),
            (_, Some("sold_out")) => json!({ "success": false, "errorMsg": "库存不足" }),
            _ => json!({ "success": false, "errorMsg": "用户已经购买过一次！" }),
        };
        Self::Answer(200, said.to_string())
    }
}

fn new_voucher(id: &Value) -> Reply {
    Reply::Answer(200, json!({ "data": id }).to_string())
}

fn problem(status: u16, code: &str) -> Reply {
    Reply::Answer(status, json!({ "code": code }).to_string())
}

impl TargetServer {
    pub(crate) async fn start(wrong: Wrong, wire: Wire) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sales: Arc<Mutex<Sales>> = Arc::default();
        let shared = Arc::clone(&sales);
        tokio::spawn(async move {
            let mut connections = JoinSet::new();
            let (dies, mut dead) = mpsc::channel::<()>(1);
            loop {
                let stream = tokio::select! {
                    _ = dead.recv() => return,
                    Ok((stream, _)) = listener.accept() => stream,
                };
                let (sales, dies) = (Arc::clone(&shared), dies.clone());
                connections.spawn(async move {
                    if let Ok(Ended::Dies) = serve(stream, &sales, wrong, wire).await {
                        let _ = dies.send(()).await;
                        // The answer never leaves, and the connection ends with the server.
                        std::future::pending().await
                    }
                });
            }
        });
        Self { address, sales }
    }

    /// Puts a voucher with old orders on sale.
    pub(crate) fn voucher(&self, stock: usize, old: &[&str]) -> u64 {
        let mut sales = self.sales.lock().unwrap();
        let orders = old.iter().map(|user| (sales.id(), (*user).to_owned())).collect();
        let voucher = sales.id();
        sales.sales.insert(voucher, Sale { stock: stock + old.len(), orders, ..Sale::default() });
        voucher
    }
}

async fn serve(
    stream: TcpStream,
    sales: &Mutex<Sales>,
    wrong: Wrong,
    wire: Wire,
) -> std::io::Result<Ended> {
    let mut stream = BufReader::new(stream);
    while let Some((line, user, body)) = request(&mut stream).await {
        match reply(sales, wrong, &line, &user, &body) {
            Reply::Close => return Ok(Ended::Closed),
            Reply::Die => return Ok(Ended::Dies),
            Reply::Never => std::future::pending().await,
            Reply::Answer(status, body) => {
                let length = body.len();
                let text = match wire {
                    Wire::KeepAlive => {
                        format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}")
                    }
                    Wire::Chunked => {
                        let head =
                            format!("HTTP/1.1 {status} X\r\ntransfer-encoding: chunked\r\n\r\n");
                        let (first, rest) = body.split_at(body.len() / 2);
                        let chunks = [first, rest].into_iter().filter(|it| !it.is_empty());
                        let chunks = chunks.map(|it| format!("{:x}\r\n{it}\r\n", it.len()));
                        head + &chunks.collect::<String>() + "0\r\n\r\n"
                    }
                    Wire::Http10 => format!("HTTP/1.0 {status} X\r\n\r\n{body}"),
                };
                stream.write_all(text.as_bytes()).await?;
                if wire == Wire::Http10 {
                    stream.shutdown().await?;
                    return Ok(Ended::Closed);
                }
            }
        }
    }
    Ok(Ended::Closed)
}

/// Method and path, the user, the body.
async fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, String, String)> {
    let (mut first, mut user, mut length) = (String::new(), String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_owned();
        let name = line.strip_prefix("user: ").or_else(|| line.strip_prefix("authorization: "));
        if let Some(name) = name {
            name.clone_into(&mut user);
        }
        if let Some(number) = line.strip_prefix("content-length: ") {
            length = number.parse().ok()?;
        }
        if first.is_empty() {
            first = line;
        } else if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((first, user, String::from_utf8(body).ok()?))
}

fn reply(sales: &Mutex<Sales>, wrong: Wrong, line: &str, user: &str, body: &str) -> Reply {
    let mut sales = sales.lock().unwrap();
    let path = line.split(' ').nth(1).unwrap_or_default();
    let path = &path.replace("/voucher-order/seckill/", "/course/");
    let (what, voucher) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
    let voucher: u64 = voucher.parse().unwrap_or(0);
    let new_id = sales.id();
    match what {
        "/vouchers" => {
            let body: Value = serde_json::from_str(body).unwrap();
            let stock = body["stock"].as_u64().unwrap() as usize;
            let new_id = if wrong == Wrong::SharesVouchers { 12 } else { new_id };
            sales.sales.insert(new_id, Sale { stock, ..Sale::default() });
            match wrong {
                Wrong::NamesVouchersBadly => new_voucher(&json!(format!("{new_id} or 1=1"))),
                _ => new_voucher(&json!(new_id)),
            }
        }
        "login" | "/login" => {
            let body: Value = serde_json::from_str(body).unwrap();
            Reply::Answer(
                200,
                json!({ "data": { "token": format!("t{}", body["user"]) } }).to_string(),
            )
        }
        _ => match sales.sales.get_mut(&voucher) {
            None => problem(404, "no_such_voucher"),
            Some(sale) if what == "books" => sale.books(wrong),
            Some(sale) if what == "mine" => sale.ask(new_id, user, wrong),
            Some(sale) if what == "course" => sale.buy(new_id, user, wrong).of_the_course(),
            Some(sale) => sale.buy(new_id, user, wrong),
        },
    }
}

impl Sale {
    fn books(&mut self, wrong: Wrong) -> Reply {
        self.looks += 1;
        match wrong {
            Wrong::BooksStumble if self.looks.is_multiple_of(2) => return problem(500, "oops"),
            Wrong::BooksBreak if self.looks > 1 => return problem(500, "oops"),
            _ => {}
        }
        let shown = if wrong == Wrong::BooksComeLate { self.looks - 1 } else { usize::MAX };
        let orders = &self.orders[..shown.min(self.orders.len())];
        let mut users: Vec<&str> = orders.iter().map(|(_, user)| user.as_str()).collect();
        users.sort_unstable();
        users.dedup();
        let secret = i64::from(wrong == Wrong::Misbooks);
        let name = |user: &str| match wrong {
            Wrong::RenamesUsers => format!("member {user}"),
            _ => user.to_owned(),
        };
        let list = orders.iter().map(|(order, user)| json!({ "order": order, "user": name(user) }));
        let stock = self.stock as i64 - orders.len() as i64 + secret;
        let books = json!({ "orders": orders.len(), "users": users.len(), "stock": stock,
                            "list": list.collect::<Vec<_>>() });
        Reply::Answer(200, books.to_string())
    }

    /// What a queued buyer hears.
    fn ask(&mut self, id: u64, user: &str, wrong: Wrong) -> Reply {
        if wrong == Wrong::QueuesForever && user == "7" {
            return problem(202, "wait");
        }
        if wrong == Wrong::QueuesUnreadably {
            return problem(404, "what");
        }
        let wait = if wrong == Wrong::QueuesBusily { 503 } else { 202 };
        match self.waiting.iter().position(|waiting| waiting == user) {
            // The first question comes too early.
            Some(at) => {
                self.waiting.remove(at);
                problem(wait, "wait")
            }
            None => self.sell(id, user, wrong),
        }
    }

    fn buy(&mut self, id: u64, user: &str, wrong: Wrong) -> Reply {
        match wrong {
            Wrong::Queues | Wrong::QueuesBusily => {
                if !self.waiting.iter().any(|waiting| waiting == user) {
                    self.waiting.push(user.to_owned());
                }
                problem(202, "wait")
            }
            _ if user != "7" => self.sell(id, user, wrong),
            Wrong::QueuesForever | Wrong::QueuesUnreadably => problem(202, "wait"),
            Wrong::Fails => problem(500, "oops"),
            Wrong::FailsAfterwards => {
                self.sell(id, user, wrong);
                problem(500, "oops")
            }
            Wrong::Redirects => Reply::Answer(302, String::new()),
            Wrong::SaysRubbish => Reply::Answer(200, "{\"code\": <script>\u{1b}[2J".to_owned()),
            Wrong::SaysTooMuch => Reply::Answer(200, "x".repeat(1024 * 1024)),
            Wrong::Closes => Reply::Close,
            Wrong::Dies => Reply::Die,
            Wrong::Hangs => Reply::Never,
            Wrong::Loses => Reply::Answer(201, json!({ "id": id }).to_string()),
            Wrong::SellsToStrangers => {
                self.sell(id + (1 << 61), "stranger", wrong);
                self.sell(id, user, wrong)
            }
            Wrong::KeepsSecret => {
                self.sell(id, user, wrong);
                problem(409, "sold_out")
            }
            _ => self.sell(id, user, wrong),
        }
    }

    fn sell(&mut self, id: u64, user: &str, wrong: Wrong) -> Reply {
        let own = self.orders.iter().filter(|(_, owner)| owner == user).count();
        let most = if wrong == Wrong::SellsTwice { 2 } else { 1 };
        let capacity = match wrong {
            Wrong::Oversells => self.stock + 1,
            Wrong::RefusesEarly => self.stock - 1,
            _ => self.stock,
        };
        if own > 0 && wrong == Wrong::RepeatsWithoutId {
            return Reply::Answer(201, "{}".to_owned());
        }
        if own >= most {
            return problem(409, "already_bought");
        }
        if self.orders.len() >= capacity {
            return problem(409, "sold_out");
        }
        let id = if wrong == Wrong::SharesOrders { 5 } else { id };
        self.orders.push((id, user.to_owned()));
        let told = match wrong {
            Wrong::TellsOneId => 5,
            Wrong::TellsOtherIds => id + (1 << 61),
            _ => id,
        };
        Reply::Answer(201, json!({ "id": told }).to_string())
    }
}
