//! A target, ready to be used: everything that can be wrong with its file has been found.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use load::calls::Call;
use load::place::Place;
use load::target::{Target, TargetNode};
use load::template::{Placeholder, Template, Values};

use super::addresses::CheckNode;
use super::read::Complaint;

/// How to talk to a target.
pub struct CheckTarget {
    /// The nodes.
    pub nodes: Vec<CheckNode>,
    /// Where commands are run.
    pub directory: PathBuf,
    /// How many orders one buyer may have. `None`: the shop has no such rule.
    pub per_user: Option<u32>,
    /// Vouchers that must sell nothing.
    pub closed: Vec<String>,
    /// How long the buyers wait before each crowd.
    pub pause: Duration,
    /// A purchase, with the steps that come before it.
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
    /// Where the file says each rule by which answers are read, as the beginning of a sentence.
    pub rules: Arc<[String]>,
}

/// How a buyer asks later.
pub struct AskingLater {
    /// The request.
    pub request: CheckRequest,
    /// How long it is asked.
    pub within: Duration,
    /// Whether it asks after one order, `{order}`, and not after all of a buyer.
    pub by_order: bool,
}

/// Where the vouchers come from.
pub enum VoucherSource {
    /// This one is on sale.
    Fixed(String),
    /// A command prints the id of a new one.
    Command(String),
    /// These are on sale, one for each crowd.
    Listed(Vec<String>),
    /// A request is answered with it.
    Request {
        /// The request, with `{stock}`.
        request: Box<CheckRequest>,
        /// Where in the answer it is.
        pointer: String,
    },
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
        place: Place,
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
    /// Where the number of cancelled orders is.
    pub cancelled: String,
    /// After so long an order that is not paid may be cancelled.
    pub expire: Option<Duration>,
    /// How long they must stay as they are, where the file says.
    pub quiet: Option<Duration>,
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
    /// The same for one voucher.
    #[must_use]
    pub fn for_voucher(&self, voucher: &str) -> Self {
        let (path, target) = (self.path.for_voucher(voucher), self.target.for_voucher(voucher));
        Self { path, target, rules: Arc::clone(&self.rules) }
    }

    /// As a single request, without its steps. `None`: it cannot be written.
    #[must_use]
    pub fn call(&self, node: &CheckNode, values: &Values<'_>) -> Option<Call> {
        call(&self.path, &self.target, node, values)
    }

    /// Whether `placeholder` is anywhere in it.
    #[must_use]
    pub fn has(&self, placeholder: &Placeholder) -> bool {
        let is_in = |path: &Template, target: &Target| {
            let headers = target.headers.iter().any(|(_, value)| value.has(placeholder));
            path.has(placeholder) || target.body.has(placeholder) || headers
        };
        let mut steps = self.target.before.iter();
        is_in(&self.path, &self.target) || steps.any(|step| is_in(&step.path, &step.target))
    }
}

/// A single request. `None`: it cannot be written.
#[must_use]
pub fn call(
    path: &Template,
    target: &Target,
    node: &CheckNode,
    values: &Values<'_>,
) -> Option<Call> {
    let mut headers = HeaderMap::new();
    for (name, value) in &target.headers {
        headers.append(name, HeaderValue::from_str(&value.render(values)).ok()?);
    }
    Some(Call {
        node: node.node.clone(),
        method: target.method.clone(),
        path: path.render(values),
        token: None,
        headers,
        body: target.body.render(values).into(),
    })
}

impl CheckTarget {
    /// The servers.
    #[must_use]
    pub fn servers(&self) -> Vec<TargetNode> {
        self.nodes.iter().map(|node| node.node.clone()).collect()
    }
}
