//! A target as data: the request of an attempt, and how its answers are read.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName};
use hyper::{Method, Request};

use super::answer_rules::AnswerReader;
use super::assignment::PlannedRequest;
use super::place::{Answer, Place};
use super::template::{Taken, Template, Values};

/// A request with its whole body, which is empty for a purchase.
pub(super) type WholeRequest = Request<Full<Bytes>>;

/// How attempts are written, and how their answers are read.
#[derive(Debug, Clone)]
pub struct Target {
    /// The method.
    pub method: Method,
    /// The headers. `host` is added where it is not among them, `content-length`, and `content-type:
    /// application/json` where there is a body and no content type.
    pub headers: Vec<(HeaderName, Template)>,
    /// The body, or nothing.
    pub body: Template,
    /// How answers are read.
    pub answers: AnswerReader,
    /// The requests that come before it in every attempt, in their order.
    pub before: Arc<[Step]>,
}

/// A request whose answer is not the end of an attempt, but gives something to the next one.
#[derive(Debug, Clone)]
pub struct Step {
    /// The path.
    pub path: Template,
    /// The rest, and how an answer is read that is the end of the attempt after all: a refusal.
    pub target: Target,
    /// What is taken from its answer, under which name.
    pub takes: Arc<[(Arc<str>, Place)]>,
}

impl Step {
    /// Adds what the next request needs to `taken`. `false`: the answer is a refusal, or has not all of it.
    #[must_use]
    pub fn take(&self, answer: &mut Answer<'_>, taken: &mut Taken) -> bool {
        if answer.status.is_client_error() || answer.status.is_server_error() {
            return false;
        }
        self.takes.iter().all(|(name, place)| {
            let Some(value) = place.find(answer) else { return false };
            taken.push((Arc::clone(name), value));
            true
        })
    }
}

impl Target {
    /// The API of the server `seckill`: `POST` without a body, `authorization: Bearer {token}`.
    ///
    /// # Panics
    /// Never: the template is a constant.
    #[must_use]
    pub fn own_api() -> Self {
        #[expect(clippy::expect_used, reason = "a constant, executed by every rush")]
        let bearer = Template::parse("Bearer {token}", &[]).expect("its placeholder is known");
        Self {
            method: Method::POST,
            headers: vec![(AUTHORIZATION, bearer)],
            body: Template::default(),
            answers: AnswerReader::ProblemDocuments,
            before: Arc::default(),
        }
    }

    /// The same, for one voucher.
    #[must_use]
    pub fn for_voucher(&self, voucher: &str) -> Self {
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| (name.clone(), value.for_voucher(voucher)));
        let (headers, body) = (headers.collect(), self.body.for_voucher(voucher));
        let before = self.before.iter().map(|step| Step {
            path: step.path.for_voucher(voucher),
            target: step.target.for_voucher(voucher),
            takes: Arc::clone(&step.takes),
        });
        let (method, answers) = (self.method.clone(), self.answers.clone());
        Self { headers, body, method, answers, before: before.collect() }
    }

    /// The first HTTP request of an attempt at `node`.
    pub(super) fn first(
        &self,
        planned: &PlannedRequest,
        node: &TargetNode,
    ) -> Result<WholeRequest, hyper::http::Error> {
        let taken = planned.taken();
        match self.before.first() {
            Some(step) => step.target.write(&step.path, &planned.values(&taken), node),
            None => self.write(&planned.path, &planned.values(&taken), node),
        }
    }

    /// An HTTP request to `node`.
    pub(super) fn write(
        &self,
        path: &Template,
        values: &Values<'_>,
        node: &TargetNode,
    ) -> Result<WholeRequest, hyper::http::Error> {
        let body = self.body.render(values);
        let has = |wanted| self.headers.iter().any(|(name, _)| name == wanted);
        let uri = node.uri(&path.render(values));
        let mut request = Request::builder().method(&self.method).uri(uri);
        if !has(HOST) {
            request = request.header(HOST, &*node.host);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value.render(values));
        }
        if self.method != Method::GET || !body.is_empty() {
            request = request.header(CONTENT_LENGTH, body.len());
        }
        if !body.is_empty() && !has(CONTENT_TYPE) {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(Bytes::from(body)))
    }
}

/// A server that a rush is sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetNode {
    /// Where it listens.
    pub address: SocketAddr,
    /// The `host` header: the name by which it was addressed.
    pub host: Arc<str>,
    /// In front of every path; without a slash at its end.
    pub prefix: Arc<str>,
    /// The name that its certificate must have, where it speaks TLS.
    pub tls: Option<Arc<str>>,
}

impl TargetNode {
    /// What stands in a request for `path`. A whole address, as a redirect has one, counts as its path.
    pub(super) fn uri(&self, path: &str) -> String {
        let rest = ["http://", "https://"].iter().find_map(|scheme| path.strip_prefix(scheme));
        match rest {
            Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]).to_owned(),
            None => format!("{}{path}", self.prefix),
        }
    }
}

impl From<SocketAddr> for TargetNode {
    fn from(address: SocketAddr) -> Self {
        Self { address, host: address.to_string().into(), prefix: "".into(), tls: None }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_host_among_the_headers_stands_in_place_of_the_node() {
        let node = TargetNode::from(SocketAddr::from(([127, 0, 0, 1], 81)));
        let planned = PlannedRequest {
            node: 0,
            path: "/".into(),
            token: "t".into(),
            user: "u".into(),
            buyer: 0,
            order: None,
        };
        let mut target = Target::own_api();
        let hosts = |target: &Target| {
            let request = target.first(&planned, &node).unwrap();
            let hosts = request.headers().get_all(HOST).iter();
            hosts.map(|host| host.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(hosts(&target), ["127.0.0.1:81"]);
        target.headers.push((HOST, Template::from("shop.example")));
        assert_eq!(hosts(&target), ["shop.example"]);
    }

    #[test]
    fn a_whole_address_counts_as_its_path_and_any_other_path_gets_the_prefix() {
        let mut node = TargetNode::from(SocketAddr::from(([127, 0, 0, 1], 81)));
        node.prefix = "/api".into();
        for (path, uri) in [
            ("/a?b=c", "/api/a?b=c"),
            ("http://h:1/x?y=http://z", "/x?y=http://z"),
            ("https://h/x", "/x"),
            ("https://h", "/"),
        ] {
            assert_eq!(node.uri(path), uri);
        }
    }
}
