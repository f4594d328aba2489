//! Waking up in time. The arrivals of an open load are fractions of a millisecond apart, and
//! on Linux mio waits for whole milliseconds only. Elsewhere its own time-out is as good.

use std::io;
use std::time::Duration;

use mio::{Registry, Token};

#[cfg(target_os = "linux")]
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// A timer that is one of the things that are waited for.
pub(super) struct Alarm {
    #[cfg(target_os = "linux")]
    timer: TimerFd,
}

#[cfg(target_os = "linux")]
impl Alarm {
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        use std::os::fd::{AsFd, AsRawFd};
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        let descriptor = timer.as_fd().as_raw_fd();
        let mut source = mio::unix::SourceFd(&descriptor);
        registry.register(&mut source, token, mio::Interest::READABLE)?;
        Ok(Self { timer })
    }

    /// Sets it to go off after `pause`, and returns the time-out for the waiting beside it.
    /// It is never read: being set again is what makes its going off news again.
    pub(super) fn set(&self, pause: Duration) -> io::Result<Duration> {
        let once = Expiration::OneShot(pause.into());
        self.timer.set(once, TimerSetTimeFlags::empty())?;
        Ok(pause + Duration::from_millis(1))
    }
}

#[cfg(not(target_os = "linux"))]
impl Alarm {
    pub(super) fn new(_registry: &Registry, _token: Token) -> io::Result<Self> {
        Ok(Self {})
    }

    /// Returns the time-out for a waiting of `pause`.
    pub(super) fn set(&self, pause: Duration) -> io::Result<Duration> {
        Ok(pause)
    }
}
