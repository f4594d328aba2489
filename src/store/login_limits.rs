//! How often people may ask for login codes and try them. Counted in Redis, so that all nodes share
//! the counters.

use std::ops::Index;
use std::str::FromStr;
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::future::try_join_all;
use redis_link::LuaScript;

use super::{Keys, StoreError};
use redis_link::{Redis, ScriptCall};

static RATE_LIMIT: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../../lua/login/rate_limit.lua")));

/// The longest window.
const MAX_WINDOW: Duration = Duration::from_secs(31 * 24 * 3600);

/// How often something may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// What is limited, as it stands in the key and in the configuration.
    pub name: &'static str,
    /// Requests allowed in a window.
    pub limit: u32,
    /// The window. It begins with the first request.
    pub window: Duration,
}

impl Rate {
    const fn minutes(name: &'static str, limit: u32, minutes: u64) -> Self {
        Self { name, limit, window: Duration::from_secs(60 * minutes) }
    }
}

const DAY_MINUTES: u64 = 24 * 60;

const IN_ALL: &str = "codes-in-all";
const FOR_NEWCOMERS: &str = "codes-for-newcomers";
const PER_COUNTRY: &str = "codes-per-country";

/// The limits that all people share.
pub const SHARED: [&str; 3] = [IN_ALL, FOR_NEWCOMERS, PER_COUNTRY];

const DEFAULTS: [Rate; 14] = [
    // Codes sent to one phone that one address asked for: a stranger who asks takes none from its owner.
    Rate::minutes("codes-per-phone", 5, 10),
    // The same in the long run.
    Rate::minutes("codes-per-phone-day", 20, DAY_MINUTES),
    // Codes sent to one phone, whoever asked for them.
    Rate::minutes("codes-per-phone-in-all", 60, DAY_MINUTES),
    // Codes asked for from one IPv4 address, which a carrier may share out among thousands of people, or from one IPv6
    // /64, which is the least that a customer gets.
    Rate::minutes("codes-per-address", 300, 10),
    // Codes asked for from one IPv6 /48: some providers give a customer as much.
    Rate::minutes("codes-per-network", 1_200, 10),
    // The same two in the long run: so a handful of addresses does not use up what there is for all.
    Rate::minutes("codes-per-address-day", 5_000, DAY_MINUTES),
    Rate::minutes("codes-per-network-day", 20_000, DAY_MINUTES),
    // Codes sent to the phones of one country, or one prefix, that `SECKILL_SMS_COUNTRIES` names beside the first.
    Rate::minutes(PER_COUNTRY, 20_000, DAY_MINUTES),
    // Codes sent as long as it does not matter who has the phone. What `codes-in-all` leaves beyond it is for phones that
    // have logged in before: strangers cannot use it up. Unless it is set, it is three quarters of `codes-in-all`.
    Rate::minutes(FOR_NEWCOMERS, 150_000, DAY_MINUTES),
    // Codes sent at all: what the text messages of a day may cost.
    Rate::minutes(IN_ALL, 200_000, DAY_MINUTES),
    // Wrong tries from one address: guessing at many phones is no better than at one.
    Rate::minutes("tries-per-address", 600, 10),
    // Wrong tries from one IPv6 /48.
    Rate::minutes("tries-per-network", 2_400, 10),
    // Wrong tries at the codes of one phone, however many codes there were. Beyond it, an address that asked for the
    // code has one try.
    Rate::minutes("wrong-tries-per-phone", 50, DAY_MINUTES),
    // Those that one address may make.
    Rate::minutes("wrong-tries-per-phone-and-address", 10, 60),
];

/// The limits of login, by their names. As text: those that differ from the defaults, `name=count/duration`, with
/// commas between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginLimits([Rate; 14]);

impl Default for LoginLimits {
    fn default() -> Self {
        Self(DEFAULTS)
    }
}

impl LoginLimits {
    /// Those of all codes there are, first the one that closes the login for all.
    pub fn of_all_codes(&self) -> [Counted; 2] {
        [IN_ALL, FOR_NEWCOMERS].map(|name| (self[name], "all".to_owned()))
    }
}

impl Rate {
    /// Whether it is not for phones that have logged in before.
    pub fn is_for_newcomers(&self) -> bool {
        [FOR_NEWCOMERS, PER_COUNTRY].contains(&self.name)
    }
}

impl Index<&str> for LoginLimits {
    type Output = Rate;
    fn index(&self, name: &str) -> &Rate {
        let found = self.0.iter().find(|rate| rate.name == name);
        found.unwrap_or_else(|| unreachable!("there is no login limit {name}"))
    }
}

impl FromStr for LoginLimits {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut limits = Self::default();
        let mut named = Vec::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let malformed = || {
                format!(
                    "{item:?} is not of the form name=count/duration, as in codes-per-phone=5/10m"
                )
            };
            let (name, value) = item.split_once('=').ok_or_else(malformed)?;
            let (limit, window) = value.split_once('/').ok_or_else(malformed)?;
            let names = limits.0.map(|rate| rate.name).join(", ");
            let rate = limits.0.iter_mut().find(|rate| rate.name == name.trim());
            let rate = rate
                .ok_or_else(|| format!("there is no login limit {name:?}; there are: {names}"))?;
            if named.contains(&rate.name) {
                return Err(format!("{} is there twice", rate.name));
            }
            named.push(rate.name);
            rate.limit = limit.trim().parse().map_err(|_| malformed())?;
            rate.window = humantime::parse_duration(window.trim()).map_err(|_| malformed())?;
            if rate.limit == 0 || rate.window.as_millis() == 0 || rate.window > MAX_WINDOW {
                return Err(format!(
                    "{item:?}: the count is at least 1, the duration from 1ms to 31d"
                ));
            }
        }
        if !named.contains(&FOR_NEWCOMERS) {
            let Rate { limit, window, .. } = limits[IN_ALL];
            let of_newcomers = limits.0.iter_mut().filter(|rate| rate.name == FOR_NEWCOMERS);
            of_newcomers.for_each(|rate| (rate.limit, rate.window) = (limit - limit / 4, window));
        }
        Ok(limits)
    }
}

/// One requester, as a limit counts it: what it may, and who it is.
pub type Counted = (Rate, String);

/// A limit that is used up, and when it is not any more.
pub type UsedUp = (Rate, Duration);

/// Counts a request against each of `limits`, in their order, unless one of them is used up: then nothing is
/// written. So the keys in Redis are as many as the requests that were let in.
///
/// # Errors
/// When Redis does not answer.
pub async fn admit(
    redis: &Redis,
    keys: &Keys,
    limits: &[Counted],
) -> Result<Option<UsedUp>, StoreError> {
    if let Some(used_up) = first_used_up(redis, keys, limits).await? {
        return Ok(Some(used_up));
    }
    for counted in limits {
        // Others may have asked meanwhile.
        if let Some(used_up) = ask(redis, keys, counted, true).await? {
            return Ok(Some(used_up));
        }
    }
    Ok(None)
}

/// The first of `limits` that is used up. It writes nothing.
///
/// # Errors
/// When Redis does not answer.
pub async fn first_used_up(
    redis: &Redis,
    keys: &Keys,
    limits: &[Counted],
) -> Result<Option<UsedUp>, StoreError> {
    let looks = limits.iter().map(|counted| ask(redis, keys, counted, false));
    Ok(try_join_all(looks).await?.into_iter().flatten().next())
}

async fn ask(
    redis: &Redis,
    keys: &Keys,
    (rate, who): &Counted,
    counts: bool,
) -> Result<Option<UsedUp>, StoreError> {
    let key = keys.rate(rate.name, who);
    let window_ms = rate.window.as_millis() as u64;
    let call =
        ScriptCall::new(&RATE_LIMIT).key(key).arg(rate.limit).arg(window_ms).arg(u8::from(counts));
    let wait_ms: u64 = redis.invoke(&call).await?;
    Ok((wait_ms > 0).then(|| (*rate, Duration::from_millis(wait_ms))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_overrides_the_defaults_that_it_names() {
        let parsed = |text: &str| text.parse::<LoginLimits>();
        let default = LoginLimits::default();
        assert_eq!((parsed(""), parsed(" , ")), (Ok(default), Ok(default)));
        let mut expected = default;
        for changed in [
            Rate::minutes("codes-per-phone", 3, 60),
            Rate::minutes("codes-in-all", 8, DAY_MINUTES),
            // It follows `codes-in-all`.
            Rate::minutes("codes-for-newcomers", 6, DAY_MINUTES),
        ] {
            expected
                .0
                .iter_mut()
                .filter(|rate| rate.name == changed.name)
                .for_each(|rate| *rate = changed);
        }
        assert_eq!(parsed("codes-per-phone=3/1h, codes-in-all = 8/24h"), Ok(expected));
        let named = parsed("codes-for-newcomers=9/1h,codes-in-all=8/24h");
        let limit = named.map(|limits| limits["codes-for-newcomers"].limit);
        assert_eq!(limit, Ok(9));
    }

    #[test]
    fn every_limit_has_a_name_of_its_own() {
        for (position, Rate { name, .. }) in DEFAULTS.into_iter().enumerate() {
            assert!(DEFAULTS[..position].iter().all(|rate| rate.name != name), "{name}");
            let parsed = format!("{name}=9/1s").parse::<LoginLimits>();
            let changed =
                parsed.map(|limits| limits.0.iter().filter(|rate| rate.limit == 9).count());
            assert_eq!(changed, Ok(1), "{name}");
        }
    }

    #[test]
    fn a_list_that_makes_no_sense_is_told_in_a_sentence() {
        for (text, words) in [
            ("codes-per-phone", "is not of the form name=count/duration"),
            ("codes-per-phone=5", "is not of the form"),
            ("codes-per-phone=5/soon", "is not of the form"),
            ("codes-per-phone=-5/10m", "is not of the form"),
            ("codes-per-phone=0/10m", "at least 1"),
            ("codes-per-phone=5/0s", "from 1ms to 31d"),
            ("codes-per-phone=5/32d", "from 1ms to 31d"),
            ("codes=5/10m", "there is no login limit \"codes\"; there are: codes-per-phone, "),
            ("codes-in-all=5/10m,codes-in-all=6/10m", "codes-in-all is there twice"),
        ] {
            let error = text.parse::<LoginLimits>().err().unwrap_or_default();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
