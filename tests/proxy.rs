//! A proxy between a test and a server on a UNIX socket, which breaks the network on order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Notify;

/// What happens to what passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// It passes.
    None,
    /// The next request is swallowed, and its connection cut: it never arrives.
    LoseRequest,
    /// The next answer is swallowed, and its connection cut: the request was done.
    LoseAnswer,
    /// The connections there are stay open and deaf; others work.
    Deaf,
    /// New connections are accepted, and carry nothing until this is over.
    Hold,
    /// Every connection is cut, new ones at once.
    Down,
}

const FAULTS: [Fault; 6] =
    [Fault::None, Fault::LoseRequest, Fault::LoseAnswer, Fault::Deaf, Fault::Hold, Fault::Down];

#[derive(Debug)]
struct State {
    fault: AtomicU8,
    /// Pieces of the kind that is to be lost which pass before.
    spared: AtomicUsize,
    changed: Notify,
    /// A connection came that is being held.
    held: Notify,
}

impl State {
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

#[derive(Debug)]
pub struct Proxy {
    pub url: String,
    state: Arc<State>,
}

impl Proxy {
    /// In front of the Redis at `url`.
    pub async fn start(url: &str) -> Self {
        let socket = url.strip_prefix("redis+unix://").unwrap().to_owned();
        Self::before(socket, |address| format!("redis://{address}/")).await
    }

    /// In front of the PostgreSQL at `url`.
    pub async fn start_postgres(url: &str) -> Self {
        let url = url::Url::parse(url).unwrap();
        let host = url.query_pairs().find(|(name, _)| name == "host").unwrap().1.into_owned();
        let (socket, database) = (format!("{host}/.s.PGSQL.5432"), url.path().to_owned());
        Self::before(socket, |address| format!("postgres://postgres@{address}{database}")).await
    }

    async fn before(socket: String, url: impl FnOnce(SocketAddr) -> String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = url(listener.local_addr().unwrap());
        let state = Arc::new(State {
            fault: AtomicU8::new(0),
            spared: AtomicUsize::new(0),
            changed: Notify::new(),
            held: Notify::new(),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if shared.fault() == Fault::Down {
                    continue;
                }
                // Before a server that is gone: cut.
                let Ok(server) = UnixStream::connect(&socket).await else { continue };
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    shared.hold().await;
                    carry(client, server, shared).await;
                });
            }
        });
        Self { url, state }
    }

    /// From now on.
    pub fn break_by(&self, fault: Fault) {
        self.state.fault.store(fault as u8, Ordering::SeqCst);
        self.state.changed.notify_waiters();
    }

    /// As `LoseRequest` and `LoseAnswer`, but so many of them pass before.
    pub fn break_after(&self, passing: usize, fault: Fault) {
        self.state.spared.store(passing, Ordering::SeqCst);
        self.break_by(fault);
    }

    /// Until a connection came that is being held.
    pub async fn until_held(&self) {
        self.state.held.notified().await;
    }
}

/// Carries both ways until either end or a fault ends it.
async fn carry(mut client: TcpStream, mut server: UnixStream, state: Arc<State>) {
    // Two small answers in a row would else wait 40 ms for an acknowledgement.
    client.set_nodelay(true).unwrap();
    let (mut request, mut answer) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        let changed = state.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        match state.fault() {
            Fault::Down => return,
            // Until it is over for this connection, too: the test ends.
            Fault::Deaf => std::future::pending().await,
            _ => {}
        }
        tokio::select! {
            () = changed => {}
            read = client.read(&mut request) => match read {
                Ok(length @ 1..) if !state.strikes(Fault::LoseRequest) => {
                    if server.write_all(&request[..length]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
            read = server.read(&mut answer) => match read {
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
