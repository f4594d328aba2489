//! One HTTP/1.1 connection, and what is known of a request when the connection breaks.
//!
//! There is no pool, because a pool decides by itself when to reconnect and when to send again. A
//! purchase that is sent again is another purchase.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::CONTENT_TYPE;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The longest answer to an attempt that is read, in bytes.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// How long one attempt to connect may take. With a full listen backlog Linux drops the
/// SYN and sends it again after 1 s and 3 s; this leaves room for the second.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// The pause before the second attempt to connect; it doubles with every further one.
const FIRST_CONNECT_PAUSE: Duration = Duration::from_millis(20);

/// A request with its whole body, which is empty for a purchase.
pub(super) type WholeRequest = Request<Full<Bytes>>;

/// What became of one request.
pub(super) enum Exchange {
    /// The whole answer came.
    Answered {
        /// Its status.
        status: StatusCode,
        /// Whether it says that it is `application/problem+json`.
        is_problem: bool,
        /// Its body; `None` when it was longer than what is read, and then the
        /// connection cannot be used any more.
        body: Option<Bytes>,
    },
    /// The connection was closed before a byte of the request was written. The request comes back, and
    /// may go over another connection: it has not been sent yet.
    Unsent(Box<WholeRequest>),
    /// The connection broke after it had taken the request, whose outcome is unknown.
    Lost,
}

/// An open connection. Only [`Connection::exchange`] drives it: so a connection needs one task, and no
/// message between tasks is in what is measured.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<TokioIo<TcpStream>, Full<Bytes>>,
    ended: bool,
    /// The longest answer that is read, in bytes.
    longest_body: usize,
}

impl Connection {
    /// Connects to `node`, trying up to `tries` times with growing pauses, until `deadline`. Nothing is
    /// sent yet. Returns the last error when none succeeds.
    pub(super) async fn open(node: SocketAddr, tries: u32, deadline: Instant) -> io::Result<Self> {
        let stream = open_stream(node, tries, deadline).await?;
        let (sender, driver) =
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        Ok(Self { sender, driver, ended: false, longest_body: MAX_BODY_BYTES })
    }

    /// The same, for longer answers.
    pub(super) fn reading_up_to(mut self, bytes: usize) -> Self {
        self.longest_body = bytes;
        self
    }

    /// Sends `request` and reads the whole answer. A caller that drops the future must drop the
    /// connection, too, because it may be in the middle of an answer.
    pub(super) async fn exchange(&mut self, request: WholeRequest) -> Exchange {
        let Self { sender, driver, ended, longest_body } = self;
        let longest_body = *longest_body;
        if *ended {
            return Exchange::Unsent(request.into());
        }
        let mut talk = pin!(async {
            if sender.ready().await.is_err() {
                return Exchange::Unsent(request.into());
            }
            match sender.try_send_request(request).await {
                Ok(response) => read(response, longest_body).await,
                Err(mut error) => match error.take_message() {
                    Some(request) => Exchange::Unsent(request.into()),
                    None => Exchange::Lost,
                },
            }
        });
        // The driver comes first. It notices that the server has closed an idle connection before the
        // request is written into it, and then the outcome is known.
        tokio::select! {
            biased;
            _end = driver => *ended = true,
            exchange = &mut talk => return exchange,
        }
        // A server may close the connection right behind its answer. The answer is here by then.
        talk.await
    }
}

async fn open_stream(node: SocketAddr, tries: u32, deadline: Instant) -> io::Result<TcpStream> {
    let mut pause = FIRST_CONNECT_PAUSE;
    let mut tried = 1;
    loop {
        let patience = deadline.min(Instant::now() + CONNECT_TIMEOUT);
        let refusal = match timeout_at(patience, open_once(node)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => error,
            Err(_elapsed) => io::ErrorKind::TimedOut.into(),
        };
        let next = Instant::now() + pause;
        if tried >= tries || next >= deadline {
            return Err(refusal);
        }
        sleep_until(next).await;
        tried += 1;
        pause *= 2;
    }
}

async fn open_once(node: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(node).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn read(response: Response<Incoming>, longest_body: usize) -> Exchange {
    let status = response.status();
    let content_type = response.headers().get(CONTENT_TYPE);
    let is_problem = content_type.is_some_and(|value| is_problem(value.as_bytes()));
    let answered = |body| Exchange::Answered { status, is_problem, body };
    match Limited::new(response.into_body(), longest_body).collect().await {
        Ok(body) => answered(Some(body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => answered(None),
        Err(_broken) => Exchange::Lost,
    }
}

/// Whether a `content-type` is that of RFC 9457, with or without parameters.
fn is_problem(content_type: &[u8]) -> bool {
    let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/problem+json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_json_is_known_by_its_media_type_alone() {
        assert!(is_problem(b"application/problem+json"));
        assert!(is_problem(b"Application/Problem+JSON ; charset=utf-8"));
        assert!(!is_problem(b"application/json"));
        assert!(!is_problem(b"application/problem+jsonx"));
        assert!(!is_problem(b""));
    }
}
