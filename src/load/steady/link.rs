//! One connection of a steady load, which never blocks: what it does when its socket is
//! ready.
//!
//! Not hyper's client, and no task of an asynchronous runtime: on a machine that the
//! generator shares with the server, what the generator takes is missing from what it
//! measures. A request costs one `write` and one `read`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use super::answer::{self, Answer, CodeIndex, Codes};
use super::tally::Timing;
use crate::load::connection::{CONNECT_TIMEOUT, FIRST_CONNECT_PAUSE};

/// The longest pause between two attempts to connect again.
const MAX_CONNECT_PAUSE: Duration = Duration::from_secs(1);

/// One connection, or the place of one that broke.
pub(super) struct Link {
    pub(super) node: usize,
    address: SocketAddr,
    token: Token,
    state: State,
    /// What has come of an answer that is not whole; mostly nothing ever.
    partial: Vec<u8>,
    /// What is still to be written of a request; mostly nothing ever.
    unwritten: Vec<u8>,
    /// Attempts to connect since the last answer.
    tries: u32,
}

enum State {
    Idle(TcpStream),
    /// A request was handed to the operating system, or a part of it.
    Asked(TcpStream, Timing),
    /// Waits for the connection until then.
    Connecting(TcpStream, Duration),
    /// Tries to connect then.
    Down(Duration),
}

/// What came of a readiness.
pub(super) enum Happened {
    /// Nothing to speak of.
    Nothing,
    /// It can be asked, and could not before.
    Connected,
    /// The answer came, and whether the connection can be asked again.
    Answered { timing: Timing, code: CodeIndex, is_kept: bool },
    /// It broke, under a request when there is a timing.
    Broke(Option<Timing>),
}

impl Link {
    /// A connection that is already open.
    pub(super) fn open(
        node: usize,
        token: Token,
        mut stream: TcpStream,
        registry: &Registry,
    ) -> io::Result<Self> {
        let address = stream.peer_addr()?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let state = State::Idle(stream);
        Ok(Self { node, address, token, state, partial: vec![], unwritten: vec![], tries: 0 })
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle(_))
    }

    /// The request under way.
    pub(super) fn asked(&self) -> Option<Timing> {
        if let State::Asked(_, timing) = &self.state { Some(*timing) } else { None }
    }

    /// Sends `request` over the idle connection. When it returns `false`, nothing of it has
    /// left, and the connection is of no use.
    pub(super) fn ask(&mut self, request: &[u8], timing: Timing) -> bool {
        let State::Idle(mut stream) = self.take_state() else { return false };
        let written = match write(&mut stream, request) {
            Ok(written) => written,
            Err(_broken) => return false,
        };
        self.partial.clear();
        self.unwritten.clear();
        self.unwritten.extend_from_slice(&request[written..]);
        self.state = State::Asked(stream, timing);
        true
    }

    /// The socket is ready; for what, it is asked itself, unless `is_ending` says that the other
    /// side has no more to say.
    pub(super) fn on_ready(
        &mut self,
        is_ending: bool,
        buffer: &mut [u8],
        codes: &mut Codes,
    ) -> Happened {
        match &mut self.state {
            State::Down(_) => Happened::Nothing,
            State::Connecting(stream, _) => match is_connected(stream) {
                Ok(false) => Happened::Nothing,
                Ok(true) => {
                    if let State::Connecting(stream, _) = self.take_state() {
                        self.state = State::Idle(stream);
                    }
                    Happened::Connected
                }
                Err(_refused) => Happened::Broke(None),
            },
            // The end, or what nobody asked for. That it can be written to is the news of a
            // connection that was just opened.
            State::Idle(stream) => match stream.read(buffer) {
                Err(error) if is_passing(&error) => Happened::Nothing,
                Ok(_) | Err(_) => Happened::Broke(None),
            },
            State::Asked(..) => self.go_on(is_ending, buffer, codes),
        }
    }

    /// Writes what is left to write and reads what there is to read.
    fn go_on(&mut self, is_ending: bool, buffer: &mut [u8], codes: &mut Codes) -> Happened {
        let State::Asked(stream, timing) = &mut self.state else { return Happened::Nothing };
        let timing = *timing;
        if !self.unwritten.is_empty() {
            match write(stream, &self.unwritten) {
                Ok(written) => drop(self.unwritten.drain(..written)),
                Err(_broken) => return Happened::Broke(Some(timing)),
            }
        }
        loop {
            let read = match stream.read(buffer) {
                Ok(0) => return Happened::Broke(Some(timing)),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_passing(&error) => return Happened::Nothing,
                Err(_broken) => return Happened::Broke(Some(timing)),
            };
            let bytes = if self.partial.is_empty() {
                &buffer[..read]
            } else {
                self.partial.extend_from_slice(&buffer[..read]);
                &self.partial
            };
            match answer::read(bytes) {
                Answer::Partial if self.partial.is_empty() => {
                    self.partial.extend_from_slice(&buffer[..read]);
                }
                Answer::Partial => {}
                Answer::Garbage => return Happened::Broke(Some(timing)),
                Answer::Whole { status, is_problem, body, is_kept } => {
                    let code = codes.of(status, is_problem, body);
                    let is_kept = is_kept && !is_ending && self.unwritten.is_empty();
                    if let State::Asked(stream, _) = self.take_state() {
                        self.state = State::Idle(stream);
                    }
                    self.tries = 0;
                    return Happened::Answered { timing, code, is_kept };
                }
            }
            // A read that does not fill the buffer has emptied the socket, and whatever comes
            // later is news of its own. The end may be no news any more.
            if read < buffer.len() && !is_ending {
                return Happened::Nothing;
            }
        }
    }

    /// Closes the connection, whatever it is in the middle of, and sets about opening
    /// another: at once when this one has ever answered, after a growing pause otherwise.
    pub(super) fn reopen(&mut self, now: Duration, registry: &Registry) {
        self.state = State::Down(now + self.pause());
        self.look(now, registry);
    }

    fn pause(&self) -> Duration {
        match self.tries {
            0 => Duration::ZERO,
            tries => (FIRST_CONNECT_PAUSE * (1 << (tries - 1).min(8))).min(MAX_CONNECT_PAUSE),
        }
    }

    /// Connects when it is time to, and gives up an attempt that takes too long.
    pub(super) fn look(&mut self, now: Duration, registry: &Registry) {
        match self.state {
            State::Connecting(_, until) if until <= now => {
                self.state = State::Down(now + self.pause());
            }
            State::Down(at) if at <= now => {
                self.tries += 1;
                self.state = match self.connect(registry) {
                    Ok(stream) => State::Connecting(stream, now + CONNECT_TIMEOUT),
                    Err(_refused) => State::Down(now + self.pause()),
                };
            }
            _ => {}
        }
    }

    fn connect(&self, registry: &Registry) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        registry.register(&mut stream, self.token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(stream)
    }

    fn take_state(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Down(Duration::MAX))
    }
}

/// Writes what goes at once, and says how much. An error means that nothing went.
fn write(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match stream.write(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_passing(&error) => return Ok(0),
            written => return written,
        }
    }
}

/// Whether an attempt to connect has succeeded, has not ended yet, or has failed.
fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
