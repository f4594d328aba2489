//! Asking before something is done that cannot be undone.

use std::io::{IsTerminal, Write};

use anyhow::Context;

use super::{Unusable, program};

/// The yes of the user, given already or to be asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Consent {
    given: bool,
}

impl Consent {
    /// `given`: it was, on the command line.
    ///
    /// # Errors
    /// Where it was not, and there is no terminal to ask on.
    pub(super) fn new(given: bool) -> Result<Self, Unusable> {
        if given || (std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            return Ok(Self { given });
        }
        Err(Unusable("without a terminal to ask on this needs --yes".to_owned()))
    }

    /// Whether it may be done; asks on the terminal unless that is known.
    pub(super) fn to(self, question: &str) -> anyhow::Result<bool> {
        if self.given {
            return Ok(true);
        }
        eprint!("{}: {question} [y/N] ", program());
        std::io::stderr().flush().context("cannot ask")?;
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).context("cannot read the answer")?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }
}
