//! The forms of `REDIS_URL`.

use std::str::FromStr;

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use super::sentinels::{Sentinels, tcp_settings};

const SERVER: &str = "redis://user:password@host:port/number";
const SENTINELS: &str =
    "redis+sentinel://user:password@host:port,host:port/name-of-the-master/number";
const CLUSTER: &str = "redis+cluster://user:password@host:port,host:port";

/// A text is no Redis URL. Does not repeat it: there may be a password in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not of the form {0}")]
pub struct MalformedUrl(&'static str);

/// Where Redis is, read from one of these:
///
/// - `redis://[user:password@]host:port[/number]`, `rediss://` for TLS, `redis+unix:///path`:
///   one server, and the number of its database;
/// - `redis+sentinel://[user:password@]host:port[,host:port…]/name[/number]`: the master that
///   these sentinels call by that name. User and password are the master's; a sentinel is
///   told them, too, if it wants any;
/// - `redis+cluster://[user:password@]host:port[,host:port…]`: a cluster with these nodes,
///   among others.
#[derive(Debug, Clone)]
pub struct RedisUrl {
    pub(super) place: Place,
}

#[derive(Debug, Clone)]
pub(super) enum Place {
    Server(Client),
    Sentinels(Sentinels),
    Cluster(Vec<ConnectionInfo>),
}

impl FromStr for RedisUrl {
    type Err = MalformedUrl;

    fn from_str(text: &str) -> Result<Self, MalformedUrl> {
        let place = if let Some(rest) = text.strip_prefix("redis+sentinel://") {
            sentinels(rest).map(Place::Sentinels).ok_or(MalformedUrl(SENTINELS))?
        } else if let Some(rest) = text.strip_prefix("redis+cluster://") {
            cluster(rest).map(Place::Cluster).ok_or(MalformedUrl(CLUSTER))?
        } else {
            server(text).map(Place::Server).ok_or(MalformedUrl(SERVER))?
        };
        Ok(Self { place })
    }
}

fn server(text: &str) -> Option<Client> {
    let info = text.into_connection_info().ok()?;
    Client::open(info.set_tcp_settings(tcp_settings())).ok()
}

fn sentinels(rest: &str) -> Option<Sentinels> {
    let (authority, path) = rest.split_once('/')?;
    let (name, number) = path.split_once('/').unwrap_or((path, ""));
    // What a sentinel takes for a name; nothing that would need decoding.
    let is_named = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if name.is_empty() || !name.chars().all(is_named) {
        return None;
    }
    let number_is_one = number.is_empty() || number.bytes().all(|byte| byte.is_ascii_digit());
    let infos = number_is_one.then(|| servers(authority, number))??;
    let master = infos.first()?.redis_settings().clone();
    let nobody = |info: ConnectionInfo| info.set_redis_settings(RedisConnectionInfo::default());
    Some(Sentinels::new(infos.into_iter().map(nobody).collect(), name, master))
}

fn cluster(rest: &str) -> Option<Vec<ConnectionInfo>> {
    servers(rest.strip_suffix('/').unwrap_or(rest), "")
}

/// Several servers with the same user, password and number.
fn servers(authority: &str, number: &str) -> Option<Vec<ConnectionInfo>> {
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (format!("{login}@"), hosts),
        None => (String::new(), authority),
    };
    let server = |host: &str| {
        let url = url::Url::parse(&format!("redis://{login}{host}/{number}")).ok()?;
        // Sentinels and masters have different usual ports: none is guessed.
        url.port()?;
        let plain = url.path() == format!("/{number}") && url.query().is_none();
        let info = (plain && url.fragment().is_none()).then_some(url)?;
        let info = info.into_connection_info().ok()?.set_tcp_settings(tcp_settings());
        matches!(info.addr(), ConnectionAddr::Tcp(..)).then_some(info)
    };
    hosts.split(',').map(server).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn hosts(infos: &[ConnectionInfo]) -> Vec<String> {
        infos.iter().map(|info| info.addr().to_string()).collect()
    }

    #[test]
    fn each_form_is_read() {
        for text in [
            "redis://h",
            "redis://:p@h:1/2",
            "rediss://h",
            "redis+unix:///run/redis.sock",
            "unix:///run/redis.sock",
        ] {
            let url: RedisUrl = text.parse().unwrap();
            assert!(matches!(url.place, Place::Server(_)), "{text}");
        }
        let url: RedisUrl = "redis+sentinel://u:p%40@a:1,[::1]:2/my-master/3".parse().unwrap();
        let Place::Sentinels(sentinels) = url.place else { panic!("{url:?}") };
        assert_eq!(hosts(sentinels.addresses()), ["a:1", "::1:2"]);
        assert_eq!(sentinels.name(), "my-master");
        let master = sentinels.login();
        assert_eq!((master.username(), master.password()), (Some("u"), Some("p@")));
        assert_eq!(master.db(), 3);
        assert!(sentinels.addresses().iter().all(|one| one.redis_settings().password().is_none()));

        for text in ["redis+cluster://:p@a:1,b:2", "redis+cluster://:p@a:1,b:2/"] {
            let url: RedisUrl = text.parse().unwrap();
            let Place::Cluster(seeds) = url.place else { panic!("{url:?}") };
            assert_eq!(hosts(&seeds), ["a:1", "b:2"]);
            assert!(seeds.iter().all(|seed| seed.redis_settings().password() == Some("p")));
        }
    }

    #[test]
    fn what_is_malformed_is_told_by_the_form_and_without_the_password() {
        for (text, form) in [
            ("redis+sentinel://:secret@a:1", SENTINELS),
            ("redis+sentinel://:secret@a:1/", SENTINELS),
            ("redis+sentinel://:secret@a/name", SENTINELS),
            ("redis+sentinel://:secret@/name", SENTINELS),
            ("redis+sentinel://:secret@a:1,/name", SENTINELS),
            ("redis+sentinel://:secret@a:1,b/name", SENTINELS),
            ("redis+sentinel://:secret@a:1/na me", SENTINELS),
            ("redis+sentinel://:secret@a:1/name/first", SENTINELS),
            ("redis+sentinel://:secret@a:1/name/1/2", SENTINELS),
            ("redis+sentinel://:secret@a:1/name?x=1", SENTINELS),
            ("redis+cluster://:secret@a:1,b", CLUSTER),
            ("redis+cluster://:secret@a:1/1", CLUSTER),
            ("redis+cluster://:secret@a:1?x=1", CLUSTER),
            ("redis+cluster://:secret@a:1#x", CLUSTER),
            ("redis+cluster://", CLUSTER),
            ("redis+cluster://a:99999", CLUSTER),
            ("redis://:secret@a:port", SERVER),
            ("redis+clusters://:secret@a:1", SERVER),
            ("http://:secret@a:1", SERVER),
            ("", SERVER),
        ] {
            let error = text.parse::<RedisUrl>().unwrap_err();
            assert_eq!(error, MalformedUrl(form), "{text}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
