//! Puts new vouchers on sale.

use load::calls;
use load::place::Place;
use load::template::Values;
use program::ConfigError;

use super::command::{self, COMMAND_WITHIN, shorten};
use super::target::{CheckTarget, VoucherSource};

/// Puts a voucher on sale, and returns its id; of those that are listed the one with this `number`. `None`: the file
/// names the one that is on sale.
///
/// # Errors
/// When none is left, the command or request fails, or does not say an id of letters, digits, `_` and `-`.
pub async fn put_on_sale(
    target: &CheckTarget,
    stock: u32,
    number: usize,
) -> Result<Option<String>, ConfigError> {
    let wrong = |why: String| ConfigError(format!("a new voucher cannot be put on sale: {why}"));
    let node = &target.nodes[0];
    match &target.vouchers {
        VoucherSource::Fixed(_) => Ok(None),
        VoucherSource::Listed(vouchers) => match vouchers.get(number) {
            Some(voucher) => Ok(Some(voucher.clone())),
            None => Err(wrong(format!("[sale] lists {}", vouchers.len()))),
        },
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
        VoucherSource::Request { request, pointer } => {
            let taken = [("stock".into(), stock.to_string())];
            let call = request.call(node, &Values { user: "", token: "", taken: &taken });
            let call = call.ok_or_else(|| wrong("the request cannot be written".to_owned()))?;
            let answer = calls::send(&[call], 1, COMMAND_WITHIN).await.pop().flatten();
            let answer = answer.ok_or_else(|| wrong(format!("{} does not answer", node.url)))?;
            let found = Place::pointer(pointer).find(&mut answer.answer());
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
