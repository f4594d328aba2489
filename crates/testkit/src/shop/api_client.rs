//! A client of the API under test. Every answer it gets is held against the API's own
//! description: a status that is not documented, 500 above all, fails the test, and so does a code that is not.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{LazyLock, Mutex};

use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;
use seckill::http::openapi::ApiDoc;
use seckill::model::VoucherId;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;
use utoipa::OpenApi;

use crate::shop::world::World;
use crate::wait::PATIENCE;

pub static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::to_value(ApiDoc::openapi()).unwrap());

/// A client of an API, whoever serves it.
pub struct Client {
    pub address: SocketAddr,
    http: reqwest::Client,
    done: Mutex<BTreeSet<Operation>>,
}

/// A method, in lower case, and a path as the document has it.
pub type Operation = (String, &'static str);

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
        Self::of(World::new().await).await
    }

    /// With users 1 to `count`.
    pub async fn with_users(count: u32) -> Self {
        let api = Self::new().await;
        if count > 0 {
            api.world.users(count).await;
        }
        api
    }

    /// The same with a voucher on sale.
    pub async fn with_sale(users: u32, stock: i32) -> (Self, VoucherId) {
        let api = Self::with_users(users).await;
        let voucher = api.world.voucher(stock).await.id;
        (api, voucher)
    }

    /// The API of this world.
    pub async fn of(world: World) -> Self {
        let address = world.serve().await;
        Self::at(world, address)
    }

    /// The same where a test says in `X-Forwarded-For` who asks.
    pub async fn behind_proxy(world: World) -> Self {
        let proxies = vec!["127.0.0.0/8".parse().unwrap()];
        let address = world.serve_with(world.options(), proxies).await;
        Self::at(world, address)
    }

    /// The API of a world without users and vouchers, for tests that write nothing. It has a runtime of its own, because
    /// it outlives each of them.
    pub async fn shared() -> Self {
        static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
        static SHARED: OnceCell<(World, SocketAddr)> = OnceCell::const_new();
        let serve = async {
            let world = World::new().await;
            let address = world.serve().await;
            (world, address)
        };
        let shared = SHARED.get_or_init(|| async { RUNTIME.spawn(serve).await.unwrap() }).await;
        Self::at(shared.0.clone(), shared.1)
    }

    /// The API that somebody else serves from this world.
    pub fn at(world: World, address: SocketAddr) -> Self {
        Self { world, client: Client::at(address) }
    }

    pub async fn get_as(&self, user: i64, path: &str) -> Answer {
        self.call_as(user, "GET", path).await
    }

    /// The ids of what a list has, page by page along its links, as `user` reads it.
    pub async fn pages(&self, user: i64, path: &str, id: &str) -> Vec<Vec<String>> {
        let (mut next, mut pages) = (Some(path.to_owned()), Vec::new());
        while let Some(path) = next {
            let page = self.get_as(user, &path).await;
            let items = page.is(200).body.as_array().unwrap().iter();
            pages.push(items.map(|item| item[id].as_str().unwrap().to_owned()).collect());
            next = page.next_page();
        }
        pages
    }

    /// A request of `user`.
    pub async fn call_as(&self, user: i64, method: &str, path: &str) -> Answer {
        self.call(method, path, &self.world.token(user)).await
    }

    /// A request to buy as `user`, not sent yet.
    pub fn buying(&self, user: i64, voucher: impl std::fmt::Display) -> RequestBuilder {
        let path = format!("/api/vouchers/{voucher}/orders");
        self.request("POST", &path).bearer_auth(self.world.token(user))
    }

    pub async fn buy(&self, user: i64, voucher: impl std::fmt::Display) -> Answer {
        self.send(self.buying(user, voucher)).await
    }

    /// The code that was sent last.
    pub fn last_code(&self) -> String {
        self.world.sms.0.lock().unwrap().last().unwrap().1.clone()
    }

    /// A code that was asked for.
    pub async fn code_for(&self, phone: &str) -> String {
        self.ask_code(phone).await.is(202);
        self.last_code()
    }

    /// The session of a login.
    pub async fn session_of(&self, phone: &str) -> Answer {
        let session = self.try_code(phone, &self.code_for(phone).await).await;
        session.is(201);
        session
    }

    /// The token of a login.
    pub async fn log_in(&self, phone: &str) -> String {
        self.session_of(phone).await.text_of("token").to_owned()
    }
}

/// Another code than this one.
pub fn another_code(code: &str) -> String {
    format!("{:06}", (code.parse::<u32>().unwrap() + 1) % 1_000_000)
}

impl Client {
    pub fn at(address: SocketAddr) -> Self {
        Self { address, http: reqwest::Client::new(), done: Mutex::default() }
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
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        // A path that ends with a slash is no route, also if it looks like one with an empty id.
        let is_route = !path.ends_with('/');
        if let Some((operation, description)) = operation(&method, &path).filter(|_| is_route) {
            let documented = &description["responses"][status.to_string()]["description"];
            let documented = documented.as_str().unwrap_or_else(|| {
                panic!("{method} {path}: {status} is not documented: {text}");
            });
            if let Some(code) = body["code"].as_str().filter(|_| status >= 400) {
                let names_it = documented.contains(&format!("`{code}`"));
                assert!(names_it, "{method} {path}: {status} is not documented with {code}");
            }
            if status < 300 {
                self.done.lock().unwrap().insert(operation);
            }
        }
        Answer { status, headers, text, body }
    }

    /// The operations that were asked for something that they did.
    pub fn done(&self) -> BTreeSet<Operation> {
        self.done.lock().unwrap().clone()
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request("GET", path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request("POST", path).json(body)).await
    }

    /// A request with a token.
    pub async fn call(&self, method: &str, path: &str, token: &str) -> Answer {
        self.send(self.request(method, path).bearer_auth(token)).await
    }

    /// The same with a body.
    pub async fn call_with(&self, method: &str, path: &str, token: &str, body: &Value) -> Answer {
        self.send(self.request(method, path).bearer_auth(token).json(body)).await
    }

    pub async fn ask_code(&self, phone: &str) -> Answer {
        self.post("/api/login-codes", &json!({ "phone": phone })).await
    }

    pub async fn try_code(&self, phone: &str, code: &str) -> Answer {
        self.post("/api/sessions", &json!({ "phone": phone, "code": code })).await
    }
}

impl Answer {
    /// The address of the next part of a list; `None`: this is the last.
    pub fn next_page(&self) -> Option<String> {
        let (address, relation) = self.header("link")?.split_once(';').unwrap();
        assert_eq!(relation.trim(), "rel=\"next\"");
        Some(address.trim_start_matches('<').trim_end_matches('>').to_owned())
    }

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
fn operation(method: &str, path: &str) -> Option<(Operation, &'static Value)> {
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
    let (path, of_path) =
        paths.get_key_value(path).or_else(|| paths.iter().find(|(path, _)| fits(path)))?;
    let method = method.to_ascii_lowercase();
    let description = of_path.get(&method)?;
    Some(((method, path.as_str()), description))
}
