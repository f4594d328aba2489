//! Accepts connections, bounds how many there are and how long they may be silent, and stops without
//! dropping a request that it has read.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Once};
use std::time::Duration;

use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use ipnet::IpNet;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{self, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_io_timeout::TimeoutStream;
use tower::{Service, ServiceExt};

use super::address::{ClientAddress, Peer, is_trusted};
use super::limits::NETWORKS_TO_FILL_IT;
use crate::model::{Full, Limit, Limiter, Permit};

/// Connections that may wait to be accepted: a rush arrives within a moment.
const BACKLOG: u32 = 8192;
/// How long a connection may be idle, and a request's head take, unless a setting says otherwise.
pub const IDLE: Duration = Duration::from_secs(75);
/// [`IDLE`] of a connection that comes when more than half of all connections are taken.
const IDLE_WHEN_CROWDED: Duration = Duration::from_secs(10);
/// How long a connection of a load balancer may be idle: the balancer closes it first. (A request that is sent
/// while the server closes is lost.) The system finds those whose balancer is gone.
const IDLE_OF_BALANCER: Duration = Duration::from_secs(3600);
/// How long the head of the only request on a connection of the reserve may take: the next probe waits for it.
const RESERVED_HEAD: Duration = Duration::from_millis(500);
/// How long such a connection may take in all. It ends a stream; every other answer is there before.
const RESERVED_FOR: Duration = Duration::from_secs(15);
/// How often the log says that an address has too many connections.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// The server closes a connection whose client reads nothing of an answer for so long.
const WRITE_WITHIN: Duration = Duration::from_secs(20);
/// After so much silence the system asks whether the client is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// How long the server, when it accepts no more, reads what its idle connections have sent: a request that is there, or
/// on its way, is answered.
const LINGER: Duration = Duration::from_millis(250);
/// How long a shutdown waits for requests under way.
const DRAIN_WITHIN: Duration = Duration::from_secs(20);
/// Bytes that a connection may buffer. It bounds the memory of many connections, and the size of a
/// request's head.
const MAX_BUFFER_BYTES: usize = 32 * 1024;

/// Bounds of a server.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Connections at once.
    pub connections: usize,
    /// Connections of one peer address at once.
    pub connections_of_a_peer: usize,
    /// Networks of load balancers, whose connections are not limited.
    pub exempt: Vec<IpNet>,
    /// Connections beyond these, each for one request: probes get through when all others are taken.
    pub reserve: usize,
    /// How long a connection may be idle, and a request's head take.
    pub idle: Duration,
}

impl ServerLimits {
    /// `connections` in all, however many of them one peer has.
    pub const fn of(connections: usize) -> Self {
        Self {
            connections,
            connections_of_a_peer: connections,
            exempt: Vec::new(),
            reserve: 0,
            idle: IDLE,
        }
    }

    /// The client whose connections are counted; `None`: a load balancer's are not.
    fn client(&self, peer: IpAddr) -> Option<ClientAddress> {
        (!is_trusted(peer, &self.exempt)).then_some(ClientAddress(peer))
    }

    /// How long a connection of `client` may be idle.
    fn idle_of(&self, client: Option<ClientAddress>, is_crowded: bool) -> Duration {
        match client {
            None => self.idle.max(IDLE_OF_BALANCER),
            Some(_) if is_crowded => self.idle.min(IDLE_WHEN_CROWDED),
            Some(_) => self.idle,
        }
    }
}

/// Listens at `address`.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Connections have threads of their own. On shared ones a purchase, which takes several turns, would
/// wait in each of them behind thousands of connections that are refused: five times the peak left a
/// hundredth of the goodput there, and two thirds here, with clients that ignore `Retry-After`.
///
/// An answer that was found on other threads (a purchase, a batch of reads) wakes its connection before these threads take up
/// what came by their sockets. As tokio has it, they look there once in ten or more turns: four thousand readers whose
/// voucher was read anew were woken so slowly that a purchase behind them waited 29 times as long as beside `/healthz`.
///
/// They live as long as the process: a runtime must not be dropped by a task.
pub fn connection_threads() -> io::Result<&'static Runtime> {
    let mut threads = runtime::Builder::new_multi_thread();
    let runtime = threads.thread_name("http").global_queue_interval(1).enable_all().build()?;
    Ok(Box::leak(Box::new(runtime)))
}

/// A second listener at the address of the first: both accept what comes.
pub fn second(listener: &TcpListener) -> io::Result<TcpListener> {
    TcpListener::from_std(SockRef::from(listener).try_clone()?.into())
}

/// Serves `service`, a router for example, until `stop` resolves, then finishes what was begun: also connections that
/// nobody has accepted yet, and requests that nobody has read.
pub async fn serve<S>(
    listener: TcpListener,
    service: S,
    limits: ServerLimits,
    stop: impl Future<Output = ()>,
) where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    let mut server = HttpServer::new(limits, service);
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = server.accept(&listener) => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, address, permit)) => server.connect(stream, address, permit),
            Err(error) => {
                // Out of descriptors, most likely: a pause lets some be closed.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    server.accept_the_rest(listener);
    server.finish().await;
}

/// The connections of a server.
struct HttpServer<S> {
    limits: ServerLimits,
    service: S,
    http: http1::Builder,
    graceful: GracefulShutdown,
    permits: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    peers: Limiter<IpAddr>,
    networks: Limiter<IpAddr>,
    warned: Option<Instant>,
}

/// The permit of a connection, and whether it is one of the reserve.
type ConnectionPermit = (OwnedSemaphorePermit, bool);

type Accepted = (TcpStream, SocketAddr, ConnectionPermit);

impl<S> HttpServer<S>
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    fn new(limits: ServerLimits, service: S) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).max_buf_size(MAX_BUFFER_BYTES);
        let of_one = |count| Limiter::new(Limit { share: Some(count), ..Limit::NONE });
        // Connections of one IPv6 /48 at once. (The network of an IPv4 address is the address.)
        let of_a_network =
            limits.connections_of_a_peer.max(limits.connections / NETWORKS_TO_FILL_IT);
        Self {
            service,
            http,
            graceful: GracefulShutdown::new(),
            permits: Arc::new(Semaphore::new(limits.connections)),
            reserve: Arc::new(Semaphore::new(limits.reserve)),
            peers: of_one(limits.connections_of_a_peer),
            networks: of_one(of_a_network),
            warned: None,
            limits,
        }
    }

    /// At the limit no connection is accepted; the kernel's queue holds them meanwhile.
    async fn accept(&self, listener: &TcpListener) -> io::Result<Accepted> {
        // Neither is ever closed.
        let permit = tokio::select! {
            biased;
            Ok(permit) = Arc::clone(&self.permits).acquire_owned() => (permit, false),
            Ok(permit) = Arc::clone(&self.reserve).acquire_owned() => (permit, true),
            else => unreachable!("the permits are there as long as the server"),
        };
        let (stream, address) = listener.accept().await?;
        // It may have come long after its permit: the reserve is for one that finds all others taken.
        Ok((stream, address, self.usual_permit().unwrap_or(permit)))
    }

    /// A permit that is not one of the reserve, if there is one now.
    fn usual_permit(&self) -> Option<ConnectionPermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok().map(|permit| (permit, false))
    }

    fn connect(&mut self, stream: TcpStream, address: SocketAddr, permit: ConnectionPermit) {
        let (permit, is_reserved) = permit;
        let peer = Peer(address);
        // Dropping the stream closes the connection: an answer would cost what the limit is to save.
        let client = self.limits.client(peer.ip());
        let Ok(of_client) = self.take(client) else { return self.warn_of(peer) };
        let service = self.service.clone().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request
        });
        let is_crowded = self.permits.available_permits() < self.limits.connections / 2;
        let idle = self.limits.idle_of(client, is_crowded);
        self.http.header_read_timeout(if is_reserved { RESERVED_HEAD } else { idle });
        self.http.keep_alive(!is_reserved);
        let stream = Box::pin(with_time_outs(stream));
        let service = TowerToHyperService::new(service);
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        let connection = self.graceful.watch(connection);
        tokio::spawn(async move {
            if is_reserved {
                let _ = tokio::time::timeout(RESERVED_FOR, connection).await;
            } else if let Err(error) = connection.await
                && speaks_http_2(&error)
            {
                tell_of_http_2(peer);
            }
            drop((permit, of_client));
        });
    }

    /// One more connection of `client`, and of its network.
    fn take(&self, client: Option<ClientAddress>) -> Result<[Permit<IpAddr>; 2], Full> {
        let of_network = self.networks.take(client.map(ClientAddress::network))?;
        Ok([self.peers.take(client.map(ClientAddress::customer))?, of_network])
    }

    fn warn_of(&mut self, peer: Peer) {
        if self.warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
            self.warned = Some(Instant::now());
            tracing::warn!(
                address = %peer.ip(),
                limit = self.limits.connections_of_a_peer,
                "an address, or its IPv6 /48, has as many connections as it may have, one more was closed \
                 (SECKILL_CONNECTIONS_PER_ADDRESS; SECKILL_TRUSTED_PROXIES for a balancer)"
            );
        }
    }

    /// Accepts those that wait in the queue of the kernel, which would close them with the listener.
    fn accept_the_rest(&mut self, listener: TcpListener) {
        // The system itself is asked: the runtime may not know of them yet.
        let Ok(listener) = listener.into_std() else { return };
        while let Some(permit) = self.usual_permit()
            && let Ok((stream, address)) = listener.accept()
        {
            let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
            if let Ok(stream) = stream {
                self.connect(stream, address, permit);
            }
        }
    }

    async fn finish(self) {
        let all = u32::try_from(self.limits.connections).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(LINGER, self.permits.acquire_many(all)).await;
        if tokio::time::timeout(DRAIN_WITHIN, self.graceful.shutdown()).await.is_err() {
            tracing::warn!("requests that were not answered in time were dropped");
        }
    }
}

/// A client that breaks off is no error of the server. But a proxy may be set to speak HTTP/2 without TLS. hyper names that only in
/// words: those of another version than 1, if not all of the preface of HTTP/2 has come at once.
fn speaks_http_2(error: &hyper::Error) -> bool {
    error.to_string().starts_with("invalid HTTP version")
}

fn tell_of_http_2(peer: Peer) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        tracing::warn!(
            address = %peer.ip(),
            "HTTP/2 without TLS, as any version but HTTP/1, is refused: let the proxy speak HTTP/1.1 with this server \
             (said once)"
        );
    });
}

fn with_time_outs(stream: TcpStream) -> TimeoutStream<TcpStream> {
    let _ = stream.set_nodelay(true);
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE / 6);
    let socket = SockRef::from(&stream);
    let _ = socket.set_tcp_keepalive(&keep_alive);
    // It finds a client that vanished while an answer was on its way, a stream of events mostly.
    #[cfg(target_os = "linux")]
    let _ = socket.set_tcp_user_timeout(Some(KEEP_ALIVE));
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_WITHIN));
    stream
}

#[cfg(test)]
mod tests {
    use hyper::service::service_fn;
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn the_preface_of_http_2_is_known_in_whichever_reads_it_comes() {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let sent = |first| (preface.split_at(first), true);
        let other: [&[u8]; 2] = [b"\x16\x03\x01\x02\r\n", b"GET / HTTP/1.1\r\nno header\r\n\r\n"];
        let other = other.map(|bytes| ((bytes, b"".as_slice()), false));
        for ((first, second), is_http_2) in (1..=preface.len()).map(sent).chain(other) {
            let (mut client, stream) = tokio::io::duplex(1024);
            let service = service_fn(async |_: Request<Incoming>| {
                Ok::<_, Infallible>(Response::<String>::default())
            });
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            let sending = async {
                let _ = client.write_all(first).await;
                tokio::task::yield_now().await;
                // Its server may have closed it.
                let _ = client.write_all(second).await;
            };
            let (ended, ()) = tokio::join!(connection, sending);
            let is_known = ended.is_err_and(|error| speaks_http_2(&error));
            assert_eq!(is_known, is_http_2, "{:?}", String::from_utf8_lossy(first));
        }
    }

    #[test]
    fn an_address_may_have_so_many_connections_and_a_load_balancer_any_number() {
        let limits = ServerLimits {
            connections_of_a_peer: 2,
            exempt: "10.0.0.0/8".parse().into_iter().collect(),
            ..ServerLimits::of(100)
        };
        let server = HttpServer::new(limits, axum::Router::new());
        let take = |peer: &str| {
            let Ok(peer) = peer.parse() else { unreachable!("{peer}") };
            server.take(server.limits.client(peer))
        };
        let mut held = Vec::new();
        // The addresses of an IPv6 /64 are one.
        for [peer, neighbour] in [["192.0.2.1"; 2], ["1:2:3:4:5::", "1:2:3:4:8::"]] {
            held.extend([take(peer), take(neighbour)]);
            assert!(held.iter().all(Result::is_ok) && take(peer).is_err(), "{peer}");
        }
        let many: Vec<_> = (0..10).map(|_| take("10.0.0.1")).collect();
        assert!(many.iter().all(Result::is_ok));
        drop(held);
        assert!(take("192.0.2.1").is_ok());
        // All /64 of an IPv6 /48 have a quarter together, and leave the rest to other networks.
        let held: Vec<_> =
            (0..30).flat_map(|number| take(&format!("1:2:3:{number:x}::")).ok()).collect();
        assert!(held.len() == 25 && take("1:2:4::").is_ok(), "{}", held.len());
    }
}
