//! The beginning of a connection that speaks HTTP/2 without TLS, as a proxy may be set to do. This server speaks HTTP/1.1:
//! each of its bounds is about a connection with one request at a time.

use std::io;
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll, ready};

use axum::extract::Request;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ApiError;
use super::address::Peer;
use super::problem::Code;

/// The first bytes of such a client (RFC 9113, section 3.4), up to its version.
const PREFACE: &[u8] = b"PRI * HTTP/2";

/// A stream that hands the preface on as a request of HTTP/1.0, which gets one answer, within all bounds. As it is, hyper
/// closes the connection without a word.
#[derive(Debug)]
pub(super) struct Prefaced<S> {
    stream: S,
    has_begun: bool,
}

impl<S> Prefaced<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self { stream, has_begun: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefaced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = &mut buffer.filled_mut()[before..];
        if !std::mem::replace(&mut self.has_begun, true) && read.starts_with(PREFACE) {
            read[PREFACE.len() - 1] = b'1';
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefaced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The answer where there is no route, the preface among others, of which the log says once what to do.
pub(super) async fn no_route(request: Request) -> ApiError {
    if request.method().as_str() != "PRI" {
        return ApiError::new(Code::NotFound);
    }
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let address = request.extensions().get().map(Peer::ip);
        tracing::warn!(
            ?address,
            "HTTP/2 without TLS is refused: let the proxy speak HTTP/1.1 with this server (said once)"
        );
    });
    ApiError::http_2()
}
