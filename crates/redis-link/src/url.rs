//! The forms of `REDIS_URL`.

use std::str::FromStr;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use url::form_urlencoded::{self, Serializer};

use super::tls::TlsFiles;

const SERVER: &str = "it is not of the form redis://user:password@host:port/number";
const SENTINELS: &str = "it is not of the form \
     redis+sentinel://user:password@host:port,host:port/name-of-the-master/number";
const CLUSTER: &str = "it is not of the form redis+cluster://user:password@host:port,host:port";
const SEVERAL: &str = "it names several hosts: begin it with redis+cluster:// for a cluster, or with \
     redis+sentinel:// for sentinels";
const INSECURE: &str = "#insecure is not supported: name the certificate of the authority that signed the \
     server's, as ca";
const NO_TLS: &str = "certificates are for a URL that begins with rediss";
const NO_TEXT: &str = "a file of certificates has a name that is not UTF-8";

/// A text is no Redis URL. Does not repeat it: there may be a password in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedUrl(&'static str);

/// Where Redis is, read from one of these:
///
/// - `redis://[user:password@]host:port[/number]`, `redis+unix:///path`: one server, and the number
///   of its database;
/// - `redis+sentinel://[user:password@]host:port[,host:port…]/name[/number]`: the master that
///   these sentinels call by that name. User and password are the master's; a sentinel is
///   told them, too, if it wants any;
/// - `redis+cluster://[user:password@]host:port[,host:port…]`: a cluster with these nodes,
///   among others.
///
/// `rediss` in place of `redis` is TLS, with all of these servers. Such a URL may end with the names of files,
/// percent-encoded, as [`TlsFiles::named_in`] writes them: `?ca=…&cert=…&key=…`.
#[derive(Debug, Clone)]
pub struct RedisUrl {
    pub(super) place: Place,
    /// `None`: without TLS.
    pub(super) tls: Option<TlsFiles>,
}

#[derive(Debug, Clone)]
pub(super) enum Place {
    Server(Box<ConnectionInfo>),
    Sentinels {
        servers: Vec<ConnectionInfo>,
        name: String,
        /// User, password and number of the master's database.
        login: RedisConnectionInfo,
    },
    Cluster(Vec<ConnectionInfo>),
}

impl RedisUrl {
    /// The user and the password.
    pub(super) fn login(&self) -> &RedisConnectionInfo {
        match &self.place {
            Place::Server(info) => info.redis_settings(),
            Place::Sentinels { login, .. } => login,
            Place::Cluster(seeds) => match &seeds[..] {
                [first, ..] => first.redis_settings(),
                [] => unreachable!("a URL of a cluster names a node"),
            },
        }
    }
}

impl FromStr for RedisUrl {
    type Err = MalformedUrl;

    fn from_str(text: &str) -> Result<Self, MalformedUrl> {
        // As everywhere, a scheme may be written in capitals.
        let scheme = text.find("://").map_or("", |end| &text[..end]);
        let text = format!("{}{}", scheme.to_ascii_lowercase(), &text[scheme.len()..]);
        let (text, tls) = without_tls(&text)?;
        let place = if let Some(rest) = text.strip_prefix("redis+sentinel://") {
            sentinels(rest).ok_or(MalformedUrl(SENTINELS))?
        } else if let Some(rest) = text.strip_prefix("redis+cluster://") {
            cluster(rest).map(Place::Cluster).ok_or(MalformedUrl(CLUSTER))?
        } else if authority(&text).contains(',') {
            return Err(MalformedUrl(SEVERAL));
        } else {
            let info = text.into_connection_info().map_err(|_| MalformedUrl(SERVER))?;
            // Where it is TLS to the `redis` crate and was not to us: blanks stand before it.
            if !matches!(info.addr(), ConnectionAddr::Tcp(..) | ConnectionAddr::Unix(_)) {
                return Err(MalformedUrl(SERVER));
            }
            Place::Server(Box::new(info))
        };
        Ok(Self { place, tls })
    }
}

impl TlsFiles {
    /// The URL with the names of these files at its end, for whoever opens it.
    ///
    /// # Errors
    /// When it is no URL of TLS.
    pub fn named_in(&self, url: &str) -> Result<String, MalformedUrl> {
        let mut query = Serializer::new(String::new());
        for (name, path) in [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)] {
            if let Some(path) = path {
                query.append_pair(name, path.to_str().ok_or(MalformedUrl(NO_TEXT))?);
            }
        }
        let query = query.finish();
        if query.is_empty() {
            return Ok(url.to_owned());
        }
        let with_files = format!("{url}{}{query}", if url.contains('?') { '&' } else { '?' });
        with_files.parse::<RedisUrl>().map(|_| with_files)
    }
}

/// The same URL of a server without TLS, and the files, where it is with TLS.
fn without_tls(text: &str) -> Result<(String, Option<TlsFiles>), MalformedUrl> {
    let (rest, query) = text.split_once('?').unwrap_or((text, ""));
    let (mut files, mut others) = (TlsFiles::default(), Serializer::new(String::new()));
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "ca" => files.ca = Some(value.into_owned().into()),
            "cert" => files.cert = Some(value.into_owned().into()),
            "key" => files.key = Some(value.into_owned().into()),
            _ => _ = others.append_pair(&name, &value),
        }
    }
    let plain = |scheme: &str| {
        let rest = rest.strip_prefix(scheme)?.strip_prefix('s')?;
        (!rest.starts_with("+unix")).then(|| format!("{scheme}{rest}"))
    };
    let Some(mut url) = plain("redis").or_else(|| plain("valkey")) else {
        let named = files != TlsFiles::default();
        return if named { Err(MalformedUrl(NO_TLS)) } else { Ok((text.to_owned(), None)) };
    };
    if text.ends_with("#insecure") {
        return Err(MalformedUrl(INSECURE));
    }
    let others = others.finish();
    if !others.is_empty() {
        url = format!("{url}?{others}");
    }
    Ok((url, Some(files)))
}

/// Hosts and ports.
fn authority(text: &str) -> &str {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts)
}

fn sentinels(rest: &str) -> Option<Place> {
    let (authority, path) = rest.split_once('/')?;
    let (name, number) = path.split_once('/').unwrap_or((path, ""));
    // What a sentinel takes for a name; nothing that would need decoding.
    let is_named = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if name.is_empty() || !name.chars().all(is_named) {
        return None;
    }
    let number_is_one = number.is_empty() || number.bytes().all(|byte| byte.is_ascii_digit());
    let infos = number_is_one.then(|| servers(authority, number))??;
    let login = infos.first()?.redis_settings().clone();
    let nobody = |info: ConnectionInfo| info.set_redis_settings(RedisConnectionInfo::default());
    let servers = infos.into_iter().map(nobody).collect();
    Some(Place::Sentinels { servers, name: name.to_owned(), login })
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
        let info = info.into_connection_info().ok()?;
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
        let Place::Sentinels { servers, name, login } = url.place else { panic!("{url:?}") };
        assert_eq!(hosts(&servers), ["a:1", "::1:2"]);
        assert_eq!(name, "my-master");
        assert_eq!((login.username(), login.password()), (Some("u"), Some("p@")));
        assert_eq!(login.db(), 3);
        assert!(servers.iter().all(|one| one.redis_settings().password().is_none()));

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
            ("rediss+unix:///run/redis.sock", SERVER),
            ("rediss+cluster://:secret@a:1?x=1", CLUSTER),
            ("redis://:secret@a:1,b:2", SEVERAL),
            ("rediss://:secret@a,b:2/1", SEVERAL),
            ("rediss://:secret@a:1/#insecure", INSECURE),
            ("redis://:secret@a:1?ca=/ca.pem", NO_TLS),
            ("http://:secret@a:1", SERVER),
            (" rediss://:secret@a:1", SERVER),
            ("redi\tss://:secret@a:1", SERVER),
            ("", SERVER),
        ] {
            let error = text.parse::<RedisUrl>().unwrap_err();
            assert_eq!(error, MalformedUrl(form), "{text}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_url_of_tls_names_its_files() {
        let files = |ca: &str, cert: &str| TlsFiles {
            ca: Some(ca.into()),
            cert: Some(cert.into()),
            key: None,
        };
        for url in [
            "rediss://:p@h:1/2",
            "valkeys://h",
            "rediss://h?protocol=resp3",
            "REDISS://h",
            "Rediss+Cluster://a:1,b:2",
            "rediss+cluster://a:1,b:2",
            "rediss+sentinel://a:1,b:2/name/3",
        ] {
            assert_eq!(url.parse::<RedisUrl>().unwrap().tls, Some(TlsFiles::default()), "{url}");
            let named = files("/a b&c?.pem", "d.pem").named_in(url).unwrap();
            assert_eq!(
                named.parse::<RedisUrl>().unwrap().tls,
                Some(files("/a b&c?.pem", "d.pem")),
                "{named}"
            );
            assert_eq!(TlsFiles::default().named_in(url).as_deref(), Ok(url));
        }
        for url in ["redis://h", "redis+cluster://a:1", "redis+unix:///run/redis.sock"] {
            assert_eq!(url.parse::<RedisUrl>().unwrap().tls, None, "{url}");
            assert_eq!(files("a", "b").named_in(url), Err(MalformedUrl(NO_TLS)), "{url}");
        }
    }
}
