//! The configuration: what flags and the environment say. One struct per concern; flags win over variables.
//! A value that is malformed ends the program with one sentence and status 2 before anything starts.

mod database_url;
mod lists;
mod server;
mod stores;

use std::path::PathBuf;

use axum::http::Uri;
use clap::{Args, ValueEnum};

pub use lists::{Networks, Origins, Phones};
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
    #[arg(long, env = "SECKILL_DATA_DIR", value_name = "DIR",
        value_parser = directory, help_heading = "Stores")]
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

/// What sends login codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SmsKind {
    /// The log: for development.
    Log,
    /// A webhook.
    Http,
}

/// How login codes are sent.
#[derive(Debug, Clone, Args)]
pub struct SmsArgs {
    /// What sends login codes: log, for development, or http, which posts them to --sms-url
    /// [default: log with a private PostgreSQL; with DATABASE_URL nobody can log in]
    #[arg(
        long,
        env = "SECKILL_SMS",
        value_name = "KIND",
        hide_possible_values = true,
        help_heading = "Login codes"
    )]
    pub sms: Option<SmsKind>,

    /// Where each code is posted to, http:// or https://
    #[arg(long, env = "SECKILL_SMS_URL", hide_env_values = true, value_name = "URL",
        value_parser = webhook_url, help_heading = "Login codes")]
    pub sms_url: Option<Uri>,

    /// Signs what is posted, at least 16 bytes
    #[arg(long, env = "SECKILL_SMS_SECRET", hide_env_values = true, value_name = "SECRET",
        value_parser = secret, help_heading = "Login codes")]
    pub sms_secret: Option<String>,
}

/// What sends login codes, its settings included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmsSettings<'a> {
    /// Nothing: nobody can log in.
    Nothing,
    /// The log.
    Log,
    /// A webhook.
    Http {
        /// Where to post.
        url: &'a Uri,
        /// Signs what is posted.
        secret: &'a str,
    },
}

impl SmsArgs {
    /// What sends login codes. A log is no place for them unless it is asked for, or the database is
    /// a private one.
    ///
    /// # Errors
    /// When a setting of the webhook is missing, or is there without the webhook.
    pub fn settings(&self, private_database: bool) -> Result<SmsSettings<'_>, ConfigError> {
        let missing = |name: &str| ConfigError(format!("{name} is required with SECKILL_SMS=http"));
        match self.sms {
            Some(SmsKind::Log) if self.sms_url.is_some() => Err(ConfigError(
                "SECKILL_SMS_URL is set and SECKILL_SMS is log: set SECKILL_SMS=http".to_owned(),
            )),
            Some(SmsKind::Log) => Ok(SmsSettings::Log),
            Some(SmsKind::Http) => Ok(SmsSettings::Http {
                url: self.sms_url.as_ref().ok_or_else(|| missing("SECKILL_SMS_URL"))?,
                secret: self.sms_secret.as_deref().ok_or_else(|| missing("SECKILL_SMS_SECRET"))?,
            }),
            None if self.sms_url.is_some() => Err(ConfigError(
                "SECKILL_SMS_URL is set and SECKILL_SMS is not: set SECKILL_SMS=http".to_owned(),
            )),
            None if private_database => Ok(SmsSettings::Log),
            None => Ok(SmsSettings::Nothing),
        }
    }
}

/// What takes payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PaymentsKind {
    /// A page on which everybody can say that they have paid: for development.
    Sandbox,
    /// A webhook.
    Http,
}

/// How buyers pay.
#[derive(Debug, Clone, Args)]
pub struct PaymentArgs {
    /// What takes payments: sandbox, a page for development where no money moves, or http, which
    /// announces each payment to --payments-url
    /// [default: sandbox with a private PostgreSQL; with DATABASE_URL nobody can pay]
    #[arg(
        long,
        env = "SECKILL_PAYMENTS",
        value_name = "KIND",
        hide_possible_values = true,
        help_heading = "Payments"
    )]
    pub payments: Option<PaymentsKind>,

    /// Where each payment and refund is posted to, http:// or https://
    #[arg(long, env = "SECKILL_PAYMENTS_URL", hide_env_values = true, value_name = "URL",
        value_parser = webhook_url, help_heading = "Payments")]
    pub payments_url: Option<Uri>,

    /// Signs what is posted, and what the gateway says, at least 16 bytes
    #[arg(long, env = "SECKILL_PAYMENTS_SECRET", hide_env_values = true, value_name = "SECRET",
        value_parser = secret, help_heading = "Payments")]
    pub payments_secret: Option<String>,

    /// The former secret, while it is being changed: what the gateway signs with it is accepted, too
    #[arg(long, env = "SECKILL_PAYMENTS_SECRET_PREVIOUS", hide_env_values = true, value_name = "SECRET",
        value_parser = secret, help_heading = "Payments")]
    pub payments_secret_previous: Option<String>,
}

/// What takes payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // as those of `PaymentArgs`
pub enum PaymentSettings<'a> {
    /// Nobody can pay.
    Nothing,
    Sandbox,
    Http {
        url: &'a Uri,
        secret: &'a str,
        /// Accepted beside it.
        previous: Option<&'a str>,
    },
}

impl PaymentArgs {
    /// What they say, beside a private database or another.
    ///
    /// # Errors
    /// When one of them is missing.
    pub fn settings(&self, private_database: bool) -> Result<PaymentSettings<'_>, ConfigError> {
        let missing =
            |name: &str| ConfigError(format!("{name} is required with SECKILL_PAYMENTS=http"));
        match self.payments {
            Some(PaymentsKind::Sandbox) => Ok(PaymentSettings::Sandbox),
            Some(PaymentsKind::Http) => Ok(PaymentSettings::Http {
                url: self.payments_url.as_ref().ok_or_else(|| missing("SECKILL_PAYMENTS_URL"))?,
                secret: self
                    .payments_secret
                    .as_deref()
                    .ok_or_else(|| missing("SECKILL_PAYMENTS_SECRET"))?,
                previous: self.payments_secret_previous.as_deref(),
            }),
            None if self.payments_url.is_some() || self.payments_secret_previous.is_some() => {
                let name = match self.payments_url {
                    Some(_) => "SECKILL_PAYMENTS_URL",
                    None => "SECKILL_PAYMENTS_SECRET_PREVIOUS",
                };
                Err(ConfigError(format!(
                    "{name} is set and SECKILL_PAYMENTS is not: set SECKILL_PAYMENTS=http"
                )))
            }
            None if private_database => Ok(PaymentSettings::Sandbox),
            None => Ok(PaymentSettings::Nothing),
        }
    }
}

/// The variable that names a proxy for messages to others, where one is set: no gateway is reached through it.
pub fn proxy_variable() -> Option<&'static str> {
    const NAMES: [&str; 6] =
        ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    NAMES.into_iter().find(|name| variable(name).is_some())
}

#[allow(clippy::disallowed_methods)] // this module reads the environment
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn webhook_url(text: &str) -> Result<Uri, String> {
    // The value could hold a password: it is not repeated.
    let url = url::Url::parse(text).map_err(|error| error.to_string())?;
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
        return Err("it must begin with http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it must not name a user: messages are signed instead".to_owned());
    }
    url.as_str().parse().map_err(|_| "it is not a URL".to_owned())
}

fn directory(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok(PathBuf::from(text))
}

fn secret(text: &str) -> Result<String, String> {
    if text.len() < MIN_SECRET_BYTES {
        return Err(format!("it must have at least {MIN_SECRET_BYTES} bytes"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_go_to_the_log_only_when_asked_for_or_beside_a_private_database() {
        let args = |sms, url: Option<&str>, secret: Option<&str>| SmsArgs {
            sms,
            sms_url: url.and_then(|url| webhook_url(url).ok()),
            sms_secret: secret.map(str::to_owned),
        };
        let unset = args(None, None, None);
        assert_eq!(unset.settings(true), Ok(SmsSettings::Log));
        assert_eq!(unset.settings(false), Ok(SmsSettings::Nothing));
        let (url, secret) = ("https://sms.example/send?key=1", "0123456789abcdef");
        let log = args(Some(SmsKind::Log), None, None);
        assert_eq!(log.settings(false), Ok(SmsSettings::Log));
        let http = args(Some(SmsKind::Http), Some(url), Some(secret));
        let expected = &url.parse().unwrap_or_default();
        let expected = SmsSettings::Http { url: expected, secret };
        assert_eq!((http.settings(true), http.settings(false)), (Ok(expected), Ok(expected)));
        for (incomplete, words) in [
            (args(Some(SmsKind::Http), None, Some(secret)), "SECKILL_SMS_URL is required"),
            (args(Some(SmsKind::Http), Some(url), None), "SECKILL_SMS_SECRET is required"),
            (args(None, Some(url), Some(secret)), "set SECKILL_SMS=http"),
            (args(Some(SmsKind::Log), Some(url), None), "SECKILL_SMS is log"),
        ] {
            let error = incomplete.settings(true).err().map(|error| error.0).unwrap_or_default();
            assert!(error.contains(words), "{error}");
        }
        for wrong in ["", "sms.example", "ftp://sms.example", "http://", "http://u:p@sms.example"] {
            assert!(webhook_url(wrong).is_err(), "{wrong}");
        }
    }
}
