//! The PostgreSQL handle: one pool for purchases, and a small one for everything else, so that no
//! reader takes a connection from a buyer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sqlx::postgres::{PgConnectOptions, PgPool};
use tokio::time::timeout;

use super::connecting::{PoolKind, pool};
use super::distribution::{self, Distribution, DistributionError};
use super::durability::{DatabaseDurability, DurabilityCheck};
use super::node_name::{NodeName, PROGRAM};
use super::session::{self, DatabaseSession};
use super::source::{AddressSource, differ};
use super::statements::{OUTAGE, Work};
use super::step_turns::{
    BUYERS_STEPS_OF_A_VOUCHER, NOTICES_OF_A_VOUCHER, STEPS_OF_A_VOUCHER, StepPool, StepTurn,
};
use super::{StoreError, pooler};
use crate::model::VoucherId;

pub use super::connecting::CONNECTIONS;
pub use super::source::{UrlFile, supported};

/// How long a handle that is closed waits for what is under way. Purchases have ended before.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Connections to PostgreSQL. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Database {
    purchases: PgPool,
    others: PgPool,
    steps: StepPool,
    buyers_steps: StepPool,
    durability: DurabilityCheck,
    node: Option<Arc<NodeName>>,
    source: Arc<AddressSource>,
    /// What the source said first: the process uses this database until it ends.
    first_address: Arc<PgConnectOptions>,
}

impl Database {
    /// A handle that connects when it is first used.
    ///
    /// # Errors
    /// `Defect` when `url` is not a PostgreSQL URL.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        Self::at(AddressSource::new(url, None, PROGRAM.to_owned()), None)
    }

    /// The handle of a server process: its connections carry the name of `node`. A `file` with the URL is read again
    /// while the process lives.
    pub fn of_node(url: &str, file: Option<UrlFile>, node: NodeName) -> Result<Self, StoreError> {
        Self::at(AddressSource::new(url, file, node.to_string()), Some(node))
    }

    fn at(source: AddressSource, node: Option<NodeName>) -> Result<Self, StoreError> {
        let durability = DurabilityCheck::default();
        let first_address = Arc::new(source.address()?);
        // Until `find_pooler` knows better.
        let options = pooler::with_settings((*first_address).clone());
        let purchases = pool(PoolKind::Purchases, options.clone(), &durability);
        let others = pool(PoolKind::Others, options.clone(), &durability);
        let step_pool = |options| StepPool::new(pool(PoolKind::Steps, options, &durability));
        let steps = step_pool(options.clone());
        let buyers_steps = step_pool(options);
        Ok(Self {
            purchases,
            others,
            steps,
            buyers_steps,
            durability,
            node: node.map(Arc::new),
            source: Arc::new(source),
            first_address,
        })
    }

    /// Finds out whether a connection pooler stands before the server: from then on, every piece of work is
    /// a transaction with its own settings. Then there is a first connection, however long it takes to make one.
    pub(super) async fn find_pooler(&self) -> Result<(), StoreError> {
        let address = (*self.first_address).clone();
        if pooler::is_at(&address).await? {
            tracing::info!("PostgreSQL is behind a connection pooler");
            self.durability.expect_pooler();
            self.connect_by(&address);
        } else {
            self.connect_by(&pooler::with_settings(address));
        }
        drop(self.others.acquire().await?);
        Ok(())
    }

    fn pools(&self) -> [&PgPool; 4] {
        [&self.purchases, &self.others, self.steps.pool(), self.buyers_steps.pool()]
    }

    fn connect_by(&self, options: &PgConnectOptions) {
        for pool in self.pools() {
            pool.set_connect_options(options.clone());
        }
    }

    /// Reads the user and the password again, from where they are kept, if they may have changed: from then on
    /// connections are made with what stands there now. Another server, database or schema is for the next start: a
    /// process that sells from two of them sells what one of them has twice.
    pub fn read_address_again(&self) {
        if !self.source.is_file() && !OUTAGE.is_on() {
            return;
        }
        let Some(address) = self.source.newest_beside(&self.first_address) else { return };
        let is_pooled = self.is_behind_pooler();
        let options = if is_pooled { address } else { pooler::with_settings(address) };
        if differ(&options, &self.others.connect_options()) {
            tracing::info!("PostgreSQL has another user or password: new connections use it");
            self.connect_by(&options);
        }
    }

    /// Whether what stands there now is not what this handle was made with.
    pub fn names_another_address(&self) -> bool {
        self.source.address().is_ok_and(|address| differ(&address, &self.first_address))
    }

    /// Connects once, to say in the log why the server cannot be reached now, where that is not what was said last.
    pub async fn tell_why_away(&self) {
        // Where it cannot be used, `read_address_again` has told so.
        let Ok(address) = self.source.leading_to(&self.first_address) else { return };
        if let Err(error) = pooler::is_at(&address).await {
            OUTAGE.is_now(&error);
        }
    }

    /// Whether a connection pooler was found before the server.
    pub fn is_behind_pooler(&self) -> bool {
        pooler::is_at_end_of(&self.others.connect_options())
    }

    /// Opens all connections of this process, as far as they can be had at once, and says whether they could.
    /// Behind a pooler that keeps a session for each, and has fewer, the last ones would wait for ever.
    pub async fn has_all_connections(&self) -> bool {
        let one_of_each = join_all(self.pools().map(PgPool::acquire)).await;
        // Where there are too few, no pool is left without any.
        if one_of_each.iter().any(Result::is_err) {
            return false;
        }
        drop(one_of_each);
        let all = self.pools().map(|pool| {
            let count = pool.options().get_max_connections();
            join_all((0..count).map(|_| pool.acquire()))
        });
        // Each is held until the last one is there, or `CONNECTED_WITHIN` is over.
        join_all(all).await.iter().flatten().all(Result::is_ok)
    }

    /// From now on warns of a server that runs with `fsync` or `full_page_writes` off, and with
    /// `required` does not connect to one.
    pub fn watch_durability(&self, required: bool) {
        self.durability.watch(required);
    }

    /// What the newest connection was told.
    pub fn durability(&self) -> DatabaseDurability {
        self.durability.found()
    }

    /// The name of the server process whose handle this is.
    pub fn node(&self) -> Option<&NodeName> {
        self.node.as_deref()
    }

    /// The pool for statements outside a purchase.
    pub fn pool(&self) -> &PgPool {
        &self.others
    }

    /// The pool for what may wait for the row of a voucher, outside a purchase, for a process that takes one step.
    pub fn steps(&self) -> &PgPool {
        self.steps.pool()
    }

    /// The same for a step of `voucher`, when it is its turn.
    ///
    /// # Errors
    /// `Unavailable` when others of this voucher, before it, take too long.
    pub async fn steps_of(&self, voucher: VoucherId) -> Result<StepTurn, StoreError> {
        self.steps.turn_of(voucher, STEPS_OF_A_VOUCHER).await
    }

    /// The same for what the payment gateway says of `voucher`, which may come as a burst.
    ///
    /// # Errors
    /// As [`Database::steps_of`].
    pub async fn notices_of(&self, voucher: VoucherId) -> Result<StepTurn, StoreError> {
        self.steps.turn_of(voucher, NOTICES_OF_A_VOUCHER).await
    }

    /// The same for the steps that buyers take.
    ///
    /// # Errors
    /// As [`Database::steps_of`].
    pub async fn buyers_steps_of(&self, voucher: VoucherId) -> Result<StepTurn, StoreError> {
        self.buyers_steps.turn_of(voucher, BUYERS_STEPS_OF_A_VOUCHER).await
    }

    /// The pool that purchases have to themselves.
    pub fn purchases(&self) -> &PgPool {
        &self.purchases
    }

    /// Runs `work` of a purchase, whole statements, on a connection of its own. The
    /// connection is closed when `work` is dropped half-way, and after each failure that is not about this request alone.
    ///
    /// # Errors
    /// `Unavailable` without a connection; what `work` returns.
    pub async fn run<T>(
        &self,
        work: impl AsyncFnOnce(&mut DatabaseSession) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        Work::statement(&self.purchases).unbounded().run_or_refuse(work).await
    }

    /// Distributes the data over the workers of Citus. Safe from several processes at once.
    ///
    /// # Errors
    /// `NotPrepared` with what is missing.
    pub async fn distribute(&self) -> Result<Distribution, DistributionError> {
        if self.is_behind_pooler() {
            return Err(DistributionError::NotPrepared(
                "connect to the coordinator itself, not to a connection pooler before it"
                    .to_owned(),
            ));
        }
        // Its settings are not for others: the connection is closed.
        let mut connection = self.others.acquire().await?.detach();
        distribution::run(&mut connection).await
    }

    /// Whether the server answers and takes writes, on a connection for purchases: readers cannot make it look away.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let query = sqlx::query_scalar("select current_setting('transaction_read_only') = 'on'");
        // A session keeps what it began with: one that takes no writes is closed.
        let ask = async |session: &mut DatabaseSession| match query.fetch_one(session).await {
            Ok(true) => Err(StoreError::read_only()),
            answer => Ok(answer.map(|_| ())?),
        };
        let answers = OUTAGE.answers();
        let answer = Work::statement(&self.purchases).run_or_refuse(ask).await;
        if OUTAGE.observe_ping(&answer, answers) {
            session::end_those_before_now(&self.purchases.connect_options());
        }
        answer
    }

    /// Closes the connections, waiting a moment for those in use.
    pub async fn close(&self) {
        // Without a limit it would wait, for minutes, for its own attempts to reach a server that is gone.
        let all = join_all(self.pools().map(PgPool::close));
        let _ = timeout(CLOSE_TIMEOUT, all).await;
    }
}
