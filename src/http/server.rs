//! Accepts connections, bounds how long they may be silent, and stops without dropping a request
//! that it has read.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tower::{Service, ServiceExt};

use super::address::Peer;

/// Connections that may wait to be accepted: a rush arrives within a moment.
const BACKLOG: u32 = 8192;
/// A connection that is silent for so long, or that takes so long over a request's head,
/// is closed. Longer than load balancers keep idle connections, so that they close first.
const SILENCE: Duration = Duration::from_secs(75);
/// How long a shutdown waits for requests under way.
const DRAIN_WITHIN: Duration = Duration::from_secs(20);
/// Bytes that a connection may buffer: bounds the memory of a thousand of them, and the
/// size of a request's head.
const MAX_BUFFER_BYTES: usize = 32 * 1024;

/// Listens at `address`.
///
/// # Errors
/// When the address is taken or not ours.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves `service`, a router for example, until `stop` resolves, then finishes what was begun.
pub async fn serve<S>(
    listener: TcpListener,
    service: S,
    max_connections: usize,
    stop: impl Future<Output = ()>,
) where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(max_connections));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(SILENCE).max_buf_size(MAX_BUFFER_BYTES);
    tokio::pin!(stop);
    loop {
        // At the limit no connection is accepted; the kernel's queue holds them meanwhile.
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut stop => break,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, most likely: a pause lets some be closed.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let service = service.clone().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(address));
            request
        });
        let connection =
            http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that breaks off is not our error.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_WITHIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests that were not answered in time were dropped");
    }
}
