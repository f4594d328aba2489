//! The addresses of a target.

use load::target::TargetNode;
use program::ConfigError;
use tokio::net::lookup_host;
use url::Url;

use super::read::SourceText;
use super::values::Located;

/// The most addresses.
const MAX_NODES: usize = 64;

/// A node of a target.
#[derive(Debug, Clone)]
pub struct CheckNode {
    /// Where it listens, and how it is called.
    pub node: TargetNode,
    /// As the file says it, without a slash at its end.
    pub url: String,
}

/// Reads and looks up the addresses.
///
/// # Errors
/// When one of them is no `http` or `https` URL, or its host has no address.
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
        let Address { is_tls, host, port, prefix } =
            parse(text).map_err(|why| wrong(format!("{text:?} {why}")))?;
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let target = (bare.as_str(), port);
        let found = lookup_host(target).await;
        let found = found.map_err(|error| wrong(format!("{text:?} has no address: {error}")))?;
        // A server of one's own on `localhost` often listens at IPv4 alone.
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(std::net::SocketAddr::is_ipv6);
        let address = *found.first().ok_or_else(|| wrong(format!("{text:?} has no address")))?;
        let usual = if is_tls { 443 } else { 80 };
        let name = if port == usual { host } else { format!("{host}:{port}") };
        let tls = is_tls.then(|| bare.into());
        let node = TargetNode { address, host: name.into(), prefix: prefix.into(), tls };
        nodes.push(CheckNode { node, url: text.trim_end_matches('/').to_owned() });
    }
    Ok(nodes)
}

/// The parts of an address.
#[derive(Debug, PartialEq)]
struct Address {
    is_tls: bool,
    host: String,
    port: u16,
    /// Without a slash at its end.
    prefix: String,
}

fn parse(text: &str) -> Result<Address, String> {
    let url = Url::parse(text).map_err(|error| format!("is no address: {error}"))?;
    let is_tls = match url.scheme() {
        "http" => false,
        "https" => true,
        other => return Err(format!("is {other}, and check speaks http and https")),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has a user: put an authorization header into [purchase]".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("has a query: put it into the path of the request".to_owned());
    }
    let host = url.host_str().ok_or("names no host")?.to_owned();
    let port = url.port_or_known_default().ok_or("names no port")?;
    let prefix = url.path().trim_end_matches('/').to_owned();
    Ok(Address { is_tls, host, port, prefix })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_url_with_a_prefix_if_any() {
        for (text, is_tls, host, port, prefix) in [
            ("http://a", false, "a", 80, ""),
            ("http://a:81/b/c/", false, "a", 81, "/b/c"),
            ("http://[::1]:81", false, "[::1]", 81, ""),
            ("https://a/b", true, "a", 443, "/b"),
        ] {
            let (host, prefix) = (host.to_owned(), prefix.to_owned());
            assert_eq!(parse(text).unwrap(), Address { is_tls, host, port, prefix });
        }
        for (text, why) in [
            ("127.0.0.1:80", "no address"),
            ("", "no address"),
            ("ftp://a", "http and https"),
            ("http://u:p@a", "a user"),
            ("http://a/?b=c", "a query"),
        ] {
            let refusal = parse(text).unwrap_err();
            assert!(refusal.contains(why), "{text}: {refusal}");
        }
    }
}
