//! A proxy before a server, which breaks the network on order.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Notify;
use tokio_util::either::Either;
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use super::FaultError;

/// What happens to what passes a [`Proxy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// It passes.
    None,
    /// The next request is swallowed, and its connection cut: it never arrives. Then
    /// [`Fault::None`].
    LoseRequest,
    /// The next answer is swallowed, and its connection cut: the request was done. Then
    /// [`Fault::None`].
    LoseAnswer,
    /// Every connection stays open and is deaf for good; those that come when this is over work.
    Deaf,
    /// New connections are accepted, and carry nothing until this is over.
    Hold,
    /// Requests arrive; the answers do not until this is over.
    HoldAnswers,
    /// Every connection is cut, new ones at once.
    Down,
    /// Requests do not arrive: each gets the words of [`Proxy::answer_itself`], and its connection is cut.
    AnswerItself,
}

const FAULTS: [Fault; 8] = [
    Fault::None,
    Fault::LoseRequest,
    Fault::LoseAnswer,
    Fault::Deaf,
    Fault::Hold,
    Fault::HoldAnswers,
    Fault::Down,
    Fault::AnswerItself,
];

#[derive(Debug)]
struct ProxyState {
    fault: AtomicU8,
    /// How long a new connection carries nothing.
    slow_ms: AtomicU64,
    /// Pieces of the kind that is to be lost which pass before.
    spared: AtomicUsize,
    changed: Notify,
    /// A connection came that is being held.
    held: Notify,
    /// What the proxy answers itself.
    words: Mutex<Vec<u8>>,
}

impl ProxyState {
    async fn hold(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.fault() != Fault::Hold {
                return;
            }
            self.held.notify_one();
            changed.await;
        }
    }

    fn words(&self) -> MutexGuard<'_, Vec<u8>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self) -> Fault {
        FAULTS[usize::from(self.fault.load(Ordering::SeqCst))]
    }

    /// Whether this piece is the one that `fault` was ordered for; it is, once.
    fn strikes(&self, fault: Fault) -> bool {
        let (from, to) = (fault as u8, Fault::None as u8);
        if self.fault() != fault {
            return false;
        }
        let spare = |left: usize| left.checked_sub(1);
        if self.spared.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spare).is_ok() {
            return false;
        }
        self.fault.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// Where the server is.
#[derive(Debug, Clone)]
enum Behind {
    /// `host:port`.
    Tcp(String),
    Unix(PathBuf),
}

impl Behind {
    fn of(info: &ConnectionInfo) -> Result<Self, FaultError> {
        match info.addr() {
            ConnectionAddr::Tcp(host, port) => Ok(Self::Tcp(format!("{host}:{port}"))),
            ConnectionAddr::Unix(path) => Ok(Self::Unix(path.clone())),
            other => Err(FaultError::NotPlain(other.to_string())),
        }
    }

    async fn connect(&self) -> io::Result<Either<TcpStream, UnixStream>> {
        match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Either::Left(stream))
            }
            Self::Unix(path) => Ok(Either::Right(UnixStream::connect(path).await?)),
        }
    }
}

/// A TCP port on 127.0.0.1 that leads to a server, and on which the network breaks on order.
///
/// Before a server that is down, connections are accepted and cut. Dropping it cuts all of
/// its connections.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    port: u16,
    state: Arc<ProxyState>,
    _end: DropGuard,
}

impl Proxy {
    /// Before the Redis at `url`: `redis://` or `redis+unix://`. What the URL says of a user, a
    /// password and a database holds for [`Proxy::url`], too.
    ///
    /// # Errors
    /// A URL that is none, or of a server that wants TLS; no port to be had.
    pub async fn start(url: &str) -> Result<Self, FaultError> {
        // The URL's parser knows no TLS in every build.
        if url.starts_with("rediss") {
            return Err(FaultError::NotPlain("a server that wants TLS".to_owned()));
        }
        let info = url.into_connection_info()?;
        let mut proxy = Self::listen(Behind::of(&info)?).await?;
        let mut own = Url::parse(&proxy.url)
            .map_err(|_| FaultError::NotPlain(format!("what is at {}", proxy.url)))?;
        let redis = info.redis_settings();
        if redis.db() != 0 {
            own.set_path(&redis.db().to_string());
        }
        // Neither is refused for a URL with a host.
        let _ = own.set_username(redis.username().unwrap_or_default());
        let _ = own.set_password(redis.password());
        proxy.url = own.into();
        Ok(proxy)
    }

    /// Before the PostgreSQL at `url`, which names the directory of its socket as `host`.
    ///
    /// # Errors
    /// A URL that is none, or without a `host`; no port to be had.
    pub async fn before_postgres(url: &str) -> Result<Self, FaultError> {
        let not_plain = || FaultError::NotPlain(format!("what is at {url}"));
        let mut own = Url::parse(url).map_err(|_| not_plain())?;
        let host =
            own.query_pairs().find(|(name, _)| name == "host").map(|(_, host)| host.into_owned());
        let socket = Path::new(&host.ok_or_else(not_plain)?).join(".s.PGSQL.5432");
        let mut proxy = Self::before_socket(socket).await?;
        // Neither is refused for a URL with a host.
        let _ = own.set_host(Some("127.0.0.1"));
        let _ = own.set_port(Some(proxy.port));
        own.set_query(Some("sslmode=disable"));
        proxy.url = own.into();
        Ok(proxy)
    }

    /// Before any other server, at `host:port`.
    ///
    /// # Errors
    /// No port to be had.
    pub async fn before(address: &str) -> Result<Self, FaultError> {
        Self::listen(Behind::Tcp(address.to_owned())).await
    }

    /// Before any other server, at a UNIX socket.
    ///
    /// # Errors
    /// No port to be had.
    pub async fn before_socket(path: PathBuf) -> Result<Self, FaultError> {
        Self::listen(Behind::Unix(path)).await
    }

    async fn listen(behind: Behind) -> Result<Self, FaultError> {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .map_err(FaultError::system("listen on 127.0.0.1"))?;
        let port = listener.local_addr().map_err(FaultError::system("listen on 127.0.0.1"))?.port();
        let state = Arc::new(ProxyState {
            fault: AtomicU8::new(0),
            slow_ms: AtomicU64::new(0),
            spared: AtomicUsize::new(0),
            changed: Notify::new(),
            held: Notify::new(),
            words: Mutex::default(),
        });
        let end = CancellationToken::new();
        let accepting = accept(listener, behind, Arc::clone(&state), end.clone());
        tokio::spawn(end.clone().run_until_cancelled_owned(accepting));
        let url = format!("redis://127.0.0.1:{port}/");
        Ok(Self { url, port, state, _end: end.drop_guard() })
    }

    /// For a client of the Redis or the PostgreSQL behind it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The TCP port, on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// As `host:port`, for a client of whatever is behind it.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// From now on, until the next order.
    pub fn break_by(&self, fault: Fault) {
        self.state.fault.store(fault as u8, Ordering::SeqCst);
        self.state.changed.notify_waiters();
    }

    /// From now on a new connection carries nothing for so long: it is slow to make.
    pub fn slow_down(&self, connecting: Duration) {
        self.state.slow_ms.store(connecting.as_millis() as u64, Ordering::SeqCst);
    }

    /// As `LoseRequest` and `LoseAnswer`, but so many of them pass before.
    pub fn break_after(&self, passing: usize, fault: Fault) {
        self.state.spared.store(passing, Ordering::SeqCst);
        self.break_by(fault);
    }

    /// From now on each request gets `words` in place of an answer, as a connection pooler that has no server for it
    /// answers.
    pub fn answer_itself(&self, words: Vec<u8>) {
        *self.state.words() = words;
        self.break_by(Fault::AnswerItself);
    }

    /// Until a connection came that is being held.
    pub async fn until_held(&self) {
        self.state.held.notified().await;
    }
}

async fn accept(
    listener: TcpListener,
    behind: Behind,
    state: Arc<ProxyState>,
    end: CancellationToken,
) {
    while let Ok((client, _)) = listener.accept().await {
        if state.fault() == Fault::Down {
            continue;
        }
        // Before a server that is gone: cut.
        let Ok(server) = behind.connect().await else { continue };
        let state = Arc::clone(&state);
        let slow = Duration::from_millis(state.slow_ms.load(Ordering::SeqCst));
        let carrying = async move {
            tokio::time::sleep(slow).await;
            state.hold().await;
            carry(client, server, &state).await;
        };
        tokio::spawn(end.clone().run_until_cancelled_owned(carrying));
    }
}

/// Carries both ways until either end or a fault ends it.
async fn carry(
    mut client: TcpStream,
    mut server: impl AsyncRead + AsyncWrite + Unpin,
    state: &ProxyState,
) {
    // Two small answers in a row would else wait 40 ms for an acknowledgement. One that cannot
    // be told so is closed already, and found out below.
    let _ = client.set_nodelay(true);
    let (mut request, mut answer) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        let changed = state.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        match state.fault() {
            Fault::Down => return,
            // Both ends stay open until the proxy ends.
            Fault::Deaf => std::future::pending().await,
            _ => {}
        }
        tokio::select! {
            // What comes after an order is subject to it.
            biased;
            () = changed => {}
            read = client.read(&mut request) => match read {
                Ok(1..) if state.fault() == Fault::AnswerItself => {
                    let words = state.words().clone();
                    let _ = client.write_all(&words).await;
                    return;
                }
                Ok(length @ 1..) if !state.strikes(Fault::LoseRequest) => {
                    if server.write_all(&request[..length]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
            read = server.read(&mut answer), if state.fault() != Fault::HoldAnswers => match read {
                Ok(length @ 1..) if !state.strikes(Fault::LoseAnswer) => {
                    if client.write_all(&answer[..length]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
        }
    }
}
