//! One connection to one server, and how it is made.

use std::sync::Arc;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, ErrorKind, RedisConnectionInfo, Value,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::error::{BoxedCause, ServerSaid};
use super::renewal::Renewal;
use super::slots::Address;
use super::stream::{Written, connect};
use super::tls::Tls;

/// Where a server is, and how one gets in there.
#[derive(Clone)]
pub(super) struct ServerLogin {
    pub(super) info: ConnectionInfo,
    pub(super) tls: Option<Tls>,
    /// The source of user and password, if they may change.
    pub(super) renewal: Option<Renewal>,
}

/// A connection. Its clones are one: it ends with the last of them.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) connection: MultiplexedConnection,
    written: Written,
    /// Reads and writes. It ends when the server closes the connection, whether anybody asks or not.
    driver: Arc<AbortOnDropHandle<()>>,
    ended: CancellationToken,
}

impl Link {
    /// Whether the server has closed it.
    pub(super) fn has_ended(&self) -> bool {
        self.driver.is_finished()
    }

    /// Is done when it has ended, by whomever.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        self.ended.clone().cancelled_owned()
    }

    /// Grows with everything that is sent, by whomever.
    pub(super) fn written(&self) -> u64 {
        self.written.bytes()
    }
}

impl ServerLogin {
    /// Another server with the same login.
    pub(super) fn at(&self, address: &Address) -> Self {
        let address = ConnectionAddr::Tcp(address.host.clone(), address.port);
        Self { info: self.info.clone().set_addr(address), ..self.clone() }
    }

    /// The same server, by another login.
    pub(super) fn with(&self, settings: RedisConnectionInfo) -> Self {
        Self { info: self.info.clone().set_redis_settings(settings), ..self.clone() }
    }

    /// `None`: it is no address on a network.
    pub(super) fn address(&self) -> Option<Address> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) => Some(Address::new(host, *port)),
            _ => None,
        }
    }

    pub(super) async fn link(&self) -> Result<Link, BoxedCause> {
        self.link_with(config()).await
    }

    pub(super) async fn link_with(
        &self,
        config: AsyncConnectionConfig,
    ) -> Result<Link, BoxedCause> {
        let written = Written::default();
        let stream = connect(self.info.addr(), self.tls.as_ref(), &written).await?;
        let made = MultiplexedConnection::new_with_config(&self.settings(), stream, config).await;
        let (connection, driver) = match made {
            Err(error) if error.kind() == ErrorKind::AuthenticationFailed => {
                return Err(self.said(Box::pin(self.refusal(error)).await).into());
            }
            made => made?,
        };
        let ended = CancellationToken::new();
        let end = ended.clone().drop_guard();
        let driver = tokio::spawn(async move {
            let _end = end;
            driver.await;
        });
        let driver = Arc::new(AbortOnDropHandle::new(driver));
        let mut link = Link { connection, written, driver, ended };
        taken(redis::cmd("PING").exec_async(&mut link.connection).await)?;
        Ok(link)
    }

    /// Why the server does not take this login: the library does not say whether it was the password, or one client
    /// too many.
    async fn refusal(&self, error: redis::RedisError) -> redis::RedisError {
        let Ok(stream) = connect(self.info.addr(), self.tls.as_ref(), &Written::default()).await
        else {
            return error;
        };
        let nobody = RedisConnectionInfo::default().set_skip_set_lib_name();
        let made = MultiplexedConnection::new_with_config(&nobody, stream, config()).await;
        let Ok((mut connection, driver)) = made else { return error };
        let _driver = AbortOnDropHandle::new(tokio::spawn(driver));
        let settings = self.settings();
        let mut auth = redis::cmd("AUTH");
        auth.arg(settings.username()).arg(settings.password());
        auth.exec_async(&mut connection).await.err().unwrap_or(error)
    }

    pub(super) async fn pubsub(&self) -> Result<PubSub, BoxedCause> {
        let stream = connect(self.info.addr(), self.tls.as_ref(), &Written::default()).await?;
        let mut pubsub = PubSub::new(&self.settings(), stream).await?;
        taken(pubsub.ping::<Value>().await.map(drop))?;
        Ok(pubsub)
    }

    /// What the `redis` crate needs to connect by itself.
    pub(super) fn for_library(&self) -> ConnectionInfo {
        let info = self.info.clone().set_redis_settings(self.settings());
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        match (&self.tls, self.info.addr()) {
            (Some(tls), ConnectionAddr::Tcp(host, port)) => {
                info.set_addr(tls.for_library(host, *port))
            }
            _ => info,
        }
    }

    /// Without CLIENT SETINFO, which would be one more thing that a user must be allowed to do.
    fn settings(&self) -> RedisConnectionInfo {
        let settings = self.info.redis_settings();
        let renewed = self.renewal.as_ref().map(|renewal| renewal.renewed(settings));
        renewed.unwrap_or_else(|| settings.clone()).set_skip_set_lib_name()
    }

    /// The error, with the name of the server that answered so.
    pub(super) fn said(&self, cause: redis::RedisError) -> ServerSaid {
        ServerSaid { server: self.info.addr().to_string(), cause }
    }
}

/// Whether the server took the client in, by the answer to a first PING. With TLS 1.3 it turns a client away after the
/// client thinks that it is in: the first request would meet that, and its outcome be unknown. Any answer will do,
/// also that this user may not ask.
pub(super) fn taken(answer: redis::RedisResult<()>) -> redis::RedisResult<()> {
    match answer {
        Err(error) if is_broken(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether a connection that brought this is of no use any more.
pub(super) fn is_broken(error: &redis::RedisError) -> bool {
    error.is_unrecoverable_error() || error.is_connection_dropped()
}

/// Without the library's own time-outs, which are plain ones.
pub(super) fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None)
}
