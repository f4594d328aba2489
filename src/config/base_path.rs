//! The path of its host below which a server is.

use std::str::FromStr;

/// The path below which everything is served, `/shop` for example. Empty: everything is served from the root of the host.
#[derive(Debug, Clone, Default)]
pub struct BasePath(String);

impl BasePath {
    /// `None`: the root.
    pub fn below_root(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(&self.0)
    }

    /// The address of a route, whose path begins with a slash, for a client.
    pub fn address(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

impl FromStr for BasePath {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        // These characters need no escape in an address, so proxies and browsers do not rewrite
        // them.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let is_segment =
            |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(is_plain);
        let mut parts = text.split('/');
        let is_path = parts.next() == Some("") && parts.all(is_segment);
        is_path
            .then(|| Self(text.to_owned()))
            .ok_or_else(|| format!("{text:?} is no path like /shop"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_with_a_slash_and_ends_without_one() {
        for path in ["", "/shop", "/a/b-c_d.e~1", "/..a"] {
            assert_eq!(path.parse::<BasePath>().map(|base| base.0), Ok(path.to_owned()));
        }
        for wrong in
            ["shop", "/", "/shop/", "//shop", "/a//b", "/a b", "/.", "/a/..", "/店", "/%20", "/a?b"]
        {
            assert!(wrong.parse::<BasePath>().is_err_and(|error| error.contains(wrong)), "{wrong}");
        }
    }
}
