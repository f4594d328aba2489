//! Where the data is.

use clap::Args;
use redisson_lock::cli::RedisSettings;
use redisson_lock::connection::RedisUrl;

use super::ConfigError;
use super::database_url::postgres_url;

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
}

impl StoreArgs {
    /// The Redis that is named, with the files of its certificates, which are there and of use.
    ///
    /// # Errors
    /// When they are not, or are named without a Redis.
    pub fn named_redis(&self) -> Result<Option<String>, ConfigError> {
        match &self.redis_url {
            Some(url) => match self.redis.url(url) {
                Ok(url) => Ok(Some(url)),
                Err(error) => Err(ConfigError(error.to_string())),
            },
            None if self.redis.has_files() => Err(ConfigError(
                "certificates for Redis are named, and REDIS_URL is not set".to_owned(),
            )),
            None => Ok(None),
        }
    }
}

fn redis_url(text: &str) -> Result<String, String> {
    text.parse::<RedisUrl>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}
