//! Asking before something is done that cannot be undone.

use std::io::{IsTerminal, Write};

use anyhow::Context;

use crate::config::ConfigError;

/// Asks `question` on the terminal, unless `yes` was said already.
///
/// # Errors
/// Where there is no terminal to ask on: then it has to be said with `--yes`.
pub(super) fn given(yes: bool, question: &str) -> anyhow::Result<bool> {
    if yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let must = "there is no terminal to ask on, say --yes to do it without being asked";
        return Err(ConfigError(must.to_owned()).into());
    }
    eprint!("seckill: {question} [y/N] ");
    std::io::stderr().flush().context("cannot ask")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
