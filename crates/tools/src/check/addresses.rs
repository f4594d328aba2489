//! The addresses of a target.

use load::target::TargetNode;
use program::ConfigError;
use tokio::net::lookup_host;
use url::Url;

use super::file::Located;
use super::read::SourceText;

/// The most addresses.
const MAX_NODES: usize = 64;

/// A node of a target.
#[derive(Debug, Clone)]
pub struct CheckNode {
    /// Where it listens, and how it is called.
    pub node: TargetNode,
    /// In front of every path; without a slash at its end.
    pub prefix: String,
    /// As the file says it, without a slash at its end.
    pub url: String,
}

/// Reads and looks up the addresses.
///
/// # Errors
/// When one of them is no `http` URL, or its host has no address.
pub async fn resolve(
    addresses: &Located<Vec<String>>,
    source: &SourceText,
) -> Result<Vec<CheckNode>, ConfigError> {
    let wrong = |why: String| source.wrong(addresses.at, why);
    if addresses.value.is_empty() {
        return Err(wrong("there is no address".to_owned()));
    }
    if addresses.value.len() > MAX_NODES {
        return Err(wrong(format!("there are more than {MAX_NODES} addresses")));
    }
    let mut nodes = Vec::new();
    for text in &addresses.value {
        let (host, port, prefix) = parse(text).map_err(|why| wrong(format!("{text:?} {why}")))?;
        let target = (host.trim_start_matches('[').trim_end_matches(']'), port);
        let found = lookup_host(target).await;
        let found = found.map_err(|error| wrong(format!("{text:?} has no address: {error}")))?;
        // A server of one's own on `localhost` often listens at IPv4 alone.
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(std::net::SocketAddr::is_ipv6);
        let address = *found.first().ok_or_else(|| wrong(format!("{text:?} has no address")))?;
        let name = if port == 80 { host } else { format!("{host}:{port}") };
        let node = TargetNode { address, host: name.into() };
        nodes.push(CheckNode { node, prefix, url: text.trim_end_matches('/').to_owned() });
    }
    Ok(nodes)
}

fn parse(text: &str) -> Result<(String, u16, String), String> {
    let url = Url::parse(text).map_err(|error| format!("is no address: {error}"))?;
    match url.scheme() {
        "http" => {}
        "https" => {
            return Err("is https, and check speaks plain HTTP: name the application's own port, \
                        behind what ends TLS"
                .to_owned());
        }
        other => return Err(format!("is {other}, and check speaks plain http")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has a user: put an authorization header into [purchase]".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("has a query: put it into the path of the request".to_owned());
    }
    let host = url.host_str().ok_or("names no host")?.to_owned();
    let port = url.port_or_known_default().ok_or("names no port")?;
    Ok((host, port, url.path().trim_end_matches('/').to_owned()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_plain_http_with_a_prefix_if_any() {
        let parsed = |text| parse(text).unwrap();
        assert_eq!(parsed("http://a"), ("a".to_owned(), 80, String::new()));
        assert_eq!(parsed("http://a:81/b/c/"), ("a".to_owned(), 81, "/b/c".to_owned()));
        assert_eq!(parsed("http://[::1]:81"), ("[::1]".to_owned(), 81, String::new()));
        for (text, why) in [
            ("127.0.0.1:80", "no address"),
            ("", "no address"),
            ("https://a", "plain HTTP"),
            ("ftp://a", "plain http"),
            ("http://u:p@a", "a user"),
            ("http://a/?b=c", "a query"),
        ] {
            let refusal = parse(text).unwrap_err();
            assert!(refusal.contains(why), "{text}: {refusal}");
        }
    }
}
