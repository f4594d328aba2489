//! The configuration: what flags and the environment say. One struct per concern; flags win over variables.
//! A value that is malformed ends the program with one sentence and status 2 before anything starts.

mod base_path;
mod database_url;
mod gateways;
mod lists;
mod server;
mod stores;

use std::path::PathBuf;

use clap::Args;

pub use base_path::BasePath;
pub use gateways::{EventArgs, GatewaySettings, PaymentArgs, SmsArgs, proxy_variable};
pub use lists::{Networks, Occasion, Occasions, Origins, PhonePrefixes, Phones, UrlSchemes};
pub use program::ConfigError;
pub use redisson_lock::cli::RedisSettings;
pub use server::{MAX_BURST, ServerArgs};
pub use stores::StoreArgs;

/// Shorter secrets can be guessed.
const MIN_SECRET_BYTES: usize = 16;

/// Where a program that keeps its data keeps it.
#[derive(Debug, Clone, Args)]
pub struct HomeArgs {
    /// Where the private servers keep their data, and the secret made for them
    /// [default: /var/lib/seckill for root, else $XDG_DATA_HOME/seckill or ~/.local/share/seckill]
    #[arg(long, env = "SECKILL_DATA_DIR", value_name = "DIR", help_heading = "Stores")]
    pub data_dir: Option<PathBuf>,
}

impl HomeArgs {
    /// The directory to use.
    ///
    /// # Errors
    /// When none is named and there is no home directory to put it into.
    pub fn directory(&self) -> Result<PathBuf, ConfigError> {
        if let Some(directory) = &self.data_dir {
            return std::path::absolute(directory).map_err(|error| {
                ConfigError(format!("--data-dir {}: {error}", directory.display()))
            });
        }
        if nix::unistd::Uid::effective().is_root() {
            return Ok(PathBuf::from("/var/lib/seckill"));
        }
        if let Some(data) = variable("XDG_DATA_HOME") {
            return Ok(PathBuf::from(data).join("seckill"));
        }
        let home = variable("HOME").ok_or_else(|| {
            ConfigError("HOME is not set: say where the data goes with --data-dir".to_owned())
        })?;
        Ok(PathBuf::from(home).join(".local/share/seckill"))
    }
}

/// The secret that signs session tokens.
#[derive(Debug, Clone, Args)]
pub struct SecretArgs {
    /// Signs session tokens, at least 16 bytes; all nodes share it. Made and kept in the
    /// data directory when no DATABASE_URL is set, required otherwise
    #[arg(long, env = "SECKILL_SECRET", hide_env_values = true, value_name = "SECRET",
        value_parser = secret)]
    pub secret: Option<String>,

    /// The former secret, while it is being changed: tokens that were signed with it are accepted, too
    #[arg(long, env = "SECKILL_SECRET_PREVIOUS", hide_env_values = true, value_name = "SECRET",
        value_parser = secret)]
    pub secret_previous: Option<String>,
}

#[allow(clippy::disallowed_methods)] // this module reads the environment
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn secret(text: &str) -> Result<String, String> {
    if text.len() < MIN_SECRET_BYTES {
        return Err(format!("it must have at least {MIN_SECRET_BYTES} bytes"));
    }
    Ok(text.to_owned())
}
