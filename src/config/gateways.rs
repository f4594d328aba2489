//! The gateways that send login codes and take payments, and the receiver of events.

use std::time::Duration;

use axum::http::Uri;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{ConfigError, Occasions, UrlSchemes, secret, variable};

/// What `SECKILL_SMS` and `SECKILL_PAYMENTS` call the kind for development.
const LOG: &str = "log";
const SANDBOX: &str = "sandbox";
/// The longest time for which an order waits for what a gateway says of its payment.
const MAX_ASK_WITHIN: Duration = Duration::from_secs(600);

/// What does the work, as an argument names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayKind {
    /// Of this server, for development.
    Development,
    /// A webhook.
    Http,
}

/// `http`, or the word of the one for development.
fn kinds(development: &'static str) -> impl TypedValueParser<Value = GatewayKind> {
    PossibleValuesParser::new([development, "http"]).map(|word| match word.as_str() {
        "http" => GatewayKind::Http,
        _ => GatewayKind::Development,
    })
}

/// How login codes are sent.
#[derive(Debug, Clone, Args)]
pub struct SmsArgs {
    /// What sends login codes: log, for development, or http, which posts them to --sms-url
    /// [default: log with a private PostgreSQL; with DATABASE_URL nobody can log in]
    #[arg(long, env = "SECKILL_SMS", value_name = "KIND", value_parser = kinds(LOG),
        hide_possible_values = true, help_heading = "Login codes")]
    pub sms: Option<GatewayKind>,

    /// Where each code is posted to, http:// or https://
    #[arg(long, env = "SECKILL_SMS_URL", hide_env_values = true, value_name = "URL",
        value_parser = webhook_url, help_heading = "Login codes")]
    pub sms_url: Option<Uri>,

    /// Signs what is posted, at least 16 bytes
    #[arg(long, env = "SECKILL_SMS_SECRET", hide_env_values = true, value_name = "SECRET",
        value_parser = secret, help_heading = "Login codes")]
    pub sms_secret: Option<String>,

    /// Of what buyers are told by text message, with commas between: offered, paid, refunded, cancelled
    /// [default: of nothing]
    #[arg(
        long,
        env = "SECKILL_SMS_TELL",
        value_name = "LIST",
        default_value = "",
        hide_default_value = true,
        help_heading = "Login codes"
    )]
    pub sms_tell: Occasions,
}

/// How buyers pay.
#[derive(Debug, Clone, Args)]
pub struct PaymentArgs {
    /// What takes payments: sandbox, a page for development where no money moves, or http, which
    /// announces each payment to --payments-url
    /// [default: sandbox with a private PostgreSQL; with DATABASE_URL nobody can pay]
    #[arg(long, env = "SECKILL_PAYMENTS", value_name = "KIND", value_parser = kinds(SANDBOX),
        hide_possible_values = true, help_heading = "Payments")]
    pub payments: Option<GatewayKind>,

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

    /// How long an order whose time to pay is over waits at most for what the gateway says of its payment; 0s: the
    /// gateway is not asked; at most 10m
    #[arg(long, env = "SECKILL_PAYMENTS_ASK_WITHIN", value_name = "TIME", default_value = "1m",
        value_parser = ask_within, help_heading = "Payments")]
    pub payments_ask_within: Duration,

    /// Schemes of the addresses to which http may send buyers, separated by commas
    #[arg(
        long,
        env = "SECKILL_PAYMENTS_SCHEMES",
        value_name = "SCHEMES",
        default_value = "http,https,weixin,alipays",
        help_heading = "Payments"
    )]
    pub payments_schemes: UrlSchemes,
}

/// What is told to programs.
#[derive(Debug, Clone, Args)]
pub struct EventArgs {
    /// Where events are posted to, http:// or https:// [default: nowhere]
    #[arg(long, env = "SECKILL_EVENTS_URL", hide_env_values = true, value_name = "URL",
        value_parser = webhook_url, help_heading = "Events")]
    pub events_url: Option<Uri>,

    /// Signs what is posted, at least 16 bytes
    #[arg(long, env = "SECKILL_EVENTS_SECRET", hide_env_values = true, value_name = "SECRET",
        value_parser = secret, help_heading = "Events")]
    pub events_secret: Option<String>,
}

/// What sends login codes, takes payments, or is told of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewaySettings<'a> {
    /// Nothing: nobody can log in, or pay, or nobody is told.
    Nothing,
    /// The log, or the sandbox.
    Development,
    /// A webhook.
    Http {
        /// Where to post.
        url: &'a Uri,
        /// Signs what is posted, and what it says.
        secret: &'a str,
        /// The former secret, accepted beside it.
        previous: Option<&'a str>,
    },
}

impl SmsArgs {
    /// What sends login codes. A log is no place for them unless it is asked for, or the database is a private one.
    ///
    /// # Errors
    /// When a setting of the webhook is missing, or is there without the webhook.
    pub fn settings(&self, is_private: bool) -> Result<GatewaySettings<'_>, ConfigError> {
        let http = (self.sms_url.as_ref(), self.sms_secret.as_deref(), None);
        let settings = settings(("SECKILL_SMS", LOG), self.sms, http, is_private)?;
        if settings == GatewaySettings::Nothing && !self.sms_tell.0.is_empty() {
            let what = "SECKILL_SMS_TELL is set and nothing sends text messages: set SECKILL_SMS";
            return Err(ConfigError(what.to_owned()));
        }
        Ok(settings)
    }
}

impl PaymentArgs {
    /// What takes payments, beside a private database or another.
    ///
    /// # Errors
    /// As [`SmsArgs::settings`].
    pub fn settings(&self, is_private: bool) -> Result<GatewaySettings<'_>, ConfigError> {
        let previous = self.payments_secret_previous.as_deref();
        let http = (self.payments_url.as_ref(), self.payments_secret.as_deref(), previous);
        settings(("SECKILL_PAYMENTS", SANDBOX), self.payments, http, is_private)
    }
}

impl EventArgs {
    /// What is told of events.
    ///
    /// # Errors
    /// When one of the two settings is missing.
    pub fn settings(&self) -> Result<GatewaySettings<'_>, ConfigError> {
        match (&self.events_url, self.events_secret.as_deref()) {
            (Some(url), Some(secret)) => Ok(GatewaySettings::Http { url, secret, previous: None }),
            (None, None) => Ok(GatewaySettings::Nothing),
            _ => Err(ConfigError(
                "SECKILL_EVENTS_URL and SECKILL_EVENTS_SECRET are set both, or neither".to_owned(),
            )),
        }
    }
}

/// `name` is the variable, `development` what it calls the kind for development.
fn settings<'a>(
    (name, development): (&str, &str),
    kind: Option<GatewayKind>,
    (url, secret, previous): (Option<&'a Uri>, Option<&'a str>, Option<&'a str>),
    is_private: bool,
) -> Result<GatewaySettings<'a>, ConfigError> {
    if kind == Some(GatewayKind::Http) {
        let (Some(url), Some(secret)) = (url, secret) else {
            let what = if url.is_none() { "URL" } else { "SECRET" };
            return Err(ConfigError(format!("{name}_{what} is required with {name}=http")));
        };
        return Ok(GatewaySettings::Http { url, secret, previous });
    }
    let of_http = [("URL", url.is_some()), ("SECRET", secret.is_some())];
    let mut of_http = of_http.into_iter().chain([("SECRET_PREVIOUS", previous.is_some())]);
    if let Some((what, _)) = of_http.find(|(_, is_set)| *is_set) {
        let kind = if kind.is_some() { development } else { "not" };
        return Err(ConfigError(format!(
            "{name}_{what} is set and {name} is {kind}: set {name}=http"
        )));
    }
    let is_nothing = kind.is_none() && !is_private;
    Ok(if is_nothing { GatewaySettings::Nothing } else { GatewaySettings::Development })
}

/// The variable that names a proxy for messages to others, where one is set: no gateway is reached through it.
pub fn proxy_variable() -> Option<&'static str> {
    const NAMES: [&str; 6] =
        ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    NAMES.into_iter().find(|name| variable(name).is_some())
}

fn ask_within(text: &str) -> Result<Duration, String> {
    let within = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if within > MAX_ASK_WITHIN {
        return Err("it must be at most 10m".to_owned());
    }
    Ok(within)
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

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://gateway.example/send?key=1";
    const SECRET: &str = "0123456789abcdef";

    fn sms(kind: Option<GatewayKind>, url: bool, secret: bool) -> SmsArgs {
        SmsArgs {
            sms: kind,
            sms_url: url.then(|| URL.parse().unwrap_or_default()),
            sms_secret: secret.then(|| SECRET.to_owned()),
            sms_tell: Occasions::default(),
        }
    }

    #[test]
    fn codes_go_to_the_log_only_when_asked_for_or_beside_a_private_database() {
        let unset = sms(None, false, false);
        assert_eq!(unset.settings(true), Ok(GatewaySettings::Development));
        assert_eq!(unset.settings(false), Ok(GatewaySettings::Nothing));
        let log = sms(Some(GatewayKind::Development), false, false);
        assert_eq!(log.settings(false), Ok(GatewaySettings::Development));
        let http = sms(Some(GatewayKind::Http), true, true);
        let url = &URL.parse().unwrap_or_default();
        let expected = GatewaySettings::Http { url, secret: SECRET, previous: None };
        assert_eq!((http.settings(true), http.settings(false)), (Ok(expected), Ok(expected)));
    }

    #[test]
    fn a_webhook_has_all_of_its_settings_and_nothing_else_has_one() {
        let (http, development) = (Some(GatewayKind::Http), Some(GatewayKind::Development));
        for (kind, url, secret, words) in [
            (http, false, true, "SECKILL_SMS_URL is required"),
            (http, true, false, "SECKILL_SMS_SECRET is required"),
            (None, true, true, "SECKILL_SMS_URL is set and SECKILL_SMS is not"),
            (None, false, true, "SECKILL_SMS_SECRET is set and SECKILL_SMS is not"),
            (development, true, false, "SECKILL_SMS_URL is set and SECKILL_SMS is log"),
            (development, false, true, "SECKILL_SMS_SECRET is set and SECKILL_SMS is log"),
        ] {
            let sms = sms(kind, url, secret);
            for is_private in [true, false] {
                let refused = sms.settings(is_private);
                assert!(refused.is_err_and(|error| error.0.contains(words)), "{words}");
            }
        }
    }

    #[test]
    fn an_order_waits_for_a_silent_gateway_for_ten_minutes_at_most() {
        assert_eq!(ask_within("1m"), Ok(crate::orders::ASK_WITHIN));
        assert_eq!(ask_within("0s"), Ok(Duration::ZERO));
        assert_eq!(ask_within("10m"), Ok(MAX_ASK_WITHIN));
        for wrong in ["10m 1ms", "-1s", "soon", ""] {
            assert!(ask_within(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn events_are_told_where_both_settings_are_there() {
        let events = |url: bool, secret: bool| EventArgs {
            events_url: url.then(|| URL.parse().unwrap_or_default()),
            events_secret: secret.then(|| SECRET.to_owned()),
        };
        assert_eq!(events(false, false).settings(), Ok(GatewaySettings::Nothing));
        let url = &URL.parse().unwrap_or_default();
        let told = GatewaySettings::Http { url, secret: SECRET, previous: None };
        assert_eq!(events(true, true).settings(), Ok(told));
        for url in [true, false] {
            assert!(events(url, !url).settings().is_err());
        }
    }

    #[test]
    fn a_webhook_has_an_address_of_the_web_and_names_no_user() {
        for wrong in ["", "sms.example", "ftp://sms.example", "http://", "http://u:p@sms.example"] {
            assert!(webhook_url(wrong).is_err(), "{wrong}");
        }
    }
}
