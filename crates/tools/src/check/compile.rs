//! Finds everything that is wrong with a target's file, before anything is sent.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use axum::http::{HeaderName, Method};
use load::answer_rules::AnswerReader;
use load::outcome::{ACCEPTED, ORDERED};
use load::target::Target;
use load::template::{Placeholder, Template};
use program::ConfigError;

use super::addresses::resolve;
use super::file::{
    AnswerTable, BooksTable, DurationText, LaterTable, Located, RequestTable, SaleTable,
    TargetFile, TokensTable,
};
use super::read::{Complaint, SourceText};
use super::rules::{outcome, reader};
use super::target::{
    AskingLater, BooksReader, BooksSource, CheckRequest, CheckTarget, RequestTexts, TokenSource,
    VoucherSource,
};

/// How long buyers ask what became of a purchase, and how long books are waited for, unless the file says.
const WITHIN: Duration = Duration::from_secs(30);
/// The longest that a file may say.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// How long the books must stay as they are, unless the file says.
const QUIET: Duration = Duration::from_secs(1);

/// Reads the parts of a file.
struct Compiler<'a> {
    source: &'a Arc<SourceText>,
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
        let purchase = compiler.request(&file.purchase, Method::POST, &file.answer)?;
        let later = file.later.as_ref().map(|later| compiler.later(later)).transpose()?;
        compiler.check_answers(&file, later.is_some())?;
        let tokens = compiler.tokens(file.tokens.as_ref(), file.first_user.unwrap_or(1))?;
        compiler.check_tokens(&file, &purchase, later.as_ref(), &tokens)?;
        let books = file.books.as_ref().map(|books| compiler.books(books)).transpose()?;
        let vouchers = compiler.vouchers(&file)?;
        let stock = file.sale.as_ref().and_then(|sale| sale.value.stock.as_ref());
        if let Some(none) = stock.filter(|stock| stock.value == 0) {
            return Err(source.wrong(none.at, "a stock of 0 cannot be sold"));
        }
        let stock = stock.map(|stock| stock.value);
        let directory = source.directory.clone();
        Ok(Self { nodes, directory, purchase, later, vouchers, stock, tokens, books })
    }
}

impl Compiler<'_> {
    fn template(&self, text: &Located<String>) -> Result<Template, ConfigError> {
        let at = text.at;
        let template = Template::parse(&text.value);
        template.map_err(|unknown| {
            let known = "known are {token}, {user} and {voucher}";
            self.source.wrong(at, format!("{unknown}: {known}"))
        })
    }

    fn method(&self, table: &RequestTable, usual: Method) -> Result<Method, ConfigError> {
        let Some(method) = &table.method else { return Ok(usual) };
        let parsed = method.value.to_ascii_uppercase().parse();
        parsed.map_err(|_| self.source.wrong(method.at, format!("no method: {:?}", method.value)))
    }

    /// The headers of a request, each of them once.
    fn headers<'t>(
        &self,
        table: &'t RequestTable,
    ) -> Result<Vec<(HeaderName, &'t Located<String>)>, ConfigError> {
        let mut headers: Vec<(HeaderName, &Located<String>)> = Vec::new();
        for (text, value) in &table.headers {
            let wrong = |why: String| self.source.wrong(value.at, why);
            let name = text.parse::<HeaderName>();
            let name = name.map_err(|_| wrong(format!("{text:?} is no name of a header")))?;
            if [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(&name) {
                return Err(wrong(format!("the header {name} is written by check itself")));
            }
            if headers.iter().any(|(other, _)| *other == name) {
                return Err(wrong(format!("the header {name} is there twice")));
            }
            if value.value.contains(char::is_control) {
                return Err(wrong(format!("the header {name} has a control character in it")));
            }
            headers.push((name, value));
        }
        Ok(headers)
    }

    fn pointer(&self, at: usize, pointer: &str) -> Result<String, ConfigError> {
        match pointer.is_empty() || pointer.starts_with('/') {
            true => Ok(pointer.to_owned()),
            false => Err(self.source.wrong(at, format!("{pointer:?} is no JSON pointer"))),
        }
    }

    /// `{stock}` is all that a new voucher knows.
    fn check_stock_alone(&self, text: &Located<String>) -> Result<(), ConfigError> {
        let parsed = Template::parse(&text.value.replace("{stock}", ""));
        match parsed.is_ok_and(|parsed| !Placeholder::ALL.into_iter().any(|it| parsed.has(it))) {
            true => Ok(()),
            false => {
                Err(self.source.wrong(text.at, "a new voucher has no placeholder but {stock}"))
            }
        }
    }

    fn check_path(&self, path: &Located<String>) -> Result<(), ConfigError> {
        let wrong = |why: &str| Err(self.source.wrong(path.at, format!("the path {why}")));
        if !path.value.starts_with('/') {
            return wrong("does not begin with a slash");
        }
        if path.value.contains(|c: char| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
            return wrong("has a space or another character that must be percent-encoded");
        }
        Ok(())
    }

    fn request(
        &self,
        table: &Located<RequestTable>,
        usual: Method,
        answers: &[Located<AnswerTable>],
    ) -> Result<CheckRequest, ConfigError> {
        let table = &table.value;
        self.check_path(&table.path)?;
        let mut headers = Vec::new();
        for (name, value) in self.headers(table)? {
            headers.push((name, self.template(value)?));
        }
        let body = table.body.as_ref().map(|body| self.template(body)).transpose()?;
        let answers = AnswerReader::Rules(reader(answers, self.source)?.into());
        let method = self.method(table, usual)?;
        let target = Target { method, headers, body: body.unwrap_or_default(), answers };
        Ok(CheckRequest { path: self.template(&table.path)?, target })
    }

    fn later(&self, table: &Located<LaterTable>) -> Result<AskingLater, ConfigError> {
        let LaterTable { request, within, answer } = &table.value;
        if !answer.iter().any(|rule| outcome(rule.value.is) == ORDERED) {
            let why = "no [[later.answer]] is = \"ordered\": nobody would ever hear yes";
            return Err(self.source.wrong(table.at, why));
        }
        let request = self.request(request, Method::GET, answer)?;
        Ok(AskingLater { request, within: self.bound(table.at, *within)? })
    }

    /// Whether somebody can hear yes.
    fn check_answers(&self, file: &TargetFile, has_later: bool) -> Result<(), ConfigError> {
        let has = |code| file.answer.iter().any(|rule| outcome(rule.value.is) == code);
        if has(ORDERED) || has_later && has(ACCEPTED) {
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
                let request = self.request(&login.value.request, Method::POST, &[])?;
                if request.has(Placeholder::Token) || !request.has(Placeholder::User) {
                    let why = "a login is a request with {user} and without {token}";
                    return Err(self.source.wrong(login.at, why));
                }
                let pointer = self.pointer(login.at, &login.value.token)?;
                Ok(TokenSource::Login { first, request: request.into(), pointer })
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
        let later = later.is_some_and(|later| later.request.has(Placeholder::Token));
        let is_used = purchase.has(Placeholder::Token) || later;
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
                let request = self.request(request, Method::GET, &[])?;
                if request.has(Placeholder::Token) || request.has(Placeholder::User) {
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
            quiet: duration(books.quiet, QUIET),
            within: self.bound(at, books.within)?,
            wrong: self.wrong_at(at),
        })
    }

    fn vouchers(&self, file: &TargetFile) -> Result<VoucherSource, ConfigError> {
        if let Some(voucher) = &file.voucher {
            return Ok(VoucherSource::Fixed(voucher.value.0.clone()));
        }
        let none = "there is neither a voucher nor a [sale] that puts new ones on sale";
        let sale = file.sale.as_ref();
        let sale = sale.ok_or_else(|| self.source.wrong(file.addresses.at, none))?;
        let SaleTable { command, request, voucher, .. } = &sale.value;
        match (command, request) {
            (Some(command), None) => Ok(VoucherSource::Command(command.value.clone())),
            (None, Some(request)) => {
                let table = &request.value;
                self.check_path(&table.path)?;
                let mut headers = Vec::new();
                for (name, value) in self.headers(table)? {
                    self.check_stock_alone(value)?;
                    headers.push((name, value.value.clone()));
                }
                for text in [Some(&table.path), table.body.as_ref()].into_iter().flatten() {
                    self.check_stock_alone(text)?;
                }
                let texts = RequestTexts {
                    method: self.method(table, Method::POST)?,
                    path: table.path.value.clone(),
                    headers,
                    body: table.body.as_ref().map_or_else(String::new, |body| body.value.clone()),
                };
                let pointer = self.pointer(sale.at, voucher.as_deref().unwrap_or("/data"))?;
                Ok(VoucherSource::Request { texts: texts.into(), pointer })
            }
            (None, None) => Err(self.source.wrong(sale.at, none)),
            _ => {
                let why = "a new voucher comes from one of command and request";
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
