//! The buyers of a check, with their tokens.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use load::calls::{self, CallAnswer};
use load::place::{AnswerPart, Place, without_mark};
use load::template::Values;
use program::ConfigError;
use serde_json::Value;

use super::addresses::CheckNode;
use super::command::shorten;
use super::target::{CheckRequest, CheckTarget, TokenSource};

/// The longest file of tokens, in bytes.
const MAX_BYTES: u64 = 512 * 1024 * 1024;
/// Logins at once.
const LOGINS_AT_ONCE: usize = 16;
/// How long one login may take.
const LOGIN_WITHIN: Duration = Duration::from_secs(30);

/// A buyer. Without `Debug`: the token is as good as the user.
#[derive(Clone)]
pub struct CheckBuyer {
    /// In place of `{user}`, and in what is said of it.
    pub user: Arc<str>,
    /// In place of `{token}`.
    pub token: Arc<str>,
}

/// At most `count` buyers.
///
/// # Errors
/// When there is none, or a source of tokens cannot be used.
pub async fn read(target: &CheckTarget, count: usize) -> Result<Vec<CheckBuyer>, ConfigError> {
    match &target.tokens {
        TokenSource::Numbers { first } => Ok((*first..).take(count).map(numbered).collect()),
        TokenSource::Csv { path, user, token, wrong } => {
            let pairs = read_csv(path, user, token).map_err(wrong)?;
            distinct(pairs, count).map_err(|why| wrong(format!("{}: {why}", path.display())))
        }
        TokenSource::Lines { path, wrong } => {
            let text = read_text(path).map_err(wrong)?;
            let lines = text.lines().map(str::trim).enumerate();
            let lines = lines.filter(|(_, token)| !token.is_empty());
            let pairs = lines.map(|(number, token)| ((number + 1).to_string(), token.to_owned()));
            distinct(pairs.collect(), count)
                .map_err(|why| wrong(format!("{}: {why}", path.display())))
        }
        TokenSource::Login { first, request, place } => {
            log_in(&target.nodes, (*first..).take(count).collect(), request, place).await
        }
    }
}

fn numbered(number: u64) -> CheckBuyer {
    let name: Arc<str> = number.to_string().into();
    CheckBuyer { user: Arc::clone(&name), token: name }
}

fn read_text(path: &Path) -> Result<String, String> {
    let wrong = |why: String| format!("cannot read {}: {why}", path.display());
    let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if !size.is_file() || size.len() > MAX_BYTES {
        return Err(wrong(format!("it is no file of at most {MAX_BYTES} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

fn read_csv(path: &Path, user: &str, token: &str) -> Result<Vec<(String, String)>, String> {
    let text = read_text(path)?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let wrong = |error: csv::Error| format!("{}: {error}", path.display());
    let header = reader.headers().map_err(wrong)?.clone();
    let column = |name: &str| {
        header.iter().position(|column| column == name).ok_or_else(|| {
            let columns = shorten(&header.iter().collect::<Vec<_>>().join(", "));
            format!("{} has no column {name:?}: its first line is {columns}", path.display())
        })
    };
    let (user, token) = (column(user)?, column(token)?);
    let mut pairs = Vec::new();
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        let field = |at: usize| record.get(at).unwrap_or_default().to_owned();
        pairs.push((field(user), field(token)));
    }
    Ok(pairs)
}

/// The first `count` users. A user who is there twice would buy twice, and be taken for two.
fn distinct(pairs: Vec<(String, String)>, count: usize) -> Result<Vec<CheckBuyer>, String> {
    let (mut users, mut tokens) = (HashSet::new(), HashSet::new());
    let mut buyers = Vec::new();
    for (user, token) in pairs {
        if user.is_empty() || token.is_empty() {
            return Err(format!("user {user:?} has no name or no token"));
        }
        if user.contains(char::is_control) || token.contains(char::is_control) {
            return Err(format!("the token of user {user:?} has a control character in it"));
        }
        if users.insert(user.clone()) && tokens.insert(token.clone()) {
            buyers.push(CheckBuyer { user: user.into(), token: token.into() });
        }
    }
    if buyers.is_empty() {
        return Err("there is no token in it".to_owned());
    }
    buyers.truncate(count);
    Ok(buyers)
}

/// Of each login only the token is kept, whatever else the target sends.
async fn log_in(
    nodes: &[CheckNode],
    users: Vec<u64>,
    request: &CheckRequest,
    place: &Place,
) -> Result<Vec<CheckBuyer>, ConfigError> {
    let mut buyers: Vec<CheckBuyer> = Vec::new();
    let mut owners: HashMap<Arc<str>, Arc<str>> = HashMap::new();
    for users in users.chunks(LOGINS_AT_ONCE) {
        let names: Vec<Arc<str>> = users.iter().map(|user| user.to_string().into()).collect();
        let turns = names.iter().zip(nodes.iter().cycle());
        let call = |(user, node): (&Arc<str>, _)| request.call(node, &of_user(user));
        let calls: Option<Vec<_>> = turns.map(call).collect();
        let unwritable = || ConfigError("a login cannot be written as HTTP".to_owned());
        let calls = calls.ok_or_else(unwritable)?;
        let answers = calls::send(&calls, LOGINS_AT_ONCE, LOGIN_WITHIN).await;
        for (user, answer) in names.into_iter().zip(answers) {
            let wrong = |why: String| ConfigError(format!("the login of user {user} {why}"));
            let answer = answer.ok_or_else(|| wrong("has no answer".to_owned()))?;
            let token: Arc<str> =
                place.find(&mut answer.answer()).map(Arc::from).ok_or_else(|| {
                    wrong(format!("has no token {}: {}", at(place), without_values(&answer)))
                })?;
            if let Some(other) = owners.insert(Arc::clone(&token), Arc::clone(&user)) {
                return Err(wrong(format!(
                    "gives the token of user {other}: everybody would be one buyer"
                )));
            }
            buyers.push(CheckBuyer { user, token });
        }
    }
    Ok(buyers)
}

/// What a login's placeholders stand for.
#[must_use]
pub fn of_user(user: &str) -> Values<'_> {
    Values { user, token: "", taken: &[] }
}

/// Where something was looked for, as words.
#[must_use]
pub fn at(place: &Place) -> String {
    match &place.part {
        AnswerPart::Pointer(pointer) => format!("at {pointer}"),
        AnswerPart::Header(name) => format!("in the header {name}"),
        AnswerPart::Cookie(name) => format!("in the cookie {name}"),
    }
}

/// An answer whose values may be secrets.
fn without_values(answer: &CallAnswer) -> String {
    let keys = match serde_json::from_slice(without_mark(&answer.body)) {
        Ok(Value::Object(body)) => {
            let keys: Vec<&str> = body.keys().map(String::as_str).collect();
            format!("keys {}", shorten(&keys.join(", ")))
        }
        _ => "no JSON object".to_owned(),
    };
    format!("status {}, {keys}", answer.status)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let buyers = distinct(read_csv(file.path(), "user_id", "token")?, 2)?;
        Ok(buyers.iter().map(|it| (it.user.to_string(), it.token.to_string())).collect())
    }

    #[test]
    fn tokens_come_by_the_names_of_their_columns_each_user_once() {
        let two = Ok(vec![("1".into(), "a".into()), ("2".into(), "b".into())]);
        assert_eq!(read("user_id,token\n1,a\n2,b\n3,c\n"), two);
        assert_eq!(read("\u{feff}x,token,user_id\n9, a ,1\n9,z,1\n9,b,2\n"), two);
    }

    #[test]
    fn a_file_without_usable_tokens_is_refused_in_a_sentence() {
        for (text, why) in [
            ("", "no column"),
            ("user,token\n1,a", "its first line is user, token"),
            ("user_id,token\n", "no token in it"),
            ("user_id,token\n1,\n", "no token"),
            ("user_id,token\n1,\"a\nb\"\n", "control character"),
            ("user_id,token\n1,a,b\n", "found record with 3 fields"),
        ] {
            let refusal = read(text).unwrap_err();
            assert!(refusal.contains(why), "{text:?}: {refusal}");
        }
    }
}
