//! Many servers, each of which serves some slots.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::select_ok;
use redis::FromRedisValue;

use super::address::ServerAddress;
use super::error::LinkError;
use super::link::ServerLogin;
use super::node::{Acknowledgement, Losses, RedisServer};
use super::request::{CONNECT_TIMEOUT, Request};
use super::slots::{Address, Range, Redirect, SLOTS, slot_of};
use super::subscriber::Subscriber;
use crate::timeout::within;

/// How often a request is sent on to yet another node: the one before has refused it, and done nothing.
const MAX_REDIRECTS: usize = 5;
/// How many are asked at once where one answer is enough: some may be down.
const MAX_ASKED: usize = 3;

/// The nodes of a cluster, and which of them serves which slot.
pub(super) struct Cluster {
    /// The nodes that the configuration names.
    seeds: Vec<Arc<Member>>,
    login: ServerLogin,
    table: RwLock<Table>,
    /// Whether something went wrong since the table was asked for.
    doubted: AtomicBool,
    asking: tokio::sync::Mutex<()>,
    losses: Losses,
}

pub(super) struct Member {
    address: Address,
    pub(super) node: RedisServer,
}

#[derive(Default)]
struct Table {
    /// By slot; empty before anybody was asked.
    owners: Vec<Option<Arc<Member>>>,
    members: HashMap<Address, Arc<Member>>,
}

/// Where a request goes.
struct Way {
    member: Arc<Member>,
    /// Whether the slot is only on its way there.
    asking: bool,
    redirects: usize,
}

impl Cluster {
    /// `None` when there are no seeds, or they have no address on a network.
    pub(super) fn new(seeds: &[ServerLogin], losses: &Losses) -> Option<Self> {
        let login = seeds.first()?.clone();
        let seed = |seed: &ServerLogin| Some(member(seed, &seed.address()?, losses));
        let seeds = seeds.iter().map(seed).collect::<Option<_>>()?;
        let (table, doubted, asking) = Default::default();
        Some(Self { seeds, login, table, doubted, asking, losses: losses.clone() })
    }

    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        request: impl Request,
        sending: impl FnOnce(u64),
    ) -> Result<T, LinkError> {
        let mut way = self.way(request.slot()).await?;
        let mut sending = Some(sending);
        loop {
            let told = |generation| _ = sending.take().map(|sending| sending(generation));
            match way.member.node.ask(request, way.asking, told).await {
                Ok(answer) => return Ok(answer),
                Err(error) => way = self.redirected(&way, error)?,
            }
        }
    }

    pub(super) async fn ask_acknowledged<T: FromRedisValue>(
        &self,
        request: impl Request,
        acknowledgement: Acknowledgement,
        sending: impl FnOnce(),
    ) -> Result<(T, usize), LinkError> {
        let mut way = self.way(request.slot()).await?;
        let mut sending = Some(sending);
        loop {
            let told = || _ = sending.take().map(|sending| sending());
            let node = &way.member.node;
            match node.ask_acknowledged(request, way.asking, acknowledgement, told).await {
                Ok(answer) => return Ok(answer),
                Err(error) => way = self.redirected(&way, error)?,
            }
        }
    }

    /// The node that serves the slot of a channel, as far as is known.
    pub(super) fn shard_of(&self, channel: &str) -> Option<Address> {
        let member = self.owner(slot_of(channel.as_bytes())).or_else(|| self.some_members().pop());
        member.or_else(|| self.seeds.first().cloned()).map(|member| member.address.clone())
    }

    /// A subscriber of both kinds of messages, at this node.
    pub(super) async fn subscriber(
        &self,
        address: &Address,
        limit: Duration,
    ) -> Result<Subscriber, LinkError> {
        self.member_at(address).node.shard_subscriber(limit).await
    }

    /// A subscription at this node was refused or lost: learns where the slots are now.
    pub(super) async fn subscription_lost(&self, address: &Address) {
        // A node that has lost a slot knows its new owner.
        if let Ok((speaker, ranges)) = slots_of(&[self.member_at(address)]).await
            && !ranges.is_empty()
        {
            return self.note(&speaker, ranges);
        }
        self.doubt();
        // What cannot be learned now the next command asks for again.
        let _ = self.learn().await;
    }

    fn member_at(&self, address: &Address) -> Arc<Member> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.members.get(address).cloned().unwrap_or_else(|| self.member(address))
    }

    fn member(&self, address: &Address) -> Arc<Member> {
        member(&self.login, address, &self.losses)
    }

    fn doubt(&self) {
        self.doubted.store(true, Ordering::Relaxed);
    }

    /// To the owner of the slot, or to anybody.
    async fn way(&self, slot: Option<u16>) -> Result<Way, LinkError> {
        if self.doubted.load(Ordering::Relaxed) || self.is_unknown() {
            self.learn().await?;
        }
        let member = match slot {
            Some(slot) => self.owner(slot),
            None => self.some_members().pop(),
        };
        let nobody = || {
            // Until somebody does.
            self.doubt();
            LinkError::unavailable(format!(
                "no node of the cluster serves slot {}",
                slot.unwrap_or(0)
            ))
        };
        Ok(Way { member: member.ok_or_else(nobody)?, asking: false, redirects: 0 })
    }

    /// Where to ask next after this error; the error, if that does not help.
    fn redirected(&self, way: &Way, error: LinkError) -> Result<Way, LinkError> {
        let redirect = match &error {
            LinkError::Unavailable(cause) => cause
                .downcast_ref::<redis::RedisError>()
                .and_then(|cause| Redirect::from_error(cause, &way.member.address.host)),
            _ => None,
        };
        let next = redirect.filter(|_| way.redirects < MAX_REDIRECTS).map(|redirect| {
            let (asking, redirects) = (!redirect.moved, way.redirects + 1);
            Way { member: self.follow(&redirect), asking, redirects }
        });
        next.ok_or_else(|| {
            if error.retry_may_help() {
                self.doubt();
            }
            error
        })
    }

    /// The member that a redirect names; notes what it says about the slot.
    fn follow(&self, redirect: &Redirect) -> Arc<Member> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let member = match table.members.get(&redirect.address) {
            Some(member) => Arc::clone(member),
            None => self.member(&redirect.address),
        };
        table.members.insert(redirect.address.clone(), Arc::clone(&member));
        if let Some(owner) = table.owners.get_mut(usize::from(redirect.slot))
            && redirect.moved
        {
            *owner = Some(Arc::clone(&member));
        }
        member
    }

    fn is_unknown(&self) -> bool {
        self.table.read().unwrap_or_else(PoisonError::into_inner).owners.is_empty()
    }

    fn owner(&self, slot: u16) -> Option<Arc<Member>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.owners.get(usize::from(slot))?.clone()
    }

    /// All that serve slots, in the order of their addresses.
    pub(super) async fn all_masters(&self) -> Result<Vec<Arc<Member>>, LinkError> {
        self.way(None).await?;
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let mut masters: Vec<_> = table.members.values().cloned().collect();
        masters.sort_by(|a, b| {
            (&a.address.host, a.address.port).cmp(&(&b.address.host, b.address.port))
        });
        Ok(masters)
    }

    fn some_members(&self) -> Vec<Arc<Member>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let count = table.members.len();
        // From anywhere in the list, so that not all clients ask the same ones. The standard library's hasher has
        // another key each time.
        let first = RandomState::new().build_hasher().finish() as usize % count.max(1);
        table.members.values().cycle().skip(first).take(count.min(MAX_ASKED)).cloned().collect()
    }

    /// Asks some nodes which of them serves what; one task asks for all.
    async fn learn(&self) -> Result<(), LinkError> {
        let asking = within(CONNECT_TIMEOUT, self.asking.lock()).await;
        let _asking = asking.map_err(LinkError::unavailable)?;
        if !self.doubted.load(Ordering::Relaxed) && !self.is_unknown() {
            return Ok(()); // another task has asked in the meantime
        }
        let mut answer = slots_of(&self.some_members()).await;
        if answer.is_err() {
            answer = slots_of(&self.seeds).await;
        }
        let (speaker, ranges) = answer?;
        // What goes wrong from here on, the node that answered did not know.
        self.doubted.store(false, Ordering::Relaxed);
        self.note(&speaker, ranges);
        Ok(())
    }

    fn note(&self, speaker: &Address, ranges: Vec<Range>) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let mut new = Table { owners: vec![None; SLOTS], members: HashMap::new() };
        for range in ranges {
            let host = range.host.unwrap_or_else(|| speaker.host.clone());
            let address = Address { host, port: range.port };
            let seed = self.seeds.iter().find(|seed| seed.address == address);
            let known = new.members.get(&address).or(table.members.get(&address)).or(seed);
            let owner = known.cloned().unwrap_or_else(|| self.member(&address));
            for slot in range.first..=range.last {
                if let Some(place) = new.owners.get_mut(usize::from(slot)) {
                    *place = Some(Arc::clone(&owner));
                }
            }
            new.members.insert(address, owner);
        }
        *table = new;
    }
}

/// The first answer of these members to CLUSTER SLOTS, and the address of the one that gave it.
async fn slots_of(members: &[Arc<Member>]) -> Result<(Address, Vec<Range>), LinkError> {
    if members.is_empty() {
        return Err(LinkError::unavailable("no node of the cluster is known"));
    }
    let mut question = redis::cmd("CLUSTER");
    question.arg("SLOTS");
    let asked = members.iter().map(|one| {
        Box::pin(async {
            let ranges = one.node.ask(&question, false, |_| ()).await?;
            Ok::<_, LinkError>((one.address.clone(), ranges))
        })
    });
    let (answer, _) =
        within(CONNECT_TIMEOUT, select_ok(asked)).await.map_err(LinkError::unavailable)??;
    Ok(answer)
}

/// A node at this address, with the login of the others.
fn member(login: &ServerLogin, address: &Address, losses: &Losses) -> Arc<Member> {
    let node = RedisServer::new(ServerAddress::Fixed(Box::new(login.at(address))), losses);
    Arc::new(Member { address: address.clone(), node })
}
