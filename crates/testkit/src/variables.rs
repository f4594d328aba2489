//! What whoever runs the tests says in environment variables.

/// `None` where it is not set, or empty.
#[allow(clippy::disallowed_methods)] // there is no other way to tell a test something
pub fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// A number, as in `SEED=7`.
pub fn number(name: &str) -> Option<u64> {
    let text = text(name)?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a whole number: {text:?}")))
}
