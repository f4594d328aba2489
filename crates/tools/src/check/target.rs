//! A target, ready to be used: everything that can be wrong with its file has been found.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use load::answer_rules::AnswerReader;
use load::calls::Call;
use load::outcome::{ACCEPTED, ORDERED};
use load::target::{Target, TargetNode};
use load::template::{Placeholder, Template};
use program::ConfigError;

use super::addresses::{CheckNode, resolve};
use super::file::{
    AnswerTable, BooksTable, DurationText, LaterTable, Located, RequestTable, SaleTable,
    TargetFile, TokensTable,
};
use super::read::SourceText;
use super::rules::{outcome, reader};

/// How long buyers ask what became of a purchase, and how long books are waited for, unless the file says.
const WITHIN: Duration = Duration::from_secs(30);
/// The longest that a file may say.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// How long the books must stay as they are, unless the file says.
const QUIET: Duration = Duration::from_secs(1);

/// How to talk to a target.
pub struct CheckTarget {
    /// The nodes.
    pub nodes: Vec<CheckNode>,
    /// Where commands are run.
    pub directory: PathBuf,
    /// A purchase.
    pub purchase: CheckRequest,
    /// Asking later.
    pub later: Option<AskingLater>,
    /// Where the vouchers come from.
    pub vouchers: VoucherSource,
    /// The stock, where the file says it.
    pub stock: Option<u32>,
    /// Where the buyers come from.
    pub tokens: TokenSource,
    /// The books.
    pub books: Option<BooksSource>,
}

/// A request with placeholders.
#[derive(Clone)]
pub struct CheckRequest {
    /// The path, without the prefix of a node.
    pub path: Template,
    /// The rest, and how answers are read.
    pub target: Target,
}

/// How a buyer asks later.
pub struct AskingLater {
    /// The request.
    pub request: CheckRequest,
    /// How long it is asked.
    pub within: Duration,
}

/// Where the vouchers come from.
pub enum VoucherSource {
    /// This one is on sale.
    Fixed(String),
    /// A command prints the id of a new one.
    Command(String),
    /// A request is answered with it.
    Request {
        /// The request, with `{stock}`.
        texts: Box<RequestTexts>,
        /// Where in the answer it is.
        pointer: String,
    },
}

/// A request whose `{stock}` is filled in before the other placeholders are read.
pub struct RequestTexts {
    method: Method,
    path: String,
    headers: Vec<(HeaderName, String)>,
    body: String,
}

/// Where the buyers come from.
pub enum TokenSource {
    /// A CSV file.
    Csv {
        /// The file.
        path: PathBuf,
        /// The column of the user.
        user: String,
        /// The column of the token.
        token: String,
        /// Where the target's file names it, for a sentence.
        wrong: Box<dyn Fn(String) -> ConfigError + Send + Sync>,
    },
    /// A token on each line.
    Lines {
        /// The file.
        path: PathBuf,
        /// Where the target's file names it, for a sentence.
        wrong: Box<dyn Fn(String) -> ConfigError + Send + Sync>,
    },
    /// A request per user.
    Login {
        /// The number of the first.
        first: u64,
        /// The request.
        request: Box<CheckRequest>,
        /// Where in the answer the token is.
        pointer: String,
    },
    /// No tokens: users are numbers.
    Numbers {
        /// The first.
        first: u64,
    },
}

/// The books.
pub struct BooksSource {
    /// A command, or a request.
    pub how: BooksReader,
    /// Where the number of orders is.
    pub orders: String,
    /// Where the number of users is.
    pub users: String,
    /// Where the stock is.
    pub stock: String,
    /// Where the list is.
    pub list: String,
    /// How long they must stay as they are.
    pub quiet: Duration,
    /// How long they are waited for.
    pub within: Duration,
    /// Where the file speaks of them, for a sentence.
    pub wrong: Box<dyn Fn(String) -> ConfigError + Send + Sync>,
}

/// What prints the books.
pub enum BooksReader {
    /// A shell command.
    Command(String),
    /// A request to the first node.
    Request(Box<CheckRequest>),
}

impl CheckRequest {
    /// The path of a buyer at a node.
    #[must_use]
    pub fn path_at(&self, node: &CheckNode, user: &str, token: &str) -> String {
        format!("{}{}", node.prefix, self.path.render(user, token))
    }

    /// The same for one voucher.
    #[must_use]
    pub fn for_voucher(&self, voucher: &str) -> Self {
        Self { path: self.path.for_voucher(voucher), target: self.target.for_voucher(voucher) }
    }

    /// As a single request. `None`: it cannot be written.
    #[must_use]
    pub fn call(&self, node: &CheckNode, user: &str, token: &str) -> Option<Call> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.target.headers {
            headers.append(name, HeaderValue::from_str(&value.render(user, token)).ok()?);
        }
        Some(Call {
            node: node.node.clone(),
            method: self.target.method.clone(),
            path: self.path_at(node, user, token),
            token: None,
            headers,
            body: self.target.body.render(user, token).into(),
        })
    }

    fn has(&self, placeholder: Placeholder) -> bool {
        let Self { path, target } = self;
        let headers = target.headers.iter().any(|(_, value)| value.has(placeholder));
        path.has(placeholder) || target.body.has(placeholder) || headers
    }
}

impl RequestTexts {
    /// The request for a stock.
    #[must_use]
    pub fn call(&self, node: &CheckNode, stock: u32) -> Option<Call> {
        let filled = |text: &str| text.replace("{stock}", &stock.to_string());
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.append(name, HeaderValue::from_str(&filled(value)).ok()?);
        }
        Some(Call {
            node: node.node.clone(),
            method: self.method.clone(),
            path: format!("{}{}", node.prefix, filled(&self.path)),
            token: None,
            headers,
            body: filled(&self.body).into(),
        })
    }
}

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

    /// The servers.
    #[must_use]
    pub fn servers(&self) -> Vec<TargetNode> {
        self.nodes.iter().map(|node| node.node.clone()).collect()
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

    fn header_name(&self, name: &str, value: &Located<String>) -> Result<HeaderName, ConfigError> {
        let parsed = name.parse();
        parsed.map_err(|_| self.source.wrong(value.at, format!("{name:?} is no name of a header")))
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
        for (name, value) in &table.headers {
            headers.push((self.header_name(name, value)?, self.template(value)?));
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
        Ok(AskingLater { request, within: duration(*within, WITHIN) })
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
                let pointer = login.value.token.clone();
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
            within: duration(books.within, WITHIN),
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
                for (name, value) in &table.headers {
                    headers.push((self.header_name(name, value)?, value.value.clone()));
                }
                let texts = RequestTexts {
                    method: self.method(table, Method::POST)?,
                    path: table.path.value.clone(),
                    headers,
                    body: table.body.as_ref().map_or_else(String::new, |body| body.value.clone()),
                };
                let pointer = voucher.clone().unwrap_or_else(|| "/data".to_owned());
                Ok(VoucherSource::Request { texts: texts.into(), pointer })
            }
            (None, None) => Err(self.source.wrong(sale.at, none)),
            _ => {
                let why = "a new voucher comes from one of command and request";
                Err(self.source.wrong(sale.at, why))
            }
        }
    }

    fn wrong_at(&self, at: usize) -> Box<dyn Fn(String) -> ConfigError + Send + Sync> {
        let source = Arc::clone(self.source);
        Box::new(move |why| source.wrong(at, why))
    }
}

fn duration(given: Option<DurationText>, usual: Duration) -> Duration {
    given.map_or(usual, |given| given.0.min(LONGEST))
}
