//! How the API is served.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches};

use super::{BasePath, Networks, Origins, PhonePrefixes, Phones};
use crate::model::{BucketRate, Currency};
use crate::purchase::{DEFAULT_BURST, DEFAULT_BUYER_RATE, PurchasesOptions, Strategy};
use crate::store::LoginLimits;

/// The largest burst: as many connections as one process takes.
pub const MAX_BURST: u32 = 16_384;

/// The longest delay: longer than any balancer takes to notice.
const MAX_DRAIN_DELAY: Duration = Duration::from_secs(300);

/// How long connections may be idle at least, and at most.
const MIN_KEEP_ALIVE: Duration = Duration::from_secs(1);
const MAX_KEEP_ALIVE: Duration = Duration::from_secs(3600);

/// How the API is served.
#[derive(Debug, Clone, Args)]
pub struct ServerArgs {
    /// Address to listen at; port 0 takes a free one
    #[arg(long, env = "SECKILL_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// How to sell: locked, group-commit or group-commit-unlocked
    #[arg(long, env = "SECKILL_STRATEGY", value_name = "NAME", default_value_t)]
    pub strategy: Strategy,

    /// Purchases that may be under way at once; one more is refused with 503 and Retry-After
    #[arg(long, env = "SECKILL_BURST", value_name = "N", default_value_t = DEFAULT_BURST as u32,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_BURST)))]
    pub burst: u32,

    /// Use no database that a crash of its machine can make lose orders (fsync or full_page_writes off)
    #[arg(long, env = "SECKILL_REQUIRE_DURABLE", value_name = "BOOL", num_args = 0..=1,
        default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub require_durable: bool,

    /// Connections that one address may have at once; those of trusted proxies are not limited
    #[arg(long, env = "SECKILL_CONNECTIONS_PER_ADDRESS", value_name = "N",
        default_value_t = MAX_BURST / 8,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_BURST)))]
    pub connections_per_address: u32,

    /// Streams of events that one address may have at once, also behind a trusted proxy
    #[arg(long, env = "SECKILL_STREAMS_PER_ADDRESS", value_name = "N",
        default_value_t = MAX_BURST / 32,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_BURST)))]
    pub streams_per_address: u32,

    /// How long a connection may be idle: longer than a load balancer keeps it; 1s to 1h. Those of trusted proxies
    /// may be for an hour
    #[arg(long, env = "SECKILL_KEEP_ALIVE", value_name = "TIME", default_value = "75s",
        value_parser = keep_alive)]
    pub keep_alive: Duration,

    /// Origins of web pages that may use the API beside the server's own, separated by commas
    #[arg(long, env = "SECKILL_ALLOWED_ORIGINS", value_name = "ORIGINS", default_value = "")]
    pub allowed_origins: Origins,

    /// Phones whose users may put vouchers on sale, separated by commas
    #[arg(long, env = "SECKILL_ADMIN_PHONES", value_name = "PHONES", default_value = "")]
    pub admin_phones: Phones,

    /// Login limits that differ from the defaults, separated by commas: name=count/duration
    ///
    /// codes-per-phone=5/10m and codes-per-phone-day=20/24h (from one address, or one IPv6 /48),
    /// codes-per-phone-in-all=60/24h, codes-per-address=300/10m and codes-per-address-day=5000/24h (an IPv4 address
    /// or an IPv6 /64), codes-per-network=1200/10m and codes-per-network-day=20000/24h (an IPv6 /48),
    /// codes-per-country=20000/24h, codes-for-newcomers=150000/24h (three quarters of the next), codes-in-all=200000/24h,
    /// tries-per-address=600/10m, tries-per-network=2400/10m, wrong-tries-per-phone=50/24h,
    /// wrong-tries-per-phone-and-address=10/1h
    #[arg(long, env = "SECKILL_LOGIN_LIMITS", value_name = "LIMITS", default_value = "")]
    pub login_limits: LoginLimits,

    /// Countries to whose phones login codes are sent: calling codes or longer prefixes, that of most buyers first,
    /// separated by commas, or any. Administrators and phones that have logged in before are sent theirs wherever they are
    /// [default: 86 with SECKILL_SMS=http, else any]
    #[arg(long, env = "SECKILL_SMS_COUNTRIES", value_name = "CODES")]
    pub sms_countries: Option<PhonePrefixes>,

    /// How often one buyer may ask the database, purchases included: so many at once, and as many again in this time;
    /// beyond it 429 and Retry-After. Administrators are limited in purchases alone
    #[arg(long, env = "SECKILL_BUYER_RATE", value_name = "COUNT/TIME|off", default_value_t = DEFAULT_BUYER_RATE)]
    pub buyer_rate: BucketRate,

    /// How often one address may ask without a good token (an IPv4 address or an IPv6 /64; not loopback). off: where
    /// many people share an address
    #[arg(
        long,
        env = "SECKILL_ADDRESS_RATE",
        value_name = "COUNT/TIME|off",
        default_value = "600/10s"
    )]
    pub address_rate: BucketRate,

    /// How long the server goes on selling after it was told to end, while /readyz answers 503: longer
    /// than the load balancer takes to notice; at most 5m
    #[arg(long, env = "SECKILL_DRAIN_DELAY", value_name = "TIME", default_value = "0s",
        value_parser = drain_delay)]
    pub drain_delay: Duration,

    /// Networks of load balancers whose X-Forwarded-For is believed, separated by commas
    #[arg(long, env = "SECKILL_TRUSTED_PROXIES", value_name = "NETWORKS", default_value = "")]
    pub trusted_proxies: Networks,

    /// Path of the host below which everything is served, as in /shop; not read by play and demo
    #[arg(long, env = "SECKILL_BASE_PATH", value_name = "PATH", default_value = "")]
    pub base_path: BasePath,

    /// The currency of prices on the pages and in CSV, by its code (ISO 4217): CNY, EUR, JPY
    #[arg(long, env = "SECKILL_CURRENCY", value_name = "CODE", default_value_t)]
    pub currency: Currency,
}

/// Without flags and variables.
impl Default for ServerArgs {
    fn default() -> Self {
        let command = Self::augment_args(Command::new("serve")).mut_args(|arg| arg.env(None));
        let parsed = command.try_get_matches_from(["serve"]);
        match parsed.and_then(|matches| Self::from_arg_matches(&matches)) {
            Ok(defaults) => defaults,
            Err(error) => unreachable!("a default is refused: {error}"),
        }
    }
}

impl From<&ServerArgs> for PurchasesOptions {
    fn from(args: &ServerArgs) -> Self {
        Self {
            strategy: args.strategy,
            burst: args.burst as usize,
            buyer_rate: args.buyer_rate,
            ..Self::default()
        }
    }
}

fn drain_delay(text: &str) -> Result<Duration, String> {
    let delay = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if delay > MAX_DRAIN_DELAY {
        return Err("it must be at most 5m".to_owned());
    }
    Ok(delay)
}

fn keep_alive(text: &str) -> Result<Duration, String> {
    let idle = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if !(MIN_KEEP_ALIVE..=MAX_KEEP_ALIVE).contains(&idle) {
        return Err("it must be from 1s to 1h".to_owned());
    }
    Ok(idle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_that_no_balancer_needs_is_refused() {
        assert_eq!(drain_delay("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(drain_delay("5m"), Ok(MAX_DRAIN_DELAY));
        for wrong in ["5m 1ms", "10", "-1s", "soon", ""] {
            assert!(drain_delay(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn connections_are_kept_for_a_second_to_an_hour() {
        assert_eq!(keep_alive("1s"), Ok(MIN_KEEP_ALIVE));
        assert_eq!(keep_alive("1h"), Ok(MAX_KEEP_ALIVE));
        for wrong in ["999ms", "1h 1ms", "0s", "75", ""] {
            assert!(keep_alive(wrong).is_err(), "{wrong}");
        }
    }
}
