//! Which Redis, how a program shows who it is there, and how its names begin.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::Unusable;
use redis_link::{Redis, TlsFiles};

/// More would only make names long.
const MAX_PREFIX_BYTES: usize = 64;

/// What there is to say of a Redis besides its URL; also for programs that have these commands among their own.
#[derive(Debug, Clone, Default, Args)]
pub struct RedisSettings {
    /// PEM file of the authorities that are believed in place of the system's, for a URL with TLS (rediss)
    #[arg(long, env = "SECKILL_REDIS_CA", value_name = "FILE", help_heading = "Stores")]
    pub redis_ca: Option<PathBuf>,

    /// PEM file of the certificate that is shown to Redis
    #[arg(long, env = "SECKILL_REDIS_CERT", value_name = "FILE", help_heading = "Stores")]
    pub redis_cert: Option<PathBuf>,

    /// PEM file of the key to it
    #[arg(long, env = "SECKILL_REDIS_KEY", value_name = "FILE", help_heading = "Stores")]
    pub redis_key: Option<PathBuf>,

    /// Begins every name in Redis, such as shop1: for an installation that shares a Redis with others
    #[arg(
        long,
        env = "SECKILL_KEY_PREFIX",
        value_name = "PREFIX",
        default_value = "",
        help_heading = "Stores"
    )]
    pub key_prefix: KeyPrefix,
}

impl RedisSettings {
    /// The URL with the names of the files in it, for whoever opens it. The files have been read once.
    ///
    /// # Errors
    /// When one of them is of no use.
    pub fn url(&self, url: &str) -> Result<String, Unusable> {
        let (ca, cert, key) =
            (self.redis_ca.clone(), self.redis_cert.clone(), self.redis_key.clone());
        let told = |why: String| Unusable(format!("the Redis URL cannot be used: {why}"));
        let url = TlsFiles { ca, cert, key }.named_in(url).map_err(|why| told(why.to_string()))?;
        Redis::new(&url).map_err(|error| told(error.cause().to_string()))?;
        Ok(url)
    }

    /// Whether a file of TLS is named.
    #[must_use]
    pub fn has_files(&self) -> bool {
        [&self.redis_ca, &self.redis_cert, &self.redis_key].into_iter().any(Option::is_some)
    }
}

/// What every name in Redis begins with; nothing by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyPrefix(String);

impl KeyPrefix {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for KeyPrefix {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for KeyPrefix {
    type Err = String;

    /// Nothing that means something in a pattern of names. Braces keep all names in one slot of a cluster.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let name = match text.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some((tag, rest)) if !tag.is_empty() => format!("{tag}{rest}"),
            _ => text.to_owned(),
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
        let is_one = text.len() <= MAX_PREFIX_BYTES && name.len() > 1 && name.ends_with(':');
        if !is_one || !name.chars().all(is_plain) {
            return Err(format!(
                "it must be at most {MAX_PREFIX_BYTES} letters, digits and . _ - : with a : at its end, as in \
                 shop1: or {{shop1}}:"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_plain_name_that_ends_with_a_colon() {
        let longest = "p".repeat(MAX_PREFIX_BYTES - 1) + ":";
        for good in ["", "shop1:", "a.b_c-d:1:", "{shop1}:", "{a}b:", &longest] {
            assert_eq!(good.parse::<KeyPrefix>().as_ref().map(KeyPrefix::as_str), Ok(good));
        }
        let too_long = format!("p{longest}");
        for bad in [
            ":", "shop1", "shop 1:", "shop*:", "a{b}:", "{}:", "{a:", "a}:", "{a}{b}:", "{{a}}:",
            "\u{e9}:", "a\n:", "[a]:", "a?:", &too_long,
        ] {
            assert!(bad.parse::<KeyPrefix>().is_err(), "{bad}");
        }
    }
}
