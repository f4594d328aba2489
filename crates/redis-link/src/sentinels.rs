//! How the master is found that sentinels watch.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::select_ok;
use redis::{ErrorKind, RedisConnectionInfo, RedisResult, Role, ServerErrorKind};

use super::error::BoxedCause;
use super::link::ServerLogin;
use super::renewal::Renewal;
use super::slots::Address;

/// Some sentinels, and what they are asked for.
pub(super) struct Sentinels {
    servers: Vec<ServerLogin>,
    name: String,
    /// User, password and number of the master's database.
    login: RedisConnectionInfo,
    renewal: Option<Renewal>,
    /// The address that they announced last. This client may not reach the master there.
    announced: Mutex<Option<Address>>,
}

impl std::fmt::Display for Sentinels {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.announced() {
            Some(Address { host, port }) => {
                write!(formatter, "{host}:{port}, which the sentinels announce as the master")
            }
            None => formatter.write_str("the sentinels"),
        }
    }
}

impl Sentinels {
    pub(super) fn new(
        servers: Vec<ServerLogin>,
        name: String,
        login: RedisConnectionInfo,
        renewal: Option<Renewal>,
    ) -> Self {
        Self { servers, name, login, renewal, announced: Mutex::default() }
    }

    fn announced(&self) -> MutexGuard<'_, Option<Address>> {
        self.announced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The master, as the first of them knows it whose master says that it is one: in a
    /// failover some are late, and some are cut off with a master that is none any more.
    pub(super) async fn master(&self) -> Result<ServerLogin, BoxedCause> {
        *self.announced() = None;
        // All at once: one that is silent must not use up the others' time.
        let asked = self.servers.iter().map(|one| Box::pin(self.master_of(one)));
        select_ok(asked).await.map(|(master, _)| master)
    }

    async fn master_of(&self, sentinel: &ServerLogin) -> Result<ServerLogin, BoxedCause> {
        let renewed = self.renewal.as_ref().map(|renewal| renewal.renewed(&self.login));
        let login = renewed.unwrap_or_else(|| self.login.clone());
        let answer = match self.ask(sentinel).await? {
            Err(error) if error.code() == Some("NOAUTH") && login.password().is_some() => {
                self.ask(&sentinel.with(login.clone().set_db(0))).await?
            }
            answer => answer,
        };
        let Some((host, port)) = answer.map_err(|error| sentinel.said(error))? else {
            return Err(format!("the sentinels know no master {:?}", self.name).into());
        };
        let address = Address::new(&host, port);
        *self.announced() = Some(address.clone());
        let master = sentinel.at(&address).with(login);
        let mut link = master.link().await?;
        match redis::cmd("ROLE").query_async(&mut link.connection).await {
            Ok(Role::Primary { .. }) => Ok(master),
            Ok(_) => Err(format!("{host}:{port} is not the master (any more, or yet)").into()),
            // A user may well not be allowed to ask. A replica that is written to says so.
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm) => Ok(master),
            Err(error) => Err(master.said(error).into()),
        }
    }

    async fn ask(
        &self,
        sentinel: &ServerLogin,
    ) -> Result<RedisResult<Option<(String, u16)>>, BoxedCause> {
        let mut link = sentinel.link().await?;
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        Ok(question.query_async(&mut link.connection).await)
    }
}
