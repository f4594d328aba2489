//! The routes of the shop.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{CLOSED, COOKIE, Database, Design, LOCATION, Node, Reply, Sale, code, reply};

fn user(headers: &HeaderMap) -> String {
    let name = headers.get("user").and_then(|it| it.to_str().ok());
    let cookie = headers.get("cookie").and_then(|it| it.to_str().ok()?.strip_prefix("sid=t"));
    name.or(cookie).unwrap_or_default().to_owned()
}

pub(super) async fn new_voucher(State(node): State<Node>, body: String) -> Reply {
    let body: Value = serde_json::from_str(&body).unwrap();
    let (id, stock) = (node.database.id(), body["stock"].as_i64().unwrap());
    let sale = Sale { initial: stock, stock, shown: (stock, 0), ..Sale::default() };
    node.database.sales().insert(id, sale);
    reply(200, &json!({ "data": id }))
}

pub(super) async fn login(body: String) -> Reply {
    let body: Value = serde_json::from_str(&body).unwrap();
    let user = if body["all"] == true { &Value::from(1) } else { &body["user"] };
    let cookies = [(COOKIE, "lang=en; Path=/".into()), (COOKIE, format!("sid=t{user}; HttpOnly"))];
    (StatusCode::OK, cookies, "{}".to_owned())
}

pub(super) async fn checkout(
    State(node): State<Node>,
    Path(voucher): Path<u64>,
    headers: HeaderMap,
) -> Reply {
    if let Some(refusal) = node.database.refusal(voucher, &user(&headers)) {
        return refusal;
    }
    let cart = format!("c{}", node.database.id());
    node.database.carts.lock().unwrap().insert(cart.clone(), voucher);
    let headers =
        [(LOCATION, format!("http://shop/pay?code={cart}&x=1")), (COOKIE, format!("cart={cart}"))];
    (StatusCode::FOUND, headers, json!({ "code": cart }).to_string())
}

pub(super) async fn pay(
    State(node): State<Node>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Reply {
    let cart = node.database.carts.lock().unwrap().remove(&query["code"]);
    match cart {
        Some(voucher) => node.database.sell(voucher, &user(&headers)),
        None => code(410, "no_such_cart"),
    }
}

pub(super) async fn buy(
    State(node): State<Node>,
    Path(voucher): Path<u64>,
    headers: HeaderMap,
) -> Reply {
    let (database, user) = (&node.database, user(&headers));
    let attempt = database.attempts.fetch_add(1, Ordering::SeqCst);
    if voucher == CLOSED && database.design != Design::SellsAfterTheEnd {
        return code(409, "sale_ended");
    }
    let window = |ms| Duration::from_millis(ms);
    match database.design {
        Design::Fails if attempt % 100 == 50 => code(500, "oops"),
        Design::RefusesOneInHundred if attempt % 100 == 50 => code(409, "sold_out"),
        Design::OversellsWide | Design::DuplicatesWide => {
            database.look_and_write(voucher, &user, window(20)).await
        }
        Design::OversellsNarrow | Design::DuplicatesNarrow => {
            database.look_and_write(voucher, &user, window(1)).await
        }
        Design::DuplicatesPerNode => {
            let _locked = node.lock.lock().await;
            database.look_and_write(voucher, &user, window(1)).await
        }
        Design::Queues | Design::DuplicatesLate | Design::ForgetsAccepted => {
            queue(database, voucher, user)
        }
        _ => database.sell(voucher, &user),
    }
}

/// Accepts, and lets a worker write.
fn queue(database: &Arc<Database>, voucher: u64, user: String) -> Reply {
    let ticket = format!("{voucher}-{user}");
    let number = {
        let mut sales = database.sales();
        let Some(sale) = sales.get_mut(&voucher) else { return code(404, "no_such_voucher") };
        if !sale.waiting.contains(&user) {
            sale.waiting.push(user.clone());
        }
        sale.waiting.len()
    };
    if database.design == Design::ForgetsAccepted && number.is_multiple_of(10) {
        return reply(202, &json!({ "ticket": ticket }));
    }
    let database = Arc::clone(database);
    tokio::spawn(async move {
        sleep(Duration::from_millis(50)).await;
        let reply = database.sell(voucher, &user);
        if reply.0 == StatusCode::CREATED {
            if database.design == Design::DuplicatesLate && number == 1 {
                let again = (Arc::clone(&database), user.clone());
                tokio::spawn(async move {
                    sleep(Duration::from_secs(8)).await;
                    let stock = again.0.sales()[&voucher].stock;
                    again.0.write(voucher, &again.1, stock);
                });
            }
        } else if database.refusal(voucher, &user).is_some() {
            let mut sales = database.sales();
            let sale = sales.get_mut(&voucher).unwrap();
            if !sale.orders.iter().any(|it| it.1 == user) {
                sale.waiting.retain(|waiting| *waiting != user);
            }
        }
    });
    reply(202, &json!({ "ticket": ticket }))
}

/// What became of a purchase.
fn state(database: &Database, voucher: u64, user: &str) -> Reply {
    let sales = database.sales();
    let Some(sale) = sales.get(&voucher) else { return code(404, "no_such_voucher") };
    match sale.orders.iter().find(|it| it.1 == user) {
        Some((id, _, false)) => reply(201, &json!({ "id": id })),
        Some((id, _, true)) => reply(200, &json!({ "id": id, "code": "cancelled" })),
        None if sale.waiting.iter().any(|waiting| waiting == user) => code(202, "wait"),
        None => code(409, "sold_out"),
    }
}

pub(super) async fn mine(
    State(node): State<Node>,
    Path(voucher): Path<u64>,
    headers: HeaderMap,
) -> Reply {
    state(&node.database, voucher, &user(&headers))
}

pub(super) async fn order(State(node): State<Node>, Path(ticket): Path<String>) -> Reply {
    let Some((voucher, user)) = ticket.split_once('-') else { return code(404, "no_such_order") };
    state(&node.database, voucher.parse().unwrap(), user)
}

pub(super) async fn books(State(node): State<Node>, Path(voucher): Path<u64>) -> Reply {
    let sales = node.database.sales();
    let Some(sale) = sales.get(&voucher) else { return code(404, "no_such_voucher") };
    let is_late = node.database.design == Design::BooksLate;
    let (stock, shown) = if is_late { sale.shown } else { (sale.stock, sale.orders.len()) };
    let orders = sale.orders[..shown].iter().filter(|it| it.0 > 0);
    let mut users: Vec<&str> = orders.clone().filter(|it| !it.2).map(|it| it.1.as_str()).collect();
    let live = users.len();
    users.sort_unstable();
    users.dedup();
    let list = orders.map(|(order, user, is_cancelled)| {
        let state = if *is_cancelled { "cancelled" } else { "open" };
        json!({ "order": order, "user": user, "state": state })
    });
    let list: Vec<_> = list.collect();
    reply(200, &json!({ "orders": live, "users": users.len(), "stock": stock, "list": list }))
}
