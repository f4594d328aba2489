//! The address of PostgreSQL, as people write it.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

use crate::store::postgres::supported;

/// The URL in a form that sqlx and libpq read alike.
pub(super) fn postgres_url(text: &str) -> Result<String, String> {
    // The parser's own words could repeat a password.
    let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
    let Some(rest) = rest else {
        return Err("it must begin with postgres://".to_owned());
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    let mut parameters = rest.split_once('?').map_or("", |(_, query)| query).split('&');
    // The log names those that are not supported when it is read for the first connection.
    let read = supported(text);
    if hosts.contains(',') || parameters.any(|one| one.starts_with("host=") && one.contains(',')) {
        return Err(
            "it names several hosts: name one, an address that follows the primary".to_owned()
        );
    }
    let Ok(options) = PgConnectOptions::from_str(&read?.0) else {
        return Err("it is not of the form postgres://user:password@host:port/database".to_owned());
    };
    let Some(address) =
        options.get_host().strip_prefix('[').and_then(|host| host.strip_suffix(']'))
    else {
        return Ok(text.to_owned());
    };
    // sqlx takes the brackets of an IPv6 address for a part of a name.
    let mut url = url::Url::parse(text).map_err(|_| "it is not a URL".to_owned())?;
    url.query_pairs_mut().append_pair("hostaddr", address);
    Ok(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_loses_its_brackets_and_all_else_stays() {
        for (text, host, port) in [
            ("postgres://u:p@[::1]:5433/d?sslmode=disable", "::1", 5433),
            ("postgresql://[2001:db8::7]/d", "2001:db8::7", 5432),
            ("postgres://u@127.0.0.1:1/d", "127.0.0.1", 1),
            ("postgres://u@db.example/d", "db.example", 5432),
        ] {
            let Ok(url) = postgres_url(text) else { unreachable!("{text}") };
            let Ok(options) = PgConnectOptions::from_str(&url) else { unreachable!("{url}") };
            assert_eq!((options.get_host(), options.get_port()), (host, port), "{text}");
            assert_eq!(options.get_database(), Some("d"), "{text}");
        }
    }

    #[test]
    fn several_hosts_are_refused() {
        for text in [
            "postgres://u:p@a,b/d",
            "postgres://u:p@a:5432,b:5433/d",
            "postgres://u:p@/d?host=a,b",
            "postgres://u:p@c/d?host=a,b",
        ] {
            assert!(
                postgres_url(text).is_err_and(|error| error.contains("several hosts")),
                "{text}"
            );
        }
        for comma in ["postgres://u:p,q@a/d", "postgres://a/d?application_name=x,y"] {
            assert!(postgres_url(comma).is_ok(), "{comma}");
        }
    }
}
