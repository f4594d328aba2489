//! What axum never does on a connection, in front of a shop.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::load_servers::head;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Each answer comes in chunks.
    Chunked,
    /// HTTP/1.0 without a length: the end of the connection is the end of the answer.
    Http10,
    /// The connection of user 7 is closed.
    Closes,
    /// The shop is gone as soon as user 7 buys.
    Dies,
}

impl Wire {
    /// Opens such a front of the shop with this address.
    pub(crate) async fn before(self, shop: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut connections, death) = (JoinSet::new(), Arc::new(Notify::new()));
            loop {
                let stream = tokio::select! {
                    () = death.notified() => return,
                    Ok((stream, _)) = listener.accept() => stream,
                };
                connections.spawn(self.pass(stream, shop, Arc::clone(&death)));
            }
        });
        address
    }

    /// Passes requests on until one side closes the connection.
    async fn pass(self, outside: TcpStream, shop: SocketAddr, death: Arc<Notify>) -> Option<()> {
        let inside = TcpStream::connect(shop).await.ok()?;
        let (mut outside, mut inside) = (BufReader::new(outside), BufReader::new(inside));
        loop {
            let (head, body) = message(&mut outside).await?;
            let is_seven = head.starts_with("POST /buy/") && head.contains("\r\nuser: 7\r\n");
            match self {
                Self::Closes if is_seven => return None,
                Self::Dies if is_seven => {
                    death.notify_one();
                    return pending().await;
                }
                _ => inside.write_all((head + &body).as_bytes()).await.ok()?,
            }
            let (head, body) = message(&mut inside).await?;
            outside.write_all(self.written(head, &body).as_bytes()).await.ok()?;
            if self == Self::Http10 {
                outside.shutdown().await.ok()?;
                return None;
            }
        }
    }

    fn written(self, head: String, body: &str) -> String {
        let status = head.split(' ').nth(1).unwrap_or_default();
        match self {
            Self::Chunked => {
                let (first, rest) = body.split_at(body.len() / 2);
                let chunks = [first, rest].into_iter().filter(|it| !it.is_empty());
                let chunks = chunks.map(|it| format!("{:x}\r\n{it}\r\n", it.len()));
                let head = format!("HTTP/1.1 {status} X\r\ntransfer-encoding: chunked\r\n\r\n");
                head + &chunks.collect::<String>() + "0\r\n\r\n"
            }
            Self::Http10 => format!("HTTP/1.0 {status} X\r\n\r\n{body}"),
            _ => head + body,
        }
    }
}

/// The head and the body of a request or an answer; `None` at the end of the connection.
async fn message(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let head = head(stream).await?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(Ok(0), str::parse).ok()?];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, String::from_utf8(body).ok()?))
}
