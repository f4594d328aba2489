//! The way to one server: TCP, TLS over it, or a UNIX socket, and what was written on it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_util::future::select_ok;
use redis::ConnectionAddr;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, lookup_host};

use super::tls::Tls;

/// Bytes in both directions.
pub(super) trait AsyncStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> AsyncStream for S {}

/// How many bytes the system took for a server. What was asked for while this stood still was not sent.
#[derive(Debug, Clone, Default)]
pub(super) struct Written(Arc<AtomicU64>);

impl Written {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Connects, to whichever address of a name takes it first: those of the other family may be dead.
pub(super) async fn connect(
    address: &ConnectionAddr,
    tls: Option<&Tls>,
    written: &Written,
) -> io::Result<Box<dyn AsyncStream>> {
    match address {
        ConnectionAddr::Tcp(host, port) => {
            let connected = tcp(host, *port).await;
            let stream = connected.map_err(|error| told_of(&error, &shown(host, *port)))?;
            let stream = Counted { stream, written: written.clone() };
            match tls {
                None => Ok(Box::new(stream)),
                Some(tls) => Ok(Box::new(tls.connect(host, stream).await?)),
            }
        }
        ConnectionAddr::Unix(path) => {
            let connected = UnixStream::connect(path).await;
            let stream = connected.map_err(|error| told_of(&error, &path.display().to_string()))?;
            Ok(Box::new(Counted { stream, written: written.clone() }))
        }
        _ => unreachable!("a Redis URL is read as one of these (url.rs)"),
    }
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = first_of(lookup_host((host, port)).await?).await?;
    // Requests are small, and a task waits for each.
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn first_of(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut tried = addresses.map(|address| Box::pin(TcpStream::connect(address))).peekable();
    if tried.peek().is_none() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(select_ok(tried).await?.0)
}

/// As in a URL.
fn shown(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The error, with the server's address: several may be in use.
fn told_of(error: &io::Error, address: &str) -> io::Error {
    let what = match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("connection refused by {address}"),
        _ => format!("no connection to {address}: {error}"),
    };
    io::Error::new(error.kind(), what)
}

/// A stream that counts what is written. Below TLS: there alone it is known what has left.
#[derive(Debug)]
struct Counted<S> {
    stream: S,
    written: Written,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = polled {
            self.written.0.fetch_add(count as u64, Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    /// An address behind which nothing answers: its queue of connections that wait is full.
    async fn silent() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        // On Linux one more than the queue is long.
        while let Ok(connected) =
            tokio::time::timeout(std::time::Duration::from_millis(200), TcpStream::connect(address))
                .await
        {
            waiting.push(connected.unwrap());
        }
        (address, listener, waiting)
    }

    #[tokio::test]
    async fn a_dead_address_of_a_name_does_not_keep_the_living_one_waiting() {
        let (dead, _listener, _waiting) = silent().await;
        let living = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let living = living.local_addr().map(|address| (address, living)).unwrap();
        for addresses in [[dead, living.0], [living.0, dead]] {
            let stream = first_of(addresses.into_iter()).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), living.0);
        }
        assert!(first_of(std::iter::empty()).await.is_err());
    }
}
