//! Finds everything that is wrong with a target's file, before anything is sent.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use load::outcome::{ACCEPTED, ORDERED};
use load::template::Placeholder;
use program::ConfigError;

use super::addresses::resolve;
use super::file::{AnswerTable, BooksTable, LaterTable, SaleTable, TargetFile, TokensTable};
use super::read::{Complaint, SourceText};
use super::rules::outcome;
use super::target::{
    AskingLater, BooksReader, BooksSource, CheckRequest, CheckTarget, TokenSource, VoucherSource,
};
use super::values::{DurationText, Located};

/// How long buyers ask what became of a purchase, and how long books are waited for, unless the file says.
const WITHIN: Duration = Duration::from_secs(30);
/// The longest that a file may say.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads the parts of a file.
pub(super) struct Compiler<'a> {
    pub(super) source: &'a Arc<SourceText>,
}

impl CheckTarget {
    /// Reads the file at `path`, and finds what is wrong with it.
    ///
    /// # Errors
    /// [`ConfigError`], with the line.
    pub async fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::compile(SourceText::read(path)?).await
    }

    /// Finds what is wrong with a file.
    ///
    /// # Errors
    /// [`ConfigError`], with the line.
    pub async fn compile(source: SourceText) -> Result<Self, ConfigError> {
        let file = source.parse()?;
        let source = Arc::new(source);
        let compiler = Compiler { source: &source };
        let nodes = resolve(&file.addresses, &source).await?;
        let purchase = compiler.purchase(&file)?;
        let later = file.later.as_ref().map(|later| compiler.later(later)).transpose()?;
        compiler.check_answers(&file, later.as_ref())?;
        let tokens = compiler.tokens(file.tokens.as_ref(), file.first_user.unwrap_or(1))?;
        compiler.check_tokens(&file, &purchase, later.as_ref(), &tokens)?;
        let books = file.books.as_ref().map(|books| compiler.books(books)).transpose()?;
        let vouchers = compiler.vouchers(&file)?;
        let stock = file.sale.as_ref().and_then(|sale| sale.value.stock.as_ref());
        if let Some(none) = stock.filter(|stock| stock.value == 0) {
            return Err(source.wrong(none.at, "a stock of 0 cannot be sold"));
        }
        Ok(Self {
            nodes,
            directory: source.directory.clone(),
            per_user: file.per_user.map_or(Some(1), |most| most.value.0),
            closed: file.closed.into_iter().map(|id| id.0).collect(),
            pause: duration(file.pause, Duration::ZERO),
            purchase,
            later,
            vouchers,
            stock: stock.map(|stock| stock.value),
            tokens,
            books,
        })
    }
}

impl Compiler<'_> {
    pub(super) fn pointer(&self, at: usize, pointer: &str) -> Result<String, ConfigError> {
        match pointer.is_empty() || pointer.starts_with('/') {
            true => Ok(pointer.to_owned()),
            false => Err(self.source.wrong(at, format!("{pointer:?} is no JSON pointer"))),
        }
    }

    fn later(&self, table: &Located<LaterTable>) -> Result<AskingLater, ConfigError> {
        let LaterTable { request, within, answer } = &table.value;
        if !answer.iter().any(|rule| outcome(rule.value.is) == ORDERED) {
            let why = "no [[later.answer]] is = \"ordered\": nobody would ever hear yes";
            return Err(self.source.wrong(table.at, why));
        }
        self.check_take(request)?;
        let answers: Vec<_> = answer.iter().collect();
        let name: Arc<str> = "order".into();
        let request = self.request(request, Method::GET, &answers, &[Arc::clone(&name)])?;
        let by_order = request.has(&Placeholder::Taken(name));
        Ok(AskingLater { request, within: self.bound(table.at, *within)?, by_order })
    }

    /// Whether somebody can hear yes.
    fn check_answers(
        &self,
        file: &TargetFile,
        later: Option<&AskingLater>,
    ) -> Result<(), ConfigError> {
        let has = |code| file.answer.iter().any(|rule| outcome(rule.value.is) == code);
        let accepted = |rule: &&Located<AnswerTable>| outcome(rule.value.is) == ACCEPTED;
        let unnamed = file.answer.iter().filter(accepted).find(|it| it.value.order.is_none());
        if let Some(unnamed) = unnamed.filter(|_| later.is_some_and(|later| later.by_order)) {
            let why = "[later] asks after {order}: let `order` say where it stands in this answer";
            return Err(self.source.wrong(unnamed.at, why));
        }
        if has(ORDERED) || later.is_some() && has(ACCEPTED) {
            return Ok(());
        }
        let why = "no [[answer]] is = \"ordered\": nobody would ever hear yes";
        Err(self.source.wrong(file.purchase.at, why))
    }

    fn tokens(
        &self,
        table: Option<&Located<TokensTable>>,
        first: u64,
    ) -> Result<TokenSource, ConfigError> {
        let Some(table) = table else { return Ok(TokenSource::Numbers { first }) };
        let TokensTable { csv, user_column, token_column, lines, login } = &table.value;
        match (csv, lines, login) {
            (Some(csv), None, None) => Ok(TokenSource::Csv {
                path: self.source.directory.join(&csv.value),
                user: user_column.clone().unwrap_or_else(|| "user_id".to_owned()),
                token: token_column.clone().unwrap_or_else(|| "token".to_owned()),
                wrong: self.wrong_at(csv.at),
            }),
            (None, Some(lines), None) => Ok(TokenSource::Lines {
                path: self.source.directory.join(&lines.value),
                wrong: self.wrong_at(lines.at),
            }),
            (None, None, Some(login)) => {
                let request = self.single(&login.value.request, Method::POST)?;
                if request.has(&Placeholder::Token) || !request.has(&Placeholder::User) {
                    let why = "a login is a request with {user} and without {token}";
                    return Err(self.source.wrong(login.at, why));
                }
                let place = login.value.token.0.clone();
                Ok(TokenSource::Login { first, request: request.into(), place })
            }
            _ => {
                let why = "tokens come from one of csv, lines and login";
                Err(self.source.wrong(table.at, why))
            }
        }
    }

    /// `{token}` needs tokens.
    fn check_tokens(
        &self,
        file: &TargetFile,
        purchase: &CheckRequest,
        later: Option<&AskingLater>,
        tokens: &TokenSource,
    ) -> Result<(), ConfigError> {
        let later = later.is_some_and(|later| later.request.has(&Placeholder::Token));
        let is_used = purchase.has(&Placeholder::Token) || later;
        if is_used && matches!(tokens, TokenSource::Numbers { .. }) {
            let why = "{token} is used, and there is no [tokens] that says where tokens come from";
            return Err(self.source.wrong(file.purchase.at, why));
        }
        Ok(())
    }

    fn books(&self, table: &Located<BooksTable>) -> Result<BooksSource, ConfigError> {
        let books = &table.value;
        let how = match (&books.command, &books.request) {
            (Some(command), None) => BooksReader::Command(command.value.clone()),
            (None, Some(request)) => {
                let at = request.at;
                let request = self.single(request, Method::GET)?;
                if request.has(&Placeholder::Token) || request.has(&Placeholder::User) {
                    let why = "the books are of nobody: {token} and {user} have no value here";
                    return Err(self.source.wrong(at, why));
                }
                BooksReader::Request(request.into())
            }
            _ => {
                let why = "books come from one of command and request";
                return Err(self.source.wrong(table.at, why));
            }
        };
        let at = books.command.as_ref().map_or(table.at, |command| command.at);
        let pointer = |given: &Option<String>, usual: &str| {
            let pointer = given.clone().unwrap_or_else(|| usual.to_owned());
            match pointer.starts_with('/') {
                true => Ok(pointer),
                false => {
                    Err(self.source.wrong(table.at, format!("{pointer:?} is no JSON pointer")))
                }
            }
        };
        Ok(BooksSource {
            how,
            orders: pointer(&books.orders, "/orders")?,
            users: pointer(&books.users, "/users")?,
            stock: pointer(&books.stock, "/stock")?,
            list: pointer(&books.list, "/list")?,
            cancelled: pointer(&books.cancelled, "/cancelled")?,
            expire: books.expire.map(|expire| duration(Some(expire), Duration::ZERO)),
            quiet: books.quiet.map(|quiet| duration(Some(quiet), Duration::ZERO)),
            within: self.bound(at, books.within)?,
            wrong: self.wrong_at(at),
        })
    }

    fn vouchers(&self, file: &TargetFile) -> Result<VoucherSource, ConfigError> {
        let none = "there is neither a voucher nor a [sale] that puts new ones on sale";
        let Some(sale) = &file.sale else {
            let voucher = file.voucher.as_ref().map(|voucher| voucher.value.0.clone());
            let voucher = voucher.ok_or_else(|| self.source.wrong(file.addresses.at, none))?;
            return Ok(VoucherSource::Fixed(voucher));
        };
        let SaleTable { command, request, vouchers, .. } = &sale.value;
        match (&file.voucher, command, request, vouchers) {
            (Some(voucher), None, None, None) => Ok(VoucherSource::Fixed(voucher.value.0.clone())),
            (None, Some(command), None, None) => Ok(VoucherSource::Command(command.value.clone())),
            (None, None, Some(request), None) => self.new_voucher(sale, request),
            (None, None, None, Some(listed)) => Ok(VoucherSource::Listed(listed.value.0.clone())),
            (None, None, None, None) => Err(self.source.wrong(sale.at, none)),
            _ => {
                let why = "vouchers come from one of voucher and, in [sale], command, request and vouchers";
                Err(self.source.wrong(sale.at, why))
            }
        }
    }

    /// How long something is waited for.
    fn bound(&self, at: usize, given: Option<DurationText>) -> Result<Duration, ConfigError> {
        match duration(given, WITHIN) {
            Duration::ZERO => Err(self.source.wrong(at, "within no time nothing can be answered")),
            within => Ok(within),
        }
    }

    fn wrong_at(&self, at: usize) -> Complaint {
        let source = Arc::clone(self.source);
        Box::new(move |why| source.wrong(at, why))
    }
}

fn duration(given: Option<DurationText>, usual: Duration) -> Duration {
    given.map_or(usual, |given| given.0.min(LONGEST))
}
