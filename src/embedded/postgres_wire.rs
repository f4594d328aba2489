//! Just enough of PostgreSQL's protocol to know that a server answers, and to
//! create one database: a start-up packet, one simple query. The keeper is
//! synchronous, and `psql` is not installed everywhere the server is.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

const PROTOCOL_3_0: u32 = 196_608;
const MESSAGE_MAX: usize = 1 << 20;

/// Why the conversation did not end in "ready for query".
#[derive(Debug)]
pub(super) enum Refusal {
    /// No server, no answer in time, or not PostgreSQL.
    Io(io::Error),
    /// The server said no.
    Server {
        /// Five characters, for example `3D000`: no such database.
        sqlstate: String,
        message: String,
    },
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Connects as `postgres` to `database` and, when given, runs `sql`.
/// Every read waits at most `patience`.
pub(super) fn converse(
    socket: &Path,
    database: &str,
    sql: Option<&str>,
    patience: Duration,
) -> Result<(), Refusal> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let start = [
        &PROTOCOL_3_0.to_be_bytes()[..],
        b"user\0postgres\0database\0",
        database.as_bytes(),
        b"\0\0",
    ]
    .concat();
    stream.write_all(&with_length(&start))?;
    until_ready(&mut stream)?;
    if let Some(sql) = sql {
        stream.write_all(b"Q")?;
        stream.write_all(&with_length(&[sql.as_bytes(), b"\0"].concat()))?;
        until_ready(&mut stream)?;
    }
    // Terminate; whether it arrives does not matter, the stream closes anyway.
    let _ = stream.write_all(b"X\0\0\0\x04");
    Ok(())
}

fn with_length(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], body].concat()
}

/// Reads messages until `ReadyForQuery` or the first error.
fn until_ready(stream: &mut UnixStream) -> Result<(), Refusal> {
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if !(4..=MESSAGE_MAX).contains(&length) {
            return Err(io::Error::from(io::ErrorKind::InvalidData).into());
        }
        let mut body = vec![0; length - 4];
        stream.read_exact(&mut body)?;
        match head[0] {
            b'Z' => return Ok(()),
            b'E' => {
                return Err(Refusal::Server {
                    sqlstate: field(&body, b'C'),
                    message: field(&body, b'M'),
                });
            }
            b'R' if body != [0; 4] => {
                return Err(io::Error::other("the server asks for a password").into());
            }
            _ => {}
        }
    }
}

/// One field of an `ErrorResponse`: a type byte and a string, again and again.
fn field(body: &[u8], kind: u8) -> String {
    body.split(|byte| *byte == 0)
        .find_map(|field| field.strip_prefix(&[kind]))
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_an_error_are_told_apart() {
        let body = b"SFATAL\0C3D000\0Mdatabase \"seckill\" does not exist\0\0";
        assert_eq!(field(body, b'C'), "3D000");
        assert_eq!(field(body, b'M'), "database \"seckill\" does not exist");
        assert_eq!(field(body, b'X'), "");
    }
}
