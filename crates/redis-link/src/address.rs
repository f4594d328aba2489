//! Where a server is, and the connection to it.

use super::error::BoxedCause;
use super::link::{Link, ServerLogin};
use super::sentinels::Sentinels;

/// Where a server is.
pub(super) enum ServerAddress {
    /// This one.
    Fixed(Box<ServerLogin>),
    /// Wherever the master is: the sentinels are asked anew for each connection.
    Elected(Sentinels),
}

impl std::fmt::Display for ServerAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(login) => write!(formatter, "{}", login.info.addr()),
            Self::Elected(sentinels) => sentinels.fmt(formatter),
        }
    }
}

impl ServerAddress {
    pub(super) async fn login(&self) -> Result<ServerLogin, BoxedCause> {
        match self {
            Self::Fixed(login) => Ok((**login).clone()),
            Self::Elected(sentinels) => sentinels.master().await,
        }
    }

    pub(super) async fn link(&self) -> Result<Link, BoxedCause> {
        self.login().await?.link().await
    }
}
