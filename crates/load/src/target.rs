//! A target as data: the request of an attempt, and how its answers are read.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName};
use hyper::{Method, Request};

use super::answer_rules::AnswerReader;
use super::assignment::PlannedRequest;
use super::connection::WholeRequest;
use super::template::Template;

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
}

impl Target {
    /// The API of the server `seckill`: `POST` without a body, `authorization: Bearer {token}`.
    ///
    /// # Panics
    /// Never: the template is a constant.
    #[must_use]
    pub fn own_api() -> Self {
        #[expect(clippy::expect_used, reason = "a constant, executed by every rush")]
        let bearer = Template::parse("Bearer {token}").expect("its placeholder is known");
        Self {
            method: Method::POST,
            headers: vec![(AUTHORIZATION, bearer)],
            body: Template::default(),
            answers: AnswerReader::ProblemDocuments,
        }
    }

    /// The same, for one voucher.
    #[must_use]
    pub fn for_voucher(&self, voucher: &str) -> Self {
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| (name.clone(), value.for_voucher(voucher)));
        let (headers, body) = (headers.collect(), self.body.for_voucher(voucher));
        Self { headers, body, method: self.method.clone(), answers: self.answers.clone() }
    }

    /// The HTTP request of an attempt at `node`.
    pub(super) fn write(
        &self,
        planned: &PlannedRequest,
        node: &TargetNode,
    ) -> Result<WholeRequest, hyper::http::Error> {
        let body = self.body.render(&planned.user, &planned.token);
        let has = |wanted| self.headers.iter().any(|(name, _)| name == wanted);
        let mut request = Request::builder().method(&self.method).uri(&*planned.path);
        if !has(HOST) {
            request = request.header(HOST, &*node.host);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value.render(&planned.user, &planned.token));
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
}

impl From<SocketAddr> for TargetNode {
    fn from(address: SocketAddr) -> Self {
        Self { address, host: address.to_string().into() }
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
        };
        let mut target = Target::own_api();
        let hosts = |target: &Target| {
            let request = target.write(&planned, &node).unwrap();
            let hosts = request.headers().get_all(HOST).iter();
            hosts.map(|host| host.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(hosts(&target), ["127.0.0.1:81"]);
        target.headers.push((HOST, Template::parse("shop.example").unwrap()));
        assert_eq!(hosts(&target), ["shop.example"]);
    }
}
