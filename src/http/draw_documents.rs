//! What is published of draws, as it is sent. A document of many entries is made once for each state of its draw, and all who
//! read it share those bytes.

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ring::digest::{SHA256, digest};
use serde::Serialize;

use super::accepted;
use crate::model::VoucherId;
use crate::store::{Database, ReadCache, Service, StoreError, draws};

/// Documents that are kept at once, and requests that may wait for one to be read.
const KEPT: usize = 16;
const WAITING: usize = 256;

/// What is published of a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the routes say it
pub enum Part {
    Draw,
    Service,
}

/// A document, and the state of the draw when it was made.
#[derive(Debug, Clone)]
pub struct Document {
    version: String,
    is_final: bool,
    etag: HeaderValue,
    json: Bytes,
}

impl Document {
    fn new(version: String, is_final: bool, content: &impl Serialize) -> Self {
        let Ok(json) = serde_json::to_vec(content) else { unreachable!("a draw is always JSON") };
        let hash = hex::encode(&digest(&SHA256, &json).as_ref()[..16]);
        let Ok(etag) = HeaderValue::try_from(format!("\"{hash}\"")) else {
            unreachable!("hex in quotes is a header")
        };
        Self { version, is_final, etag, json: json.into_boxed_slice().into() }
    }

    /// The answer to a request with these headers: nothing but the tag if the client has the document.
    pub(super) fn answer(self, request: &HeaderMap) -> Response {
        let mut tags = accepted(request, header::IF_NONE_MATCH);
        // A proxy that compresses the document weakens its tag.
        let is_known = tags.any(|(tag, _)| tag == "*" || self.etag == tag.trim_start_matches("W/"));
        // A final document may change once the database is restored from a backup.
        let kept = if self.is_final { "public, max-age=60" } else { "public, no-cache" };
        let kept =
            [(header::ETAG, self.etag), (header::CACHE_CONTROL, HeaderValue::from_static(kept))];
        if is_known {
            return (StatusCode::NOT_MODIFIED, kept).into_response();
        }
        (kept, [(header::CONTENT_TYPE, "application/json")], self.json).into_response()
    }
}

/// The documents, less than a second old; `None`: the voucher has no draw.
pub type DrawDocuments = ReadCache<(VoucherId, Part), Option<Document>>;

pub(super) fn documents(database: &Database) -> DrawDocuments {
    let database = database.clone();
    ReadCache::new(Service::Postgres, KEPT, WAITING, move |(voucher, part), earlier| {
        let database = database.clone();
        async move { read(&database, voucher, part, Option::flatten(earlier)).await }
    })
}

async fn read(
    database: &Database,
    voucher: VoucherId,
    part: Part,
    earlier: Option<Document>,
) -> Result<Option<Document>, StoreError> {
    if earlier.as_ref().is_some_and(|earlier| earlier.is_final) {
        return Ok(earlier);
    }
    let pool = database.pool();
    // The version is read first: a change after it gives another version the next time.
    let version = draws::version(pool, voucher, part == Part::Service).await?;
    let Some(version) = version else { return Ok(None) };
    if let Some(earlier) = earlier.filter(|earlier| earlier.version == version) {
        return Ok(Some(earlier));
    }
    Ok(Some(match part {
        Part::Draw => {
            let draw = draws::find(pool, voucher).await?;
            let is_final = draw.as_ref().is_some_and(|draw| draw.drawn_at.is_some());
            Document::new(version, is_final, &draw)
        }
        Part::Service => Document::new(version, false, &draws::service(pool, voucher).await?),
    }))
}
