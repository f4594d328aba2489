//! Not listening for a while to a connection over which one was refused in an overload.
//!
//! He was told to come back after five seconds, but many a client asks again at once, and each
//! answer takes from those who are served. What such a connection sends meanwhile is not read but
//! for its first byte (which tells that there is something, or that the client has left): it stays
//! in the kernel, and then at the client (the flow control of TCP). The connection is listened to
//! again when there is room and it is its turn, and in any case before the five seconds are over.
//! Whoever has asked too early is refused then; if it is still an overload, he is told ten.
//!
//! When the server stops, such a connection counts as idle and is closed, whatever it has sent.

use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use crate::seckill::Benched;

/// What `Retry-After` says to who is put on the bench.
const COME_BACK_AFTER: Duration = Duration::from_secs(5);
/// And to who did not take that at its word: half as many refusals of no use to anybody.
const COME_BACK_AFTER_IF_EARLY: Duration = Duration::from_secs(10);
/// For what part of that he is there at most: not for all of it, so that who takes it at its word
/// does not notice. Drawn, or all who were refused at once would be back at once.
const ON_THE_BENCH: Range<f64> = 0.6..0.9;

/// The bench of one connection.
#[derive(Debug, Clone, Default)]
pub struct Bench(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_taken: AtomicBool,
    /// And for how long at most.
    benched: Mutex<Option<(Benched, Duration)>>,
    /// Something was sent while nobody listened, and nobody has asked about it.
    is_early: AtomicBool,
    /// What was said when somebody asked the last time.
    was_early: AtomicBool,
}

impl Bench {
    /// From the next time that something would be read, nothing is for a while. Returns after what
    /// time he is told to come back.
    pub(super) fn take(&self, benched: Benched) -> Duration {
        // Or it was pipelined, and its sender is to be heard no sooner than he was told before.
        let was_early = self.0.was_early.load(Ordering::Relaxed) || self.is_taken();
        let told = if was_early { COME_BACK_AFTER_IF_EARLY } else { COME_BACK_AFTER };
        let at_most = told.mul_f64(rand::random_range(ON_THE_BENCH));
        *self.benched() = Some((benched, at_most));
        self.0.is_taken.store(true, Ordering::Release);
        told
    }

    /// Whether the request that is asked about was sent while nobody listened. It is asked once.
    pub(super) fn was_early(&self) -> bool {
        let is_early = self.0.is_early.load(Ordering::Relaxed)
            && self.0.is_early.swap(false, Ordering::Relaxed);
        self.0.was_early.store(is_early, Ordering::Relaxed);
        is_early
    }

    fn is_taken(&self) -> bool {
        self.0.is_taken.load(Ordering::Acquire)
    }

    fn benched(&self) -> MutexGuard<'_, Option<(Benched, Duration)>> {
        self.0.benched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self) {
        self.0.is_taken.store(false, Ordering::Release);
        // Of a request that was pipelined, and refused while he was on the bench already.
        drop(self.benched().take());
    }

    /// Ends when it is time to listen again.
    fn sit(&self) -> impl Future<Output = ()> + Send + use<> {
        let benched = self.benched().take();
        async move {
            if let Some((benched, at_most)) = benched {
                // Whichever comes first.
                let _ = timeout(at_most, benched.called_back()).await;
            }
        }
    }
}

/// A connection that is listened to, but for when it is on the bench.
pub(super) struct Listening<S> {
    stream: S,
    bench: Bench,
    sitting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The first byte of what was sent while nobody listened.
    early: Option<u8>,
}

impl<S> Listening<S> {
    pub(super) fn to(stream: S) -> (Self, Bench) {
        let bench = Bench::default();
        (Self { stream, bench: bench.clone(), sitting: None, early: None }, bench)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Listening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.bench.is_taken() {
            let sitting = this.sitting.get_or_insert_with(|| Box::pin(this.bench.sit()));
            let stays = sitting.as_mut().poll(context).is_pending();
            if stays && this.early.is_none() {
                let mut first = [0];
                let mut first = ReadBuf::new(&mut first);
                ready!(Pin::new(&mut this.stream).poll_read(context, &mut first))?;
                this.early = first.filled().first().copied();
            }
            // But for who has left.
            if stays && this.early.is_some() {
                return Poll::Pending;
            }
            this.sitting = None;
            this.bench.leave();
        }
        let Some(first) = this.early.take() else {
            return Pin::new(&mut this.stream).poll_read(context, buffer);
        };
        this.bench.0.is_early.store(true, Ordering::Relaxed);
        buffer.put_slice(&[first]);
        match Pin::new(&mut this.stream).poll_read(context, buffer) {
            // Nothing more yet: the first byte is something.
            Poll::Pending => Poll::Ready(Ok(())),
            read => read,
        }
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::convert::Infallible;

    use futures_util::FutureExt;
    use hyper::Response;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::runtime::Handle;
    use tokio::time::{Instant, advance, sleep};

    use super::*;
    use crate::seckill::gate::{Comer, Gate, GateOptions, Pass};

    /// One who was refused in an overload that does not end while the other is under way.
    async fn benched() -> (Benched, Pass) {
        let wait = Duration::from_millis(1);
        let options = GateOptions { least: 1, burst: 1, most: 1, wait };
        let gate = Arc::new(Gate::new(options, Handle::current()));
        let inside = gate.enter(Comer::default()).unwrap();
        for _ in 0..10 {
            if let Err(Some(benched)) = gate.enter(Comer::default()) {
                return (benched, inside);
            }
            advance(Duration::from_millis(100)).await;
        }
        panic!("no overload");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_sent_too_early_is_read_before_its_sender_was_told_to_come_back() {
        let (mut client, server) = tokio::io::duplex(64);
        let (mut listening, bench) = Listening::to(server);
        let (benched, _inside) = benched().await;
        let told = Instant::now();
        assert_eq!(bench.take(benched), COME_BACK_AFTER);
        client.write_all(b"early").await.unwrap();
        listening.read_exact(&mut [0; 5]).await.unwrap();
        let heard_within = COME_BACK_AFTER.mul_f64(ON_THE_BENCH.start)..COME_BACK_AFTER;
        assert!(heard_within.contains(&told.elapsed()), "{:?}", told.elapsed());
        assert!(bench.was_early());
        client.write_all(b"again").await.unwrap();
        listening.read_exact(&mut [0; 5]).await.unwrap();
        assert!(!bench.was_early());
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_back_when_he_was_told_to_is_not_early() {
        let (mut client, server) = tokio::io::duplex(64);
        let (mut listening, bench) = Listening::to(server);
        let (benched, _inside) = benched().await;
        bench.take(benched);
        let reading = tokio::spawn(async move { listening.read_exact(&mut [0; 4]).await.is_ok() });
        sleep(COME_BACK_AFTER).await;
        client.write_all(b"late").await.unwrap();
        assert!(reading.await.unwrap());
        assert!(!bench.was_early());
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_early_is_told_to_come_later_and_who_is_not_early_again_is_not() {
        let (mut client, server) = tokio::io::duplex(64);
        let (mut listening, bench) = Listening::to(server);
        let mut told = COME_BACK_AFTER;
        for is_early in [true, true, false, true] {
            let (benched, _inside) = benched().await;
            let begun = Instant::now();
            assert_eq!(bench.take(benched), told);
            if !is_early {
                let unheard = timeout(told, listening.read_u8()).await;
                assert!(unheard.is_err(), "{unheard:?}");
            }
            client.write_all(b"again").await.unwrap();
            listening.read_exact(&mut [0; 5]).await.unwrap();
            let heard_within = told.mul_f64(ON_THE_BENCH.start)..told;
            assert!(heard_within.contains(&begun.elapsed()) || !is_early);
            assert_eq!(bench.was_early(), is_early);
            told = if is_early { COME_BACK_AFTER_IF_EARLY } else { COME_BACK_AFTER };
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pipelined_request_is_told_no_sooner_than_the_connection_is_heard() {
        let (_client, server) = tokio::io::duplex(64);
        let (_listening, bench) = Listening::to(server);
        let ((first, _inside), (second, _there)) = (benched().await, benched().await);
        assert_eq!(bench.take(first), COME_BACK_AFTER);
        assert_eq!(bench.take(second), COME_BACK_AFTER_IF_EARLY);
    }

    #[tokio::test(start_paused = true)]
    async fn when_there_is_room_it_is_listened_to_at_once() {
        let (mut client, server) = tokio::io::duplex(64);
        let (mut listening, bench) = Listening::to(server);
        let (benched, inside) = benched().await;
        let told = Instant::now();
        bench.take(benched);
        client.write_all(b"early").await.unwrap();
        drop(inside);
        let mut heard = [0; 5];
        listening.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"early");
        assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
        assert!(bench.was_early());
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_leaves_at_once() {
        let (client, server) = tokio::io::duplex(64);
        let (mut listening, bench) = Listening::to(server);
        let (benched, _inside) = benched().await;
        let told = Instant::now();
        bench.take(benched);
        drop(client);
        assert_eq!(listening.read(&mut [0; 5]).await.unwrap(), 0);
        assert_eq!(told.elapsed(), Duration::ZERO);
        assert!(!bench.is_taken() && !bench.was_early());
    }

    /// A server that refuses once and does not listen then, and that is told to stop.
    #[tokio::test(start_paused = true)]
    async fn the_end_does_not_wait_for_who_is_not_listened_to() {
        let (mut client, server) = tokio::io::duplex(1024);
        let (listening, bench) = Listening::to(server);
        let (benched, _inside) = benched().await;
        let benched = Mutex::new(Some(benched));
        let refuse = service_fn(async |_| {
            bench.take(benched.lock().unwrap().take().unwrap());
            Ok::<_, Infallible>(Response::new(String::new()))
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(listening), refuse);
        tokio::pin!(connection);
        client.write_all(b"GET / HTTP/1.1\r\nhost: s\r\n\r\n").await.unwrap();
        let told = Instant::now();
        assert!(connection.as_mut().now_or_never().is_none());
        assert!(bench.is_taken());
        connection.as_mut().graceful_shutdown();
        connection.await.unwrap();
        assert_eq!(told.elapsed(), Duration::ZERO);
    }
}
