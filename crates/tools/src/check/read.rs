//! Reads a target's file, with a preset beneath it, and says on which line what is wrong.

use std::path::{Path, PathBuf};

use load::place::without_mark;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::TargetFile;
use super::presets;
use program::ConfigError;

/// The longest file that is read, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// How far a wrong word may be from the right one to be taken for it.
const ALIKE: f64 = 0.75;

/// Makes a sentence of what is wrong, with the line.
pub type Complaint = Box<dyn Fn(String) -> ConfigError + Send + Sync>;

/// The text of a file, to say where in it something is wrong.
#[derive(Debug)]
pub struct SourceText {
    name: String,
    text: String,
    /// The directory that it lies in.
    pub directory: PathBuf,
}

impl SourceText {
    /// Reads `path`.
    ///
    /// # Errors
    /// When there is no such file of text, or a very long one.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let wrong = |why: String| ConfigError(format!("cannot read {}: {why}", path.display()));
        let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
        if !size.is_file() {
            return Err(wrong("it is no file".to_owned()));
        }
        if size.len() > MAX_BYTES {
            return Err(wrong(format!("it is longer than {MAX_BYTES} bytes")));
        }
        let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let text = String::from_utf8(without_mark(&text).to_vec());
        let text = text.map_err(|_| wrong("it is no text".to_owned()))?;
        let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new(".")).to_owned();
        Ok(Self { name: path.display().to_string(), text, directory })
    }

    /// A text that is no file.
    #[must_use]
    pub fn of(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned(), directory: PathBuf::from(".") }
    }

    /// What is wrong at an offset.
    #[must_use]
    pub fn wrong(&self, at: usize, why: impl std::fmt::Display) -> ConfigError {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        ConfigError(format!("{}:{line}: {why}", self.name))
    }

    /// What the file says.
    ///
    /// # Errors
    /// When it is no TOML, or a key is unknown, missing, or of the wrong type.
    pub fn parse(&self) -> Result<TargetFile, ConfigError> {
        let deserializer = toml::Deserializer::from(self.table()?);
        TargetFile::deserialize(deserializer).map_err(|error| self.toml_error(&error))
    }

    /// The file as if its preset were written in it.
    ///
    /// # Errors
    /// When it is no TOML, or there is no such preset.
    pub fn expanded(&self) -> Result<String, ConfigError> {
        let deserializer = toml::Deserializer::from(self.table()?);
        let table = toml::Table::deserialize(deserializer);
        let mut table = table.map_err(|error| self.toml_error(&error))?;
        table.remove("preset");
        toml::to_string_pretty(&table).map_err(|error| ConfigError(error.to_string()))
    }

    fn table(&self) -> Result<Spanned<DeTable<'_>>, ConfigError> {
        let table = DeTable::parse(&self.text).map_err(|error| self.toml_error(&error))?;
        self.over_preset(table)
    }

    /// Puts what the preset says beneath what the file says. All of it counts as standing where the preset
    /// is named.
    fn over_preset<'a>(
        &self,
        mut table: Spanned<DeTable<'a>>,
    ) -> Result<Spanned<DeTable<'a>>, ConfigError> {
        let Some(preset) = table.get_ref().get("preset") else { return Ok(table) };
        let span = preset.span();
        let name = preset.get_ref().as_str();
        let name = name.ok_or_else(|| self.wrong(span.start, "preset is not a text"))?;
        let Some(text) = presets::find(name) else {
            let names = presets::NAMES;
            let why = format!("there is no preset {name:?}{}", suggestion(name, &names));
            return Err(self.wrong(span.start, why));
        };
        let beneath = DeTable::parse(text).map_err(|error| ConfigError(error.to_string()))?;
        let mut beneath = beneath.into_inner();
        if table.get_ref().contains_key("voucher") {
            // The voucher that is on sale, in place of new ones.
            beneath.remove("sale");
        }
        merge(table.get_mut(), beneath, &span, true);
        Ok(table)
    }

    fn toml_error(&self, error: &toml::de::Error) -> ConfigError {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message();
        // serde's words: unknown field `a`, expected one of `b`, `c`
        let mut quoted = message.split('`').skip(1).step_by(2);
        match quoted.next() {
            Some(word) if message.starts_with("unknown field") => {
                let known: Vec<&str> = quoted.collect();
                self.wrong(at, format!("unknown key {word:?}{}", suggestion(word, &known)))
            }
            Some(word) if message.starts_with("unknown variant") => {
                let known: Vec<&str> = quoted.collect();
                self.wrong(at, format!("{word:?} is not known here{}", suggestion(word, &known)))
            }
            Some(word) if message.starts_with("missing field") => {
                self.wrong(at, format!("the key {word:?} is missing"))
            }
            _ => self.wrong(at, message.lines().collect::<Vec<_>>().join(" ")),
        }
    }
}

/// Adds to `table` what only `beneath` has; where `is_top`, of `purchase` and `later` key by key. Rules of `beneath`
/// come behind those of `table`.
fn merge<'a>(
    table: &mut DeTable<'a>,
    beneath: DeTable<'a>,
    span: &std::ops::Range<usize>,
    is_top: bool,
) {
    for (key, mut value) in beneath {
        let name = key.get_ref().to_string();
        let is_mixed = !is_top || ["purchase", "later", "answer"].contains(&name.as_str());
        // Names of headers are the same in capitals and in small letters.
        let same = |key: &str| key == name || !is_top && key.eq_ignore_ascii_case(&name);
        let above = table.iter_mut().find(|(key, _)| same(key.get_ref()));
        match above.map(|(_, above)| above) {
            Some(above) if is_mixed => {
                place(&mut value, span);
                match (above.get_mut(), value.into_inner()) {
                    (DeValue::Table(above), DeValue::Table(below)) => {
                        merge(above, below, span, false);
                    }
                    (DeValue::Array(above), DeValue::Array(below)) => {
                        below.into_iter().for_each(|rule| above.push(rule));
                    }
                    _ => {}
                }
            }
            Some(_) => {}
            None => {
                place(&mut value, span);
                table.insert(Spanned::new(span.clone(), key.into_inner()), value);
            }
        }
    }
}

/// Lets a value stand at `span`.
fn place(value: &mut Spanned<DeValue<'_>>, span: &std::ops::Range<usize>) {
    match value.get_mut() {
        DeValue::Array(values) => values.iter_mut().for_each(|value| place(value, span)),
        DeValue::Table(table) => table.iter_mut().for_each(|(_, value)| place(value, span)),
        _ => {}
    }
    let inner = std::mem::replace(value, Spanned::new(span.clone(), DeValue::Boolean(false)));
    *value = Spanned::new(span.clone(), inner.into_inner());
}

/// What was probably meant, as the end of a sentence.
#[must_use]
pub fn suggestion(word: &str, known: &[&str]) -> String {
    let alike = |other: &&str| strsim::jaro_winkler(word, other);
    let best = known.iter().copied().max_by(|a, b| alike(a).total_cmp(&alike(b)));
    match best {
        Some(best) if alike(&best) >= ALIKE => format!(", did you mean {best:?}?"),
        Some(_) if known.len() <= 12 => format!(": known are {}", known.join(", ")),
        _ => String::new(),
    }
}
