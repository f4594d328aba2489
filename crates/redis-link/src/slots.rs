//! The slots of a cluster: which a key is in, and what a node says about the servers of each.

use redis::{FromRedisValue, ParsingError, Value, from_redis_value};

pub(super) const SLOTS: usize = 16_384;

/// The slot of a key, as the [cluster specification] has it: of what stands in its first
/// braces, if anything does.
///
/// [cluster specification]: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
pub(super) fn slot_of(key: &[u8]) -> u16 {
    crc16(tag(key).unwrap_or(key)) % SLOTS as u16
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let begin = key.iter().position(|byte| *byte == b'{')? + 1;
    let length = key[begin..].iter().position(|byte| *byte == b'}')?;
    (length > 0).then(|| &key[begin..begin + length])
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            let overflows = crc & 0x8000 != 0;
            (crc << 1) ^ if overflows { 0x1021 } else { 0 }
        })
    })
}

/// Where a node of a cluster is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port }
    }

    /// `host:port`; without a host (`?`: it is not known) it is the one of the node that said so.
    pub(super) fn parse(text: &str, speaker: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = if names_nobody(host) { speaker } else { host };
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

fn names_nobody(host: &str) -> bool {
    host.is_empty() || host == "?"
}

/// Slots from the first to the last, and their master; its host is `None` when it is the
/// one that was asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) host: Option<String>,
    pub(super) port: u16,
}

/// The answer to CLUSTER SLOTS: first, last, master, replicas; a server is its host, its
/// port, and what does not matter here.
impl FromRedisValue for Range {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (first, last, master) = match <[Value; 3]>::try_from(beginning(value)?) {
            Ok([first, last, master]) => (first, last, master),
            Err(_) => return Err("a range of CLUSTER SLOTS is too short".into()),
        };
        let mut master = beginning(master)?.into_iter();
        let (host, port) = (master.next().unwrap_or(Value::Nil), master.next());
        let host: Option<String> = from_redis_value(host)?;
        Ok(Self {
            first: from_redis_value(first)?,
            last: from_redis_value(last)?,
            host: host.filter(|host| !names_nobody(host)),
            port: from_redis_value(port.unwrap_or(Value::Nil))?,
        })
    }
}

/// The first three elements of an array, or as many as there are.
fn beginning(value: Value) -> Result<Vec<Value>, ParsingError> {
    let mut all: Vec<Value> = from_redis_value(value)?;
    all.truncate(3);
    Ok(all)
}

/// What a node says of a slot that it does not serve: where the slot is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) slot: u16,
    pub(super) address: Address,
    /// Whether the slot is there already; otherwise it is on its way there.
    pub(super) moved: bool,
}

impl Redirect {
    pub(super) fn from_error(error: &redis::RedisError, speaker: &str) -> Option<Self> {
        let (address, slot) = error.redirect_node()?;
        let address = Address::parse(address, speaker)?;
        Some(Self { slot, address, moved: error.code() == Some("MOVED") })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_what_redis_makes_of_a_key() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // By `CLUSTER KEYSLOT`.
        for (key, slot) in [("foo", 12182), ("bar", 5061), ("", 0), ("lock:order:1", 10688)] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        for (key, same) in [
            ("{foo}:bar", "foo"),
            ("x{foo}{bar}", "foo"),
            ("redisson_lock__channel:{lock:1}", "lock:1"),
            ("{}foo", "{}foo"),
            ("{foo", "{foo"),
            ("a{b{c}d}", "b{c"),
        ] {
            assert_eq!(slot_of(key.as_bytes()), crc16(same.as_bytes()) % 16_384, "{key}");
        }
    }

    #[test]
    fn an_address_without_a_host_is_on_the_speakers() {
        let parse = |text| Address::parse(text, "h").map(|address| (address.host, address.port));
        assert_eq!(parse("10.0.0.1:7000"), Some(("10.0.0.1".to_owned(), 7000)));
        assert_eq!(parse(":7000"), Some(("h".to_owned(), 7000)));
        assert_eq!(parse("?:7000"), Some(("h".to_owned(), 7000)));
        assert_eq!(parse("::1:7000"), Some(("::1".to_owned(), 7000)));
        assert_eq!(parse("h"), None);
    }

    #[test]
    fn a_range_names_its_master_and_perhaps_no_host() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let server = |host| Value::Array(vec![host, Value::Int(7000), text("id")]);
        let unknown = [(Value::Nil, None), (text(""), None), (text("?"), None)];
        for (host, read) in [(text("h"), Some("h"))].into_iter().chain(unknown) {
            let replica = server(text("replica"));
            let value =
                Value::Array(vec![Value::Int(0), Value::Int(16_383), server(host), replica]);
            let range: Range = from_redis_value(value).unwrap();
            assert_eq!((range.first, range.last, range.port), (0, 16_383, 7000));
            assert_eq!(range.host.as_deref(), read);
        }
        assert!(from_redis_value::<Range>(Value::Array(vec![Value::Int(0)])).is_err());
    }
}
