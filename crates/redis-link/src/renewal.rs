//! A URL that is read again for each new connection: its user and its password may change while a handle lives.

use std::sync::{Arc, Mutex, PoisonError};

use redis::RedisConnectionInfo;

use super::url::RedisUrl;

/// Returns the current URL, or why it cannot be read.
pub(super) type ReadUrl = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// The source of user and password.
#[derive(Clone)]
pub(super) struct Renewal {
    read: ReadUrl,
    place: String,
    known: Arc<Mutex<Known>>,
}

struct Known {
    /// The newest user and password.
    login: RedisConnectionInfo,
    /// Why the current URL is not used, as the log said it; empty: it is used.
    unused: String,
}

impl Renewal {
    /// Of `url`, which was read just now.
    pub(super) fn new(url: &str, parsed: &RedisUrl, read: ReadUrl) -> Self {
        let known = Known { login: parsed.login().clone(), unused: String::new() };
        Self { read, place: place(url), known: Arc::new(Mutex::new(known)) }
    }

    /// `settings` with the current user and password. If the current URL cannot be used, the previous ones stay, and the log
    /// says so once for each reason.
    pub(super) fn renewed(&self, settings: &RedisConnectionInfo) -> RedisConnectionInfo {
        let newest = self.newest();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = newest.as_ref().err().cloned().unwrap_or_default();
        if unused != known.unused && !unused.is_empty() {
            tracing::warn!("the new Redis URL is not used, the previous one stays: {unused}");
        }
        known.unused = unused;
        if let Ok(login) = newest {
            known.login = login;
        }
        known.login.clone().set_db(settings.db()).set_protocol(settings.protocol())
    }

    fn newest(&self) -> Result<RedisConnectionInfo, String> {
        let text = (self.read)()?;
        let url: RedisUrl = text.parse().map_err(|error: super::MalformedUrl| error.to_string())?;
        if place(&text) != self.place {
            return Err("it leads to another server or database".to_owned());
        }
        Ok(url.login().clone())
    }
}

/// The URL without its user, its password and its parameters.
fn place(url: &str) -> String {
    let url = url.split_once('?').map_or(url, |(url, _)| url).trim_end_matches('/');
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    format!("{}://{hosts}{path}", scheme.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_no_password_and_another_host_number_or_name_is_another_place() {
        for (one, other, is_same) in [
            ("redis://h:1", "redis://:new@h:1/", true),
            ("REDISS://u:old@h:1/2?ca=a", "rediss://v:new@h:1/2", true),
            ("redis://h:1", "rediss://h:1", false),
            ("redis://h:1", "redis://h:2", false),
            ("redis://:p@h:1/1", "redis://:p@h:1/2", false),
            ("redis+unix:///a?pass=p", "redis+unix:///a?pass=q", true),
            ("redis+unix:///a", "redis+unix:///b", false),
            ("redis+sentinel://:p@a:1,b:2/m", "redis+sentinel://:q@a:1,b:2/m", true),
            ("redis+sentinel://:p@a:1,b:2/m", "redis+sentinel://:p@a:1,b:2/n", false),
        ] {
            assert_eq!(place(one) == place(other), is_same, "{one} {other}");
        }
    }
}
