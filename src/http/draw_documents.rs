//! What is published of draws, as it is sent. A document of many entries is made once for each state of its draw, and all who
//! read it share those bytes. A million entries are 47 MB, and 124 MB once all of them have ended, so what there is at once is
//! bounded by bytes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ring::digest::{SHA256, digest};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::accepted;
use crate::model::VoucherId;
use crate::store::{Database, ReadCache, Service, StoreError, draws};

/// Bytes of documents that are kept.
const KEPT_BYTES: u64 = 160 << 20;
/// What a document takes beside its bytes.
const BESIDE_BYTES: u64 = 1 << 10;
/// Bytes of documents of one part in memory: those that are kept, and those that slow clients still read.
const BYTES_OF_A_PART: usize = 320 << 20;
/// Requests that may wait for a document to be read.
const WAITING: usize = 256;
/// The service of a draw changes with each who is served or leaves. If it took long to read, it rests so many times as long: however
/// often it is asked for, it takes no more than a tenth of one connection to the database.
const RESTS: u32 = 10;
/// How old a document may be that is sent while it is read anew for another request.
pub(super) const READ_WITHIN: Duration = Duration::from_secs(5);

/// What is published of a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the routes say it
pub enum Part {
    Draw,
    Service,
}

/// Room for the documents of a part. The services of draws, of which strangers can hold one after another, leave that of the
/// draws themselves.
type Room = Arc<Semaphore>;

/// The bytes of a document. Its last reader gives the room back.
struct InRoom {
    json: Box<[u8]>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for InRoom {
    fn as_ref(&self) -> &[u8] {
        &self.json
    }
}

/// A document, and the state of the draw when it was made.
#[derive(Debug, Clone)]
pub struct Document {
    version: String,
    /// It never changes.
    pub(super) is_final: bool,
    /// When it may be read again.
    again_at: Instant,
    etag: HeaderValue,
    json: Bytes,
}

impl Document {
    /// `None`: there is no room for it.
    fn new(room: &Room, version: String, is_final: bool, content: &impl Serialize) -> Option<Self> {
        let Ok(json) = serde_json::to_vec(content) else { unreachable!("a draw is always JSON") };
        let hash = hex::encode(&digest(&SHA256, &json).as_ref()[..16]);
        let Ok(etag) = HeaderValue::try_from(format!("\"{hash}\"")) else {
            unreachable!("hex in quotes is a header")
        };
        let bytes = u32::try_from(json.len()).ok()?;
        let _room = Arc::clone(room).try_acquire_many_owned(bytes).ok()?;
        let json = Bytes::from_owner(InRoom { json: json.into_boxed_slice(), _room });
        Some(Self { version, is_final, again_at: Instant::now(), etag, json })
    }

    /// The same, to be left alone after a read of a service that took so long.
    fn resting(self, part: Part, took: Duration) -> Self {
        let rest = if part == Part::Service { took * RESTS } else { Duration::ZERO };
        Self { again_at: Instant::now() + rest, ..self }
    }

    fn is_due(&self) -> bool {
        !self.is_final && self.again_at <= Instant::now()
    }

    fn weight(document: &Option<Self>) -> u64 {
        BESIDE_BYTES + document.as_ref().map_or(0, |document| document.json.len() as u64)
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

/// The documents, less than a second old; a service that took long to read may be ten times as old as that took. `None`: the voucher
/// has no draw.
pub type DrawDocuments = ReadCache<(VoucherId, Part), Option<Document>>;

pub(super) fn documents(database: &Database) -> DrawDocuments {
    let database = database.clone();
    let rooms = [(); 2].map(|()| Room::new(Semaphore::new(BYTES_OF_A_PART)));
    let kept: (_, fn(&_) -> _) = (KEPT_BYTES, Document::weight);
    ReadCache::of_large(Service::Postgres, kept, WAITING, move |(voucher, part), earlier| {
        let (database, room) = (database.clone(), Arc::clone(&rooms[part as usize]));
        async move { read(&database, &room, (voucher, part), Option::flatten(earlier)).await }
    })
}

async fn read(
    database: &Database,
    room: &Room,
    (voucher, part): (VoucherId, Part),
    earlier: Option<Document>,
) -> Result<Option<Document>, StoreError> {
    if earlier.as_ref().is_some_and(|earlier| !earlier.is_due()) {
        return Ok(earlier);
    }
    let pool = database.pool();
    // The version is read first: a change after it gives another version the next time.
    let version = draws::version(pool, voucher, part == Part::Service).await?;
    let Some(version) = version else { return Ok(None) };
    if earlier.as_ref().is_some_and(|earlier| earlier.version == version) {
        return Ok(earlier);
    }
    let begun = Instant::now();
    let made = match part {
        Part::Draw => {
            let draw = draws::find(pool, voucher).await?;
            let is_final = draw.as_ref().is_some_and(|draw| draw.drawn_at.is_some());
            Document::new(room, version, is_final, &draw)
        }
        Part::Service => Document::new(room, version, false, &draws::service(pool, voucher).await?),
    };
    // Without room for it the earlier one stays, and nobody reads it again at once.
    let document = made.or(earlier).map(|document| document.resting(part, begun.elapsed()));
    let no_room = || StoreError::unavailable(Service::Postgres, NO_ROOM);
    document.map(Some).ok_or_else(no_room)
}

const NO_ROOM: &str = "slow clients still read as many bytes of documents of draws as there may be";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_document_takes_room_until_its_last_reader_has_it_and_rests_after_a_long_read() {
        let room = Room::new(Semaphore::new(100));
        let of = |length| Document::new(&room, String::new(), false, &"x".repeat(length));
        let (Some(kept), None) = (of(58), of(58)) else { unreachable!("60 bytes of 100 are left") };
        let Some(other) = of(38) else { unreachable!("40 bytes are left, and it has two quotes") };
        assert_eq!(room.available_permits(), 0);
        let sent = kept.clone().answer(&HeaderMap::new());
        drop((kept, other));
        assert_eq!(room.available_permits(), 40);
        drop(sent);
        let Some(document) = of(98) else { unreachable!("nothing is held") };
        assert_eq!(Document::weight(&Some(document.clone())), BESIDE_BYTES + 100);
        let second = Duration::from_secs(1);
        let (draw, service) =
            (document.clone().resting(Part::Draw, second), document.resting(Part::Service, second));
        assert!(draw.is_due() && !service.is_due());
        tokio::time::advance(second * (RESTS - 1)).await;
        assert!(!service.is_due());
        tokio::time::advance(second).await;
        assert!(service.is_due());
        assert!(!Document { is_final: true, ..service }.is_due());
    }
}
