//! Small servers to be rushed: a polite one that writes down who came, and rude ones.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, mpsc};

const ORDERED: &str = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n\
    content-length: 16\r\n\r\n{\"order_id\":\"7\"}";

/// One request as the server saw it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Arrival {
    pub(crate) node: usize,
    pub(crate) path: String,
    pub(crate) token: String,
    pub(crate) peer: SocketAddr,
}

/// A sale that writes down who came, and answers by the last digit of the token.
#[derive(Default)]
pub(crate) struct Gate {
    pub(crate) arrivals: Mutex<Vec<Arrival>>,
    /// What came and should not have: an assertion of a handler would reach no test.
    pub(crate) wrong: Mutex<Vec<String>>,
    /// Held up until that many are inside together.
    pub(crate) all: Option<Barrier>,
    /// The same for each token by itself.
    pub(crate) each: HashMap<String, Barrier>,
}

impl Gate {
    /// Who came.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        let wrong = self.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "{wrong:?}");
        self.arrivals.lock().unwrap().clone()
    }
}

/// The token of a purchase, which has no body.
fn token_of(headers: &HeaderMap) -> Option<String> {
    let authorization = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let is_empty = headers.get(header::CONTENT_LENGTH)? == "0";
    authorization.strip_prefix("Bearer ").filter(|_| is_empty).map(str::to_owned)
}

async fn enter(
    State((node, gate)): State<(usize, Arc<Gate>)>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let Some(token) = token_of(&headers) else {
        gate.wrong.lock().unwrap().push(format!("{uri}: {headers:?}"));
        return StatusCode::BAD_REQUEST.into_response();
    };
    let path = uri.path().to_owned();
    gate.arrivals.lock().unwrap().push(Arrival { node, path, token: token.clone(), peer });
    for barrier in gate.all.iter().chain(gate.each.get(&token)) {
        barrier.wait().await;
    }
    let problem = [(header::CONTENT_TYPE, "application/problem+json")];
    match (token.bytes().last().unwrap() - b'0') % 5 {
        0 => (StatusCode::CREATED, format!(r#"{{"order_id":"{token}"}}"#)).into_response(),
        1 => (StatusCode::CONFLICT, problem, r#"{"code":"sold_out"}"#).into_response(),
        2 => (StatusCode::BAD_GATEWAY, "a proxy's page").into_response(),
        3 => (StatusCode::OK, "x".repeat(64 * 1024 + 1)).into_response(),
        _ => (StatusCode::CONFLICT, problem, [(header::CONNECTION, "close")], "{}").into_response(),
    }
}

/// Starts `count` nodes before the same gate.
pub(crate) async fn nodes(count: usize, gate: &Arc<Gate>) -> Vec<SocketAddr> {
    let mut addresses = Vec::new();
    for node in 0..count {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        addresses.push(listener.local_addr().unwrap());
        let app = axum::Router::new().fallback(post(enter)).with_state((node, Arc::clone(gate)));
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, app).await });
    }
    addresses
}

/// Reads the head of one request or answer; `None` at the end of the connection.
pub(crate) async fn head(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// Answers whatever comes over a connection, to its end.
pub(crate) async fn answer_always(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    while head(&mut stream).await.is_some() {
        stream.write_all(ORDERED.as_bytes()).await.unwrap();
    }
}

/// A server that takes so many connections. It answers the first request of a connection and, having read the second,
/// closes it. Reports the heads of the requests.
pub(crate) async fn half_deaf(connections: usize) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut listener = Some(listener);
        for left in (0..connections).rev() {
            let (stream, _) = listener.as_ref().unwrap().accept().await.unwrap();
            // Before the last is answered: nobody can come behind it.
            if left == 0 {
                listener = None;
            }
            let requests = requests.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                requests.send(head(&mut stream).await?).ok()?;
                stream.write_all(ORDERED.as_bytes()).await.ok()?;
                requests.send(head(&mut stream).await?).ok()
            });
        }
    });
    (address, seen)
}
