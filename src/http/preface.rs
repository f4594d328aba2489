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
    /// How much of the preface has come, in whichever reads; `None`: the client has begun otherwise, or it is whole.
    matched: Option<usize>,
}

impl<S> Prefaced<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self { stream, matched: Some(0) }
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
        if let Some(matched) = self.matched {
            let rest = &PREFACE[matched..];
            self.matched = rest.starts_with(read).then_some(matched + read.len());
            if read.starts_with(rest) {
                read[rest.len() - 1] = b'1';
                self.matched = None;
            }
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn the_preface_is_found_in_whichever_reads_it_comes() {
        for (sent, handed_on) in [
            ("PRI * HTTP/2.0\r\n", "PRI * HTTP/1.0\r\n"),
            ("PRI * HTTP/2", "PRI * HTTP/1"),
            ("PRI * HTTP/", "PRI * HTTP/"),
            ("GET / HTTP/2.0\r\n", "GET / HTTP/2.0\r\n"),
            ("GET PRI * HTTP/2", "GET PRI * HTTP/2"),
        ] {
            for cut in 0..=sent.len() {
                let (first, second) = sent.as_bytes().split_at(cut);
                let mut read = String::new();
                let ended = Prefaced::new(first.chain(second)).read_to_string(&mut read).await;
                assert!(ended.is_ok() && read == handed_on, "{sent:?}, cut at {cut}: {read:?}");
            }
        }
    }
}
