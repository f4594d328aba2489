//! A client of the API under test. Every answer it gets is held against the API's own
//! description: a status that is not documented, 500 above all, fails the test.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::LazyLock;

use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;
use seckill::http::openapi::ApiDoc;
use serde_json::Value;
use utoipa::OpenApi;

use crate::shop::world::World;
use crate::wait::PATIENCE;

pub static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::to_value(ApiDoc::openapi()).unwrap());

/// A client of an API, whoever serves it.
pub struct Client {
    pub address: SocketAddr,
    http: reqwest::Client,
}

/// A world and a client of its API.
pub struct Api {
    pub world: World,
    pub client: Client,
}

impl Deref for Api {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    /// Null when it is not JSON.
    pub body: Value,
}

impl Api {
    pub async fn new() -> Self {
        let world = World::new().await;
        let address = world.serve().await;
        Self::at(world, address)
    }

    /// The API that somebody else serves from this world.
    pub fn at(world: World, address: SocketAddr) -> Self {
        Self { world, client: Client::at(address) }
    }

    pub async fn get_as(&self, user: i64, path: &str) -> Answer {
        self.send(self.request("GET", path).bearer_auth(self.world.token(user))).await
    }

    /// A request to buy as `user`, not sent yet.
    pub fn buying(&self, user: i64, voucher: impl std::fmt::Display) -> RequestBuilder {
        let path = format!("/api/vouchers/{voucher}/orders");
        self.request("POST", &path).bearer_auth(self.world.token(user))
    }

    pub async fn buy(&self, user: i64, voucher: impl std::fmt::Display) -> Answer {
        self.send(self.buying(user, voucher)).await
    }
}

impl Client {
    pub fn at(address: SocketAddr) -> Self {
        Self { address, http: reqwest::Client::new() }
    }

    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let url = format!("http://{}{path}", self.address);
        self.http.request(method.parse().unwrap(), url).timeout(PATIENCE)
    }

    pub async fn send(&self, request: RequestBuilder) -> Answer {
        let request = request.build().unwrap();
        let (method, path) =
            (request.method().as_str().to_owned(), request.url().path().to_owned());
        let response = self.http.execute(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        // A stream of events has no end.
        let is_stream = headers.get("content-type").is_some_and(|it| it == "text/event-stream");
        let text = if is_stream { String::new() } else { response.text().await.unwrap() };
        let body = serde_json::from_str(&text).unwrap_or_default();
        if let Some(operation) = operation(&method, &path) {
            let documented = operation["responses"].get(status.to_string()).is_some();
            assert!(documented, "{method} {path}: {status} is not documented: {text}");
        }
        Answer { status, headers, text, body }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request("GET", path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request("POST", path).json(body)).await
    }
}

impl Answer {
    /// Asserts that this is a well-formed problem with this status and code.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(self.body["status"], self.status, "{self:?}");
        for member in ["type", "title"] {
            assert!(self.body[member].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        }
        let described = &DOCUMENT["components"]["schemas"]["Problem"]["properties"];
        for member in self.body.as_object().unwrap().keys() {
            assert!(described.get(member).is_some(), "{member} is not described: {self:?}");
        }
        self
    }

    #[track_caller]
    pub fn is(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// `Retry-After`, in seconds.
    #[track_caller]
    pub fn retry_after_s(&self) -> u32 {
        let seconds = self.header("retry-after").and_then(|value| value.parse().ok());
        seconds.unwrap_or_else(|| panic!("no Retry-After in {self:?}"))
    }

    /// The member as the string that it must be.
    #[track_caller]
    pub fn text_of(&self, member: &str) -> &str {
        let text = self.body[member].as_str();
        text.unwrap_or_else(|| panic!("{member} is not a string in {self:?}"))
    }
}

/// What the document says of this method at this path, if it says anything. Of two routes
/// that fit, the one without a parameter is the one that is meant.
pub fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let fits = |template: &str| {
        let (mut ours, mut theirs) = (template.split('/'), path.split('/'));
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => return true,
                (Some(our), Some(their)) if our == their || our.starts_with('{') => {}
                _ => return false,
            }
        }
    };
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let found =
        paths.get(path).or_else(|| paths.iter().find(|(path, _)| fits(path)).map(|it| it.1));
    found?.get(method.to_ascii_lowercase())
}
