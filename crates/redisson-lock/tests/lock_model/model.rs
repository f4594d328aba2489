//! What must be true of locks: the same in memory, without a network, without anything that
//! happens at once. It is told what was seen, and says whether that may be.

use std::time::Duration;

use redisson_lock::Lease;

/// What is not as it must be.
pub type Verdict<T = ()> = Result<T, String>;

pub type OwnerId = usize;
pub type GrantId = usize;

/// Redis counts on while the test runs; this much later is still in time.
const SLACK: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
pub struct Model {
    names: Vec<Name>,
    grants: Vec<Grant>,
    /// How each stands in Redis, once it is known.
    owners: Vec<Option<String>>,
    /// The clock of the clients.
    now: Duration,
    /// The clock of Redis. It never goes before the other.
    redis_now: Duration,
    /// Whether any client has lost its connection, or is about to.
    pub connections_are_lost: bool,
}

#[derive(Debug, Default)]
struct Name {
    held: Option<Held>,
    last_token: u64,
    last_owner: OwnerId,
    /// It became free and nobody was told.
    silent: bool,
    /// Who may have a hold yet that is being given back, and until when.
    leaving: Vec<(OwnerId, Duration)>,
}

#[derive(Debug)]
struct Held {
    owner: OwnerId,
    holds: i64,
    /// On the clock of Redis.
    ends: Duration,
    /// Or then, by an entry that was taken back.
    or_ends: Vec<Duration>,
    token: Option<u64>,
    /// Where it was entered.
    clients: Vec<usize>,
}

#[derive(Debug)]
struct Grant {
    name: usize,
    owner: OwnerId,
    lease: Lease,
    /// Until when the holder may believe in it.
    deadline: Duration,
    /// Whether Redis still counts it.
    counted: bool,
    lost: bool,
    /// Whether there is a guard that has it renewed.
    guarded: bool,
}

/// What an entry brought.
#[derive(Debug, Clone, Copy)]
pub struct Entered {
    pub client: usize,
    pub name: usize,
    pub owner: OwnerId,
    pub lease: Lease,
    pub validity: Duration,
    pub fenced: bool,
    pub token: Option<u64>,
}

/// What stands in Redis at a name.
pub type Seen = (i64, Vec<(String, i64)>);

pub fn length(lease: Lease) -> Duration {
    match lease {
        Lease::Fixed(length) | Lease::Renewed(length) => length,
        other => unreachable!("the model has no {other:?}"),
    }
}

impl Name {
    fn is_leaving(&self, owner: OwnerId) -> bool {
        self.leaving.iter().any(|(leaving, _)| *leaving == owner)
    }
}

impl Model {
    pub fn new(names: usize) -> Self {
        Self { names: (0..names).map(|_| Name::default()).collect(), ..Self::default() }
    }

    /// `None`: as yet nobody knows its name.
    pub fn new_owner(&mut self, field: Option<String>) -> OwnerId {
        self.owners.push(field);
        self.owners.len() - 1
    }

    pub fn holder(&self, name: usize) -> Option<(Option<&str>, i64)> {
        let held = self.names[name].held.as_ref()?;
        Some((self.owners[held.owner].as_deref(), held.holds))
    }

    pub fn may_enter(&self, name: usize, owner: OwnerId) -> bool {
        self.names[name].held.as_ref().is_none_or(|held| held.owner == owner)
    }

    /// Whether somebody who waits on this client is told that he may enter: Redis forgets
    /// without a word, and a client tells nobody else that an owner entered by another way.
    pub fn is_told(&self, name: usize, client: usize) -> bool {
        let name = &self.names[name];
        name.held.as_ref().map_or(!name.silent, |held| held.clients.contains(&client))
    }

    pub fn place(&self, grant: GrantId) -> (usize, OwnerId) {
        (self.grants[grant].name, self.grants[grant].owner)
    }

    pub fn entered(&mut self, entered: Entered) -> Verdict<GrantId> {
        let Entered { name: number, owner, lease, validity, .. } = entered;
        let name = &mut self.names[number];
        if let Some(held) = &name.held
            && held.owner != owner
        {
            return Err(format!("{entered:?} while {held:?}: two are inside"));
        }
        if validity > length(lease) || validity.is_zero() {
            return Err(format!("{entered:?}: a new grant is good for its lease"));
        }
        let token = name.held.as_ref().and_then(|held| held.token);
        match (entered.fenced, entered.token, token) {
            (false, None, _) => {}
            (true, Some(mine), Some(held)) if mine == held => {}
            (true, Some(mine), None) if mine > name.last_token => {}
            // It was not free meanwhile: its owner waited to enter again, or what it held is
            // only being given back.
            (true, Some(mine), None)
                if mine == name.last_token
                    && name.last_owner == owner
                    && (name.held.is_some() || name.is_leaving(owner)) => {}
            _ => return Err(format!("{entered:?}: the token, after {}", name.last_token)),
        }
        if let Some(token) = entered.token {
            (name.last_token, name.last_owner) = (token, owner);
        }
        name.silent = false;
        let ends = self.redis_now + length(lease);
        let held = name.held.get_or_insert(Held {
            owner,
            holds: 0,
            ends,
            or_ends: vec![],
            token,
            clients: vec![],
        });
        let mine = name.leaving.iter().filter(|(leaving, _)| *leaving == owner);
        held.or_ends.extend(mine.map(|(_, ends)| *ends));
        held.holds += 1;
        held.clients.push(entered.client);
        held.ends = held.ends.max(ends);
        held.token = held.token.or(entered.token);
        let deadline = self.now + validity;
        let (counted, lost, guarded) = (true, false, true);
        self.grants.push(Grant { name: number, owner, lease, deadline, counted, lost, guarded });
        Ok(self.grants.len() - 1)
    }

    /// `excused`: something under way may have been in the way.
    pub fn refused(&self, name: usize, owner: OwnerId, excused: bool) -> Verdict {
        match &self.names[name].held {
            Some(held) if held.owner == owner => {
                Err(format!("who has {held:?} was not let in again"))
            }
            None if !excused => Err(format!("the lock {name} is free and {owner} was not let in")),
            _ => Ok(()),
        }
    }

    /// Somebody's entry is taken back, or was never made.
    pub fn withdrawn(&mut self, name: usize, owner: OwnerId, lease: Lease) {
        let (ends, name) = (self.redis_now + length(lease), &mut self.names[name]);
        name.leaving.push((owner, ends));
        if let Some(held) = name.held.as_mut().filter(|held| held.owner == owner) {
            held.or_ends.push(ends);
        }
    }

    /// Nothing is being given back any more.
    pub fn settled(&mut self) {
        self.names.iter_mut().for_each(|name| name.leaving.clear());
    }

    /// A release was answered.
    pub fn left(&mut self, grant: GrantId, was_held: bool) -> Verdict {
        let known = &self.grants[grant];
        if known.counted != was_held {
            return Err(format!("a release was answered: held {was_held}, by {known:?}"));
        }
        self.given_back(grant);
        Ok(())
    }

    /// A guard is gone, and its hold with it.
    pub fn given_back(&mut self, grant: GrantId) {
        self.grants[grant].guarded = false;
        if !std::mem::take(&mut self.grants[grant].counted) {
            return;
        }
        let grant = &self.grants[grant];
        let name = &mut self.names[grant.name];
        let Some(held) = name.held.as_mut() else { return };
        held.holds -= 1;
        held.ends = held.ends.max(self.redis_now + length(grant.lease));
        if held.holds == 0 {
            name.leaving.push((held.owner, held.ends));
            name.held = None;
        }
    }

    /// A guard is gone, and its hold left to its lease.
    pub fn abandoned(&mut self, grant: GrantId) {
        self.grants[grant].guarded = false;
    }

    /// Nobody holds the lock any more; whoever waits was told of it, or not. Whether
    /// anybody held it.
    pub fn freed(&mut self, name: usize, silently: bool) -> bool {
        let was_held = self.names[name].held.take().is_some();
        self.names[name].silent |= was_held && silently;
        for grant in self.grants.iter_mut().filter(|grant| grant.name == name) {
            grant.counted = false;
        }
        was_held
    }

    pub fn redis_time(&mut self, passed: Duration) {
        self.redis_now += passed;
        for name in 0..self.names.len() {
            if self.names[name].held.as_ref().is_some_and(|held| held.ends <= self.redis_now) {
                self.freed(name, true);
            }
        }
    }

    /// Watchdogs renew, or find that there is nothing left to renew.
    pub fn time(&mut self, passed: Duration) {
        self.now += passed;
        for grant in &mut self.grants {
            let third = length(grant.lease) / 3;
            let due = grant.deadline - length(grant.lease) + third;
            let renews = matches!(grant.lease, Lease::Renewed(_)) && self.now < grant.deadline;
            if !grant.guarded || grant.lost {
                continue;
            }
            if renews && self.now >= due && grant.counted {
                grant.deadline = self.now + length(grant.lease);
                if let Some(held) = &mut self.names[grant.name].held {
                    held.ends = held.ends.max(self.redis_now + length(grant.lease));
                }
            } else if (renews && self.now >= due) || self.now >= grant.deadline {
                grant.lost = true;
            }
        }
    }

    /// Holders and their holds are those that stand in Redis, for as long.
    pub fn compare(&mut self, seen: &[Seen]) -> Verdict {
        for (number, (left, fields)) in seen.iter().enumerate() {
            let Some(held) = &mut self.names[number].held else {
                if fields.is_empty() {
                    continue;
                }
                return Err(format!("the lock {number} is free, and in Redis: {fields:?}"));
            };
            let [(field, holds)] = fields.as_slice() else {
                return Err(format!("{held:?}, and in Redis: {fields:?}"));
            };
            let known = self.owners.iter().position(|known| known.as_ref() == Some(field));
            let is_new = known.is_none() && self.owners[held.owner].is_none();
            if held.holds != *holds || !(is_new || known == Some(held.owner)) {
                return Err(format!(
                    "{held:?} ({:?}), in Redis: {fields:?}",
                    self.owners[held.owner]
                ));
            }
            let left = Duration::from_millis(u64::try_from(*left).unwrap_or_default());
            let now = self.redis_now;
            let fits = |ends: &Duration| *ends >= now + left && *ends < now + left + SLACK;
            let ends = [held.ends].into_iter().chain(held.or_ends.iter().copied()).find(fits);
            match ends {
                Some(ends) => (held.ends, held.or_ends) = (ends, vec![]),
                None => return Err(format!("{held:?} at {now:?}, in Redis for {left:?}")),
            }
            if is_new {
                self.owners[held.owner] = Some(field.clone());
            }
        }
        Ok(())
    }

    /// Whether a guard that says it `is_lost` tells the truth.
    pub fn compare_loss(&mut self, grant: GrantId, is_lost: bool) -> Verdict {
        let known = &mut self.grants[grant];
        // A client that has lost its connection looks at once whether Redis counts its grants.
        known.lost |= is_lost && !known.counted && self.connections_are_lost;
        if known.lost == is_lost {
            return Ok(());
        }
        Err(format!("the guard says lost: {is_lost} at {:?}, and {known:?}", self.now))
    }
}
