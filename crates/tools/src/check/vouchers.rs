//! Puts new vouchers on sale.

use load::answer_rules::id;
use load::calls;
use program::ConfigError;
use serde_json::Value;

use super::command::{self, COMMAND_WITHIN, shorten};
use super::target::{CheckTarget, VoucherSource};

/// Puts a voucher on sale, and returns its id. `None`: the file names the one that is on sale.
///
/// # Errors
/// When the command or request fails, or does not say an id of letters, digits, `_` and `-`.
pub async fn put_on_sale(target: &CheckTarget, stock: u32) -> Result<Option<String>, ConfigError> {
    let wrong = |why: String| ConfigError(format!("a new voucher cannot be put on sale: {why}"));
    let node = &target.nodes[0];
    match &target.vouchers {
        VoucherSource::Fixed(_) => Ok(None),
        VoucherSource::Command(command) => {
            let number = stock.to_string();
            let environment = [("STOCK", number.as_str()), ("ADDRESS", &node.url)];
            let ran = command::run(command, &target.directory, &environment, COMMAND_WITHIN).await;
            let said = ran.map_err(|why| wrong(format!("the command {why}")))?;
            let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
            let last = last.map(|line| line.trim_matches('"').to_owned());
            match last.filter(|id| is_plain(id)) {
                Some(id) => Ok(Some(id)),
                None => Err(wrong(format!("the command prints no id: {:?}", shorten(&said)))),
            }
        }
        VoucherSource::Request { texts, pointer } => {
            let call = texts.call(node, stock);
            let call = call.ok_or_else(|| wrong("the request cannot be written".to_owned()))?;
            let answer = calls::send(&[call], 1, COMMAND_WITHIN).await.pop().flatten();
            let answer = answer.ok_or_else(|| wrong(format!("{} does not answer", node.url)))?;
            let body: Option<Value> = serde_json::from_slice(&answer.body).ok();
            let found = body.as_ref().and_then(|body| body.pointer(pointer)).and_then(id);
            found.filter(|id| is_plain(id)).map(Some).ok_or_else(|| {
                let said = shorten(&String::from_utf8_lossy(&answer.body));
                wrong(format!("no id at {pointer}: status {}, {said}", answer.status))
            })
        }
    }
}

/// Whether an id may stand without quotes in a path and in the statements of a books command.
fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}
