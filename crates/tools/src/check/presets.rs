//! What is known of three kinds of target, and files to begin with.

/// Names of the presets.
pub const NAMES: [&str; 3] = ["seckill", "hmdp", "lab"];

/// A preset's text.
#[must_use]
pub fn find(name: &str) -> Option<&'static str> {
    match name {
        "seckill" => Some(include_str!("presets/seckill.toml")),
        "hmdp" => Some(include_str!("presets/hmdp.toml")),
        "lab" => Some(include_str!("presets/lab.toml")),
        _ => None,
    }
}

/// A file to begin with: of a preset, or of a backend of one's own.
#[must_use]
pub fn example(name: &str) -> Option<&'static str> {
    match name {
        "own" => Some(include_str!("presets/example-own.toml")),
        "seckill" => Some(include_str!("presets/example-seckill.toml")),
        "hmdp" => Some(include_str!("presets/example-hmdp.toml")),
        "lab" => Some(include_str!("presets/example-lab.toml")),
        _ => None,
    }
}
