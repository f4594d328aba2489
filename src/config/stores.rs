//! Where the data is.

use std::path::PathBuf;

use clap::Args;
use redis_link::RedisUrl;
use redisson_lock::cli::RedisSettings;

use super::database_url::postgres_url;
use super::{ConfigError, variable};
use crate::store::postgres::UrlFile;

/// Where the data is. Without a URL the program starts a private server of its own.
#[derive(Debug, Clone, Args)]
pub struct StoreArgs {
    /// PostgreSQL to use; a private one is started when this is unset
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL",
        value_parser = postgres_url, help_heading = "Stores")]
    pub database_url: Option<String>,

    /// Redis to use; a private one is started when this is unset
    #[arg(long, env = "REDIS_URL", hide_env_values = true, value_name = "URL",
        value_parser = redis_url, help_heading = "Stores")]
    pub redis_url: Option<String>,

    #[command(flatten)]
    #[allow(missing_docs)] // the type says it
    pub redis: RedisSettings,

    /// Start private servers though a variable (PGHOST, REDIS_HOST, one URL without the other) says that
    /// others were meant
    #[arg(long, help_heading = "Stores")]
    pub private_stores: bool,
}

/// Variables of other programs that say where a store is: the flag or variable of ours, and what is not read.
const MEANT_ELSEWHERE: [(&str, &[&str]); 2] = [
    ("DATABASE_URL", &["PGHOST", "PGDATABASE", "PGSERVICE", "POSTGRES_URL", "REDIS_URL"]),
    ("REDIS_URL", &["REDIS_HOST", "DATABASE_URL"]),
];

impl StoreArgs {
    /// The Redis that is named, with the files of its certificates, which are there and of use.
    ///
    /// # Errors
    /// When they are not, or are named without a Redis.
    pub fn named_redis(&self) -> Result<Option<String>, ConfigError> {
        match &self.redis_url {
            Some(url) => {
                self.redis.url(url).map(Some).map_err(|error| ConfigError(error.to_string()))
            }
            None if self.redis.has_files() => Err(ConfigError(
                "certificates for Redis are named, and REDIS_URL is not set".to_owned(),
            )),
            None => Ok(None),
        }
    }

    /// Whether private stores may stand in for those that are not named.
    ///
    /// # Errors
    /// Names the variable that says that somebody meant others.
    pub fn may_be_private(&self) -> Result<(), ConfigError> {
        let are_named = [self.database_url.is_some(), self.redis_url.is_some()];
        if self.private_stores || are_named == [true, true] {
            return Ok(());
        }
        let is_set = |name: &str| match name {
            "DATABASE_URL" => are_named[0],
            "REDIS_URL" => are_named[1],
            _ => variable(name).is_some(),
        };
        let unnamed = MEANT_ELSEWHERE.iter().zip(are_named).filter(|(_, is_named)| !is_named);
        for ((url, names), _) in unnamed {
            if let Some(name) = names.iter().find(|name| is_set(name)) {
                return Err(ConfigError(format!(
                    "{name} is set and {url} is not: set {url}, or give --private-stores for a server of its own"
                )));
            }
        }
        Ok(())
    }

    /// The file from which the URL of PostgreSQL was read, where it can be read again. A pipe cannot.
    pub fn database_file(&self) -> Option<UrlFile> {
        url_file("DATABASE_URL_FILE", postgres_url, self.database_url.as_ref())
    }

    /// The same for Redis.
    pub fn redis_file(&self) -> Option<UrlFile> {
        url_file("REDIS_URL_FILE", redis_url, self.redis_url.as_ref())
    }
}

/// The file that the variable `name` names, if `used` was read from it.
fn url_file(
    name: &str,
    read: fn(&str) -> Result<String, String>,
    used: Option<&String>,
) -> Option<UrlFile> {
    let path = PathBuf::from(variable(name)?);
    let text = program::secret_read_from(&path)?;
    // A flag wins over it.
    let is_it = read(text).ok().as_ref() == used;
    (is_it && path.is_file()).then_some(UrlFile { path, read })
}

fn redis_url(text: &str) -> Result<String, String> {
    text.parse::<RedisUrl>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}
