//! HTTP as bytes, for requests that no proper client sends.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::wait::PATIENCE;

/// A connection.
pub struct Raw(pub BufReader<TcpStream>);

/// One answer.
#[derive(Debug)]
pub struct RawAnswer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl RawAnswer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub const HEALTHZ: &str = "GET /healthz HTTP/1.1\r\nhost: s\r\n\r\n";

impl Raw {
    pub async fn connect(address: SocketAddr) -> Self {
        Self(BufReader::new(TcpStream::connect(address).await.unwrap()))
    }

    /// From 127.0.0.`last`.
    pub async fn connect_from(last: u8, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, last], 0).into()).unwrap();
        Self(BufReader::new(socket.connect(address).await.unwrap()))
    }

    /// A connection on which this was sent.
    pub async fn sent(address: SocketAddr, bytes: impl AsRef<[u8]>) -> Self {
        let mut raw = Self::connect(address).await;
        raw.send(bytes).await;
        raw
    }

    /// Sends a request, which must be answered.
    pub async fn ask(&mut self, request: impl AsRef<[u8]>) -> RawAnswer {
        self.send(request).await;
        self.answer().await.expect("the connection was closed without an answer")
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = timeout(PATIENCE, self.0.write_all(bytes.as_ref())).await;
        sent.expect("the server does not read").unwrap();
    }

    /// The next answer; `None` when the connection ends first.
    pub async fn answer(&mut self) -> Option<RawAnswer> {
        let read = timeout(PATIENCE, self.read_answer(true)).await;
        read.expect("the server does not answer")
    }

    /// The next answer, to a HEAD: the length that it tells is not that of a body.
    pub async fn answer_to_head(&mut self) -> Option<RawAnswer> {
        let read = timeout(PATIENCE, self.read_answer(false)).await;
        read.expect("the server does not answer")
    }

    async fn read_answer(&mut self, with_body: bool) -> Option<RawAnswer> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match self.0.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(error) if head.is_empty() => {
                    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{error}");
                    return None;
                }
                Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&head)),
            }
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.split("content-length: ").nth(1).map_or(0, |rest| {
            let digits = rest.split("\r\n").next().unwrap();
            digits.parse::<usize>().unwrap()
        });
        let mut body = vec![0; if with_body { length } else { 0 }];
        self.0.read_exact(&mut body).await.unwrap();
        Some(RawAnswer { status, head, body })
    }
}

/// The head of a purchase, with more header lines, each ending in CRLF.
pub fn purchase_head(token: &str, voucher: impl std::fmt::Display, more: &str) -> String {
    format!(
        "POST /api/vouchers/{voucher}/orders HTTP/1.1\r\nhost: seckill\r\n\
         authorization: Bearer {token}\r\n{more}\r\n"
    )
}
