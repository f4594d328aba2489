//! A target, ready to be used: everything that can be wrong with its file has been found.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use load::calls::Call;
use load::target::{Target, TargetNode};
use load::template::{Placeholder, Template};

use super::addresses::CheckNode;
use super::read::Complaint;

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
    /// The method.
    pub method: Method,
    /// The path, without the prefix of a node.
    pub path: String,
    /// The headers.
    pub headers: Vec<(HeaderName, String)>,
    /// The body.
    pub body: String,
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
        wrong: Complaint,
    },
    /// A token on each line.
    Lines {
        /// The file.
        path: PathBuf,
        /// Where the target's file names it, for a sentence.
        wrong: Complaint,
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
    pub wrong: Complaint,
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

    /// Whether `placeholder` is anywhere in it.
    #[must_use]
    pub fn has(&self, placeholder: Placeholder) -> bool {
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

impl CheckTarget {
    /// The servers.
    #[must_use]
    pub fn servers(&self) -> Vec<TargetNode> {
        self.nodes.iter().map(|node| node.node.clone()).collect()
    }
}
