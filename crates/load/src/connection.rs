//! One HTTP/1.1 connection, and what is known of a request when the connection breaks.
//!
//! There is no pool, because a pool decides by itself when to reconnect and when to send again. A
//! purchase that is sent again is another purchase.

use std::io::{self, Read};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::CONTENT_ENCODING;
use hyper::{HeaderMap, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::either::Either;

use super::target::{TargetNode, WholeRequest};

/// The longest answer to an attempt that is read, in bytes.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// How long one attempt to connect may take. With a full listen backlog Linux drops the
/// SYN and sends it again after 1 s and 3 s; this leaves room for the second.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// The pause before the second attempt to connect; it doubles with every further one.
const FIRST_CONNECT_PAUSE: Duration = Duration::from_millis(20);

/// What became of one request.
pub(super) enum Exchange {
    /// The whole answer came.
    Answered {
        /// Its status.
        status: StatusCode,
        /// Its headers.
        headers: HeaderMap,
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

/// With TLS, or without.
type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// An open connection. Only [`Connection::exchange`] drives it: so a connection needs one task, and no
/// message between tasks is in what is measured.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None`: the connection is over.
    driver: Option<http1::Connection<TokioIo<Stream>, Full<Bytes>>>,
    /// The longest answer that is read, in bytes.
    longest_body: usize,
}

impl Connection {
    /// Connects to `node`, trying up to `tries` times with growing pauses, until `deadline`. Nothing is
    /// sent yet. Returns the last error when none succeeds.
    pub(super) async fn open(node: &TargetNode, tries: u32, deadline: Instant) -> io::Result<Self> {
        let stream = open_stream(node, tries, deadline).await?;
        let (sender, driver) =
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        Ok(Self { sender, driver: Some(driver), longest_body: MAX_BODY_BYTES })
    }

    /// The same, for longer answers.
    pub(super) fn reading_up_to(mut self, bytes: usize) -> Self {
        self.longest_body = bytes;
        self
    }

    /// Sends `request` and reads the whole answer. A caller that drops the future must drop the
    /// connection, too, because it may be in the middle of an answer.
    pub(super) async fn exchange(&mut self, request: WholeRequest) -> Exchange {
        let Self { sender, driver, longest_body } = self;
        let longest_body = *longest_body;
        let Some(open) = driver else { return Exchange::Unsent(request.into()) };
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
            _end = open => {}
            exchange = &mut talk => return exchange,
        }
        // A request that the driver has not taken is given back only when the driver is gone.
        *driver = None;
        // A server may close the connection right behind its answer. The answer is here by then.
        talk.await
    }
}

async fn open_stream(node: &TargetNode, tries: u32, deadline: Instant) -> io::Result<Stream> {
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

async fn open_once(node: &TargetNode) -> io::Result<Stream> {
    let stream = TcpStream::connect(node.address).await?;
    stream.set_nodelay(true)?;
    let Some(name) = &node.tls else { return Ok(Either::Left(stream)) };
    let name = name.to_string().try_into().map_err(io::Error::other)?;
    let connector = TlsConnector::from(Arc::clone(trusted()));
    Ok(Either::Right(connector.connect(name, stream).await?.into()))
}

/// What certificates are trusted: those of the system, or of `SSL_CERT_FILE`.
fn trusted() -> &'static Arc<ClientConfig> {
    static TRUSTED: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    TRUSTED.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
    })
}

async fn read(response: Response<Incoming>, longest_body: usize) -> Exchange {
    let (head, body) = response.into_parts();
    let (status, headers) = (head.status, head.headers);
    let is_packed = headers.get(CONTENT_ENCODING).is_some_and(|it| it.as_bytes() == b"gzip");
    match Limited::new(body, longest_body).collect().await {
        Ok(body) => {
            let body = body.to_bytes();
            // A body that cannot be unpacked is read as it came.
            let unpacked = is_packed.then(|| unpack(&body, longest_body)).flatten();
            let body = Some(unpacked.unwrap_or(body));
            Exchange::Answered { status, headers, body }
        }
        Err(error) if error.is::<LengthLimitError>() => {
            Exchange::Answered { status, headers, body: None }
        }
        Err(_broken) => Exchange::Lost,
    }
}

/// What was packed by gzip, where it is not longer than what is read.
fn unpack(body: &[u8], longest: usize) -> Option<Bytes> {
    let mut unpacked = Vec::new();
    let mut reader = MultiGzDecoder::new(body).take(longest as u64 + 1);
    reader.read_to_end(&mut unpacked).ok()?;
    (unpacked.len() <= longest).then(|| unpacked.into())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use futures_util::poll;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_request_comes_back_that_meets_the_end_of_an_idle_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let node = TargetNode::from(listener.local_addr().unwrap());
        let mut connection =
            Connection::open(&node, 1, Instant::now() + CONNECT_TIMEOUT).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let mut exchange = pin!(connection.exchange(WholeRequest::new(Full::default())));
        // The request is with the driver, which has not looked at it.
        assert!(poll!(exchange.as_mut()).is_pending());
        drop(server);
        // The runtime hears meanwhile what the system has to tell.
        sleep_until(Instant::now() + FIRST_CONNECT_PAUSE).await;
        assert!(matches!(exchange.await, Exchange::Unsent(_)));
    }

    #[test]
    fn a_packed_answer_is_unpacked_up_to_what_is_read() {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(&[b'x'; 100]).unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(unpack(&packed, 100).map(|body| body.len()), Some(100));
        assert_eq!(unpack(&packed, 99), None);
        assert_eq!(unpack(&packed[..packed.len() - 9], 100), None);
        assert_eq!(unpack(b"{}", 100), None);
    }
}
