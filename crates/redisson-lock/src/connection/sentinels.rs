//! How the master is found that sentinels watch.

use futures_util::future::select_ok;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisConnectionInfo,
    RedisResult, Role, ServerErrorKind,
};

use super::error::BoxedCause;

/// Some sentinels, and what they are asked for.
#[derive(Debug, Clone)]
pub(super) struct Sentinels {
    addresses: Vec<ConnectionInfo>,
    name: String,
    /// User, password and number of the master's database.
    login: RedisConnectionInfo,
}

impl Sentinels {
    pub(super) fn new(
        addresses: Vec<ConnectionInfo>,
        name: &str,
        login: RedisConnectionInfo,
    ) -> Self {
        Self { addresses, name: name.to_owned(), login }
    }

    /// The master, as the first of them knows it whose master says that it is one: in a
    /// failover some are late, and some are cut off with a master that is none any more.
    pub(super) async fn master(
        &self,
        config: &AsyncConnectionConfig,
    ) -> Result<Client, BoxedCause> {
        // All at once: one that is silent must not use up the others' time.
        let asked = self.addresses.iter().map(|one| Box::pin(self.master_of(one, config)));
        select_ok(asked).await.map(|(master, _)| master)
    }

    async fn master_of(
        &self,
        sentinel: &ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> Result<Client, BoxedCause> {
        let answer = match self.ask(sentinel.clone(), config).await {
            Err(error) if error.code() == Some("NOAUTH") && self.login.password().is_some() => {
                let login = self.login.clone().set_db(0);
                self.ask(sentinel.clone().set_redis_settings(login), config).await
            }
            answer => answer,
        };
        let Some((host, port)) = answer? else {
            return Err(format!("the sentinels know no master {:?}", self.name).into());
        };
        let address = format!("{host}:{port}");
        let info = sentinel.clone().set_addr(ConnectionAddr::Tcp(host, port));
        let info = info.set_redis_settings(self.login.clone()).set_tcp_settings(tcp_settings());
        let master = Client::open(info)?;
        let mut connection = master.get_multiplexed_async_connection_with_config(config).await?;
        match redis::cmd("ROLE").query_async(&mut connection).await {
            Ok(Role::Primary { .. }) => Ok(master),
            Ok(_) => Err(format!("{address} is not the master (any more, or yet)").into()),
            // A user may well not be allowed to ask. A replica that is written to says so.
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm) => Ok(master),
            Err(error) => Err(error.into()),
        }
    }

    async fn ask(
        &self,
        sentinel: ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<Option<(String, u16)>> {
        let client = Client::open(sentinel)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(config).await?;
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        question.query_async(&mut connection).await
    }

    #[cfg(test)]
    pub(super) fn addresses(&self) -> &[ConnectionInfo] {
        &self.addresses
    }

    #[cfg(test)]
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    #[cfg(test)]
    pub(super) fn login(&self) -> &RedisConnectionInfo {
        &self.login
    }
}

/// Requests are small, and a task waits for each.
pub(super) fn tcp_settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}
