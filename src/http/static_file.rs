//! A file that the program carries, as it is and compressed. None is copied for a request.

use std::io::Write;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::OnceCell;

use super::accepts;

/// A file that does not change while the program runs.
#[derive(Debug)]
pub struct StaticFile {
    content_type: HeaderValue,
    bytes: Bytes,
    /// Made for the first client that takes it, on a thread where that may take a while.
    gzip: OnceCell<Bytes>,
}

impl StaticFile {
    /// A file of `content_type`.
    pub const fn new(content_type: HeaderValue, bytes: Bytes) -> Self {
        Self { content_type, bytes, gzip: OnceCell::const_new() }
    }

    /// The file for a request with these headers. Its policy and how long it may be kept are the
    /// caller's to add.
    pub async fn answer(&self, headers: &HeaderMap) -> Response {
        let mut response = if accepts(headers, header::ACCEPT_ENCODING, "gzip") {
            let make = async || {
                let bytes = self.bytes.clone();
                let made = tokio::task::spawn_blocking(move || compressed(&bytes)).await;
                made.unwrap_or_else(|error| panic!("a file could not be compressed: {error}"))
            };
            let bytes = self.gzip.get_or_init(make).await.clone();
            ([(header::CONTENT_ENCODING, "gzip")], bytes).into_response()
        } else {
            self.bytes.clone().into_response()
        };
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, self.content_type.clone());
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        response
    }
}

fn compressed(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    match encoder.write_all(bytes).and_then(|()| encoder.finish()) {
        Ok(made) => made.into(),
        Err(error) => unreachable!("memory takes what is written: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_for_clients_that_take_it() {
        let takes = |text: &'static str| {
            let text = HeaderValue::from_static(text);
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, text)]);
            accepts(&headers, header::ACCEPT_ENCODING, "gzip")
        };
        assert!(!accepts(&HeaderMap::new(), header::ACCEPT_ENCODING, "gzip"));
        for text in ["gzip", "br, GZIP", "deflate,gzip;q=0.1", "gzip; q=1"] {
            assert!(takes(text), "{text}");
        }
        for text in ["", "br", "identity", "gzip;q=0", "gzip; q=0.0, br", "gzip;q=x", "x-gzip2"] {
            assert!(!takes(text), "{text}");
        }
    }
}
