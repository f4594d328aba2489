//! Not listening for a while to a connection over which one was refused in an overload.
//!
//! He was told to come back after two seconds, but many a client asks again at once, and each
//! answer takes from those who are served. What such a connection sends meanwhile stays where it
//! is, first in the kernel, then at the client (the flow control of TCP).

use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::seckill::Benched;

/// What `Retry-After` says to who is put on the bench.
pub(super) const COME_BACK_AFTER: Duration = Duration::from_secs(2);
/// How long he is there, in milliseconds: not as long as he was told, so that who takes it at its
/// word does not notice. Drawn, or all who were refused at once would be back at once.
const ON_THE_BENCH_MS: Range<u64> = 1_000..1_700;

/// The bench of one connection.
#[derive(Debug, Clone, Default)]
pub struct Bench(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_taken: AtomicBool,
    benched: Mutex<Option<Benched>>,
    is_early: AtomicBool,
}

impl Bench {
    /// From the next time that something would be read, nothing is for a while.
    pub(super) fn take(&self, benched: Benched) {
        *self.0.benched.lock().unwrap_or_else(PoisonError::into_inner) = Some(benched);
        self.0.is_taken.store(true, Ordering::Release);
    }

    /// Whether the request that is asked about was sent while nobody listened. It is asked once.
    pub(super) fn was_early(&self) -> bool {
        self.0.is_early.load(Ordering::Relaxed) && self.0.is_early.swap(false, Ordering::Relaxed)
    }

    fn is_taken(&self) -> bool {
        self.0.is_taken.load(Ordering::Acquire)
    }

    fn leave(&self) {
        self.0.is_taken.store(false, Ordering::Release);
        *self.0.benched.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A connection that is listened to, but for when it is on the bench.
pub(super) struct Listening<S> {
    stream: S,
    bench: Bench,
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Listening<S> {
    pub(super) fn to(stream: S) -> (Self, Bench) {
        let bench = Bench::default();
        (Self { stream, bench: bench.clone(), until: None }, bench)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Listening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.bench.is_taken() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let until = self.until.get_or_insert_with(|| {
            Box::pin(sleep(Duration::from_millis(rand::random_range(ON_THE_BENCH_MS))))
        });
        ready!(until.as_mut().poll(context));
        self.until = None;
        self.bench.leave();
        let filled = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let is_early = buffer.filled().len() > filled;
        self.bench.0.is_early.store(is_early, Ordering::Relaxed);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Listening<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
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

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
