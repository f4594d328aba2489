//! The routes of the shop.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{CLOSED, Database, Design, Node, Reply, code, reply};

/// What a file says of a request in its path.
type Wishes = Query<HashMap<String, String>>;
/// The node that is asked, for which voucher, in what way, and who asks.
type Visit = (State<Node>, Path<u64>, Wishes, HeaderMap);

fn user(headers: &HeaderMap) -> String {
    let header = |name| headers.get(name).and_then(|it| it.to_str().ok());
    let cookie = header("cookie").and_then(|it| it.strip_prefix("sid=t"));
    header("user").or(cookie).or(header("authorization")).unwrap_or_default().to_owned()
}

/// The voucher has an id of its own, unless the file wishes another.
pub(super) async fn new_voucher(
    State(node): State<Node>,
    Query(wishes): Wishes,
    body: String,
) -> Reply {
    let body: Value = serde_json::from_str(&body).unwrap();
    let stock = body["stock"].as_i64().unwrap();
    let own = node.database.voucher(stock, &[]);
    let Some(other) = wishes.get("id") else { return reply(200, &json!({ "data": own })) };
    if let Ok(other) = other.parse() {
        let mut sales = node.database.sales();
        let sale = sales.remove(&own).unwrap();
        sales.insert(other, sale);
    }
    reply(200, &json!({ "data": other }))
}

pub(super) async fn login(body: String) -> Reply {
    let body: Value = serde_json::from_str(&body).unwrap();
    let user = if body["all"] == true { &Value::from(1) } else { &body["user"] };
    let cookies = ["lang=en; Path=/", &format!("sid=t{user}; HttpOnly")];
    let cookies = cookies.map(|cookie| (SET_COOKIE, cookie.parse().unwrap()));
    (
        StatusCode::OK,
        HeaderMap::from_iter(cookies),
        json!({ "data": { "token": format!("t{user}") } }).to_string(),
    )
}

pub(super) async fn checkout((State(node), Path(voucher), _, headers): Visit) -> Reply {
    if let Some(refusal) = node.database.refusal(voucher, &user(&headers)) {
        return refusal;
    }
    let cart = format!("c{}", node.database.id());
    node.database.carts.lock().unwrap().insert(cart.clone(), voucher);
    let location = format!("http://shop/pay?code={cart}&x=1").parse().unwrap();
    let cookie = format!("cart={cart}").parse().unwrap();
    let headers = HeaderMap::from_iter([(LOCATION, location), (SET_COOKIE, cookie)]);
    (StatusCode::FOUND, headers, json!({ "code": cart }).to_string())
}

pub(super) async fn pay(
    State(node): State<Node>,
    Query(wishes): Wishes,
    headers: HeaderMap,
) -> Reply {
    let cart = node.database.carts.lock().unwrap().remove(&wishes["code"]);
    match cart {
        Some(voucher) => node.database.sell(voucher, &user(&headers)),
        None => code(410, "no_such_cart"),
    }
}

pub(super) async fn buy((State(node), Path(voucher), _, headers): Visit) -> Reply {
    let (database, user) = (&node.database, user(&headers));
    let attempt = database.attempts.fetch_add(1, Ordering::SeqCst);
    if voucher == CLOSED && database.design != Design::SellsAfterTheEnd {
        return code(409, "sale_ended");
    }
    match database.design {
        Design::Fails if attempt % 100 == 50 => {
            if attempt % 200 == 50 {
                database.sell(voucher, &user);
            }
            code(500, "oops")
        }
        Design::Says(status, text, times) if user == "7" => {
            (StatusCode::from_u16(status).unwrap(), HeaderMap::new(), text.repeat(times))
        }
        Design::Hangs if user == "7" => pending().await,
        Design::SellsToStrangers if user == "7" => {
            database.sell(voucher, "stranger");
            database.sell(voucher, &user)
        }
        Design::RefusesOneInHundred if attempt % 100 == 50 => code(409, "sold_out"),
        Design::Oversells(ms) | Design::Duplicates(ms) => {
            database.look_and_write(voucher, &user, ms).await
        }
        Design::DuplicatesPerNode => {
            let _locked = node.lock.lock().await;
            database.look_and_write(voucher, &user, 1).await
        }
        Design::Queues | Design::DuplicatesLate | Design::ForgetsAccepted => {
            queue(database, voucher, user)
        }
        _ => database.sell(voucher, &user),
    }
}

/// As the course application says it.
pub(super) async fn course((State(node), Path(voucher), _, headers): Visit) -> Reply {
    let (status, _, body) = node.database.sell(voucher, &user(&headers));
    let body: Value = serde_json::from_str(&body).unwrap();
    let said = match (status, body["code"].as_str()) {
        (StatusCode::CREATED, _) => {
            json!({ "success": true, "errorMsg": null, "data": body["id"] })
        }
        (_, Some("sold_out")) => json!({ "success": false, "errorMsg": "库存不足" }),
        _ => json!({ "success": false, "errorMsg": "用户已经购买过一次！" }),
    };
    reply(200, &said)
}

/// Accepts, and lets a worker write.
fn queue(database: &Arc<Database>, voucher: u64, user: String) -> Reply {
    let ticket = format!("{voucher}-{user}");
    let number = database.change(voucher, |sale| {
        if !sale.waiting.contains(&user) {
            sale.waiting.push(user.clone());
        }
        sale.waiting.len()
    });
    if database.design == Design::ForgetsAccepted && number.is_multiple_of(10) {
        return reply(202, &json!({ "ticket": ticket }));
    }
    let database = Arc::clone(database);
    tokio::spawn(async move {
        sleep(Duration::from_millis(50)).await;
        let reply = database.sell(voucher, &user);
        let is_sold = reply.0 == StatusCode::CREATED;
        if is_sold && database.design == Design::DuplicatesLate && number == 1 {
            sleep(Duration::from_secs(8)).await;
            let stock = database.sales()[&voucher].stock;
            database.write(voucher, &user, stock);
        } else if !is_sold {
            database.change(voucher, |sale| {
                if !sale.orders.iter().any(|it| it.1 == user) {
                    sale.waiting.retain(|waiting| *waiting != user);
                }
            });
        }
    });
    reply(202, &json!({ "ticket": ticket }))
}

/// What became of a purchase; who has to wait is answered with `wait`.
fn state(database: &Database, voucher: u64, user: &str, wait: u16) -> Reply {
    let sales = database.sales();
    let sale = &sales[&voucher];
    match sale.orders.iter().find(|it| it.1 == user) {
        Some((id, _, false)) => reply(201, &json!({ "id": id })),
        Some((id, _, true)) => reply(200, &json!({ "id": id, "code": "cancelled" })),
        None if sale.waiting.iter().any(|waiting| waiting == user) => code(wait, "wait"),
        None => code(409, "sold_out"),
    }
}

pub(super) async fn mine((State(node), Path(voucher), Query(wishes), headers): Visit) -> Reply {
    let wait = wishes.get("wait").map_or(202, |wait| wait.parse().unwrap());
    state(&node.database, voucher, &user(&headers), wait)
}

pub(super) async fn order(State(node): State<Node>, Path(ticket): Path<String>) -> Reply {
    let (voucher, user) = ticket.split_once('-').unwrap();
    state(&node.database, voucher.parse().unwrap(), user, 202)
}

pub(super) async fn books((State(node), Path(voucher), Query(wishes), _): Visit) -> Reply {
    let design = node.database.design;
    let mut sales = node.database.sales();
    let sale = sales.get_mut(&voucher).unwrap();
    sale.looks += 1;
    match design {
        Design::BooksStumble if sale.looks.is_multiple_of(2) => return code(500, "oops"),
        Design::BooksBreak if sale.looks > 1 => return code(500, "oops"),
        _ => {}
    }
    let is_late = design == Design::BooksLate;
    let (stock, shown) = if is_late { sale.shown } else { (sale.stock, sale.orders.len()) };
    let orders = sale.orders[..shown].iter().filter(|it| it.0 > 0);
    let mut users: Vec<&str> = orders.clone().filter(|it| !it.2).map(|it| it.1.as_str()).collect();
    let live = users.len();
    users.sort_unstable();
    users.dedup();
    let title = wishes.get("title").map_or("", String::as_str);
    let list = orders.map(|(order, user, is_cancelled)| {
        let state = if *is_cancelled { "cancelled" } else { "open" };
        json!({ "order": order, "user": format!("{title}{user}"), "state": state })
    });
    let list: Vec<_> = list.collect();
    reply(200, &json!({ "orders": live, "users": users.len(), "stock": stock, "list": list }))
}
