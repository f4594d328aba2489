//! A port of loopback where nobody listens, as long as a test needs it.

use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::net::TcpSocket;

/// It is taken, so nobody else is given it; and nobody listens, so a connection is refused.
#[derive(Debug)]
pub struct ClosedPort {
    pub number: u16,
    _taken: TcpSocket,
}

impl ClosedPort {
    /// By both loopback addresses, where the machine has both.
    pub fn take() -> Self {
        let both = TcpSocket::new_v6().and_then(|socket| {
            socket.bind((Ipv6Addr::UNSPECIFIED, 0).into())?;
            Ok(socket)
        });
        let socket = both.unwrap_or_else(|_| {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            socket
        });
        Self { number: socket.local_addr().unwrap().port(), _taken: socket }
    }
}
