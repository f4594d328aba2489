//! Single requests beside a rush, such as payments: no barrier, no clock, and the whole answer comes back.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Method, Request, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::connection::{Connection, Exchange};
use super::place::Answer;
use super::target::{TargetNode, WholeRequest};

/// The longest answer that is read, in bytes: an answer may be a list.
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;
/// Tries to open a connection.
const OPEN_TRIES: u32 = 3;
/// How often one call may find its connection closed before it was written.
const UNSENT_TRIES: u32 = 3;

/// One request.
#[derive(Clone)]
pub struct Call {
    /// The server.
    pub node: TargetNode,
    /// `GET`, `POST`.
    pub method: Method,
    /// Path, with the query if there is one; behind the node's prefix.
    pub path: String,
    /// Sent as `authorization: Bearer <token>`.
    pub token: Option<Arc<str>>,
    /// Other headers; a `host` among them stands in place of the node's.
    pub headers: HeaderMap,
    /// JSON, unless a header says otherwise; or nothing.
    pub body: Bytes,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallAnswer {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body; nothing where it was too long to read.
    pub body: Bytes,
}

impl CallAnswer {
    /// For those who look for something in it.
    #[must_use]
    pub fn answer(&self) -> Answer<'_> {
        let status = StatusCode::from_u16(self.status).unwrap_or_default();
        Answer::new(status, &self.headers, Some(&self.body))
    }
}

/// Sends `calls`, `at_once` of them at a time, each at most once. Neighbours go over different connections,
/// side by side. Returns the answers in the order of the calls; `None`: none came within `answer_timeout`,
/// or the call cannot be written.
pub async fn send(
    calls: &[Call],
    at_once: usize,
    answer_timeout: Duration,
) -> Vec<Option<CallAnswer>> {
    let at_once = at_once.max(1);
    let workers = (0..at_once.min(calls.len())).map(async |worker| {
        let mut connections = HashMap::new();
        let mut answers = Vec::new();
        for index in (worker..calls.len()).step_by(at_once) {
            let until = Instant::now() + answer_timeout;
            answers.push((index, send_one(&mut connections, &calls[index], until).await));
        }
        answers
    });
    let mut answers: Vec<_> = join_all(workers).await.into_iter().flatten().collect();
    answers.sort_unstable_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

async fn send_one(
    connections: &mut HashMap<SocketAddr, Connection>,
    call: &Call,
    until: Instant,
) -> Option<CallAnswer> {
    let mut request = request(call)?;
    for _ in 0..UNSENT_TRIES {
        // The connection goes back only after a whole answer.
        let mut connection = match connections.remove(&call.node.address) {
            Some(connection) => connection,
            None => {
                let opened = Connection::open(&call.node, OPEN_TRIES, until).await;
                opened.ok()?.reading_up_to(MAX_BODY_BYTES)
            }
        };
        match timeout_at(until, connection.exchange(request)).await {
            Ok(Exchange::Answered { status, headers, body }) => {
                if body.is_some() {
                    connections.insert(call.node.address, connection);
                }
                let body = body.unwrap_or_default();
                return Some(CallAnswer { status: status.as_u16(), headers, body });
            }
            Ok(Exchange::Unsent(unsent)) => request = *unsent,
            Ok(Exchange::Lost) | Err(_) => return None,
        }
    }
    None
}

fn request(call: &Call) -> Option<WholeRequest> {
    let Call { node, method, path, token, headers, body } = call;
    let mut request =
        Request::builder().method(method).uri(node.uri(path)).header(CONTENT_LENGTH, body.len());
    if !headers.contains_key(HOST) {
        request = request.header(HOST, &*node.host);
    }
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    for (name, value) in headers {
        request = request.header(name, value);
    }
    if !body.is_empty() && !headers.contains_key(CONTENT_TYPE) {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    request.body(Full::new(body.clone())).ok()
}
