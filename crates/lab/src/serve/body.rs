//! Request bodies: small, and not for ever on their way.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;

use super::problem::{LabCode, LabProblem};

/// The largest body that is taken, in bytes.
const MAX_BODY_BYTES: usize = 16 * 1024;
/// How long a body may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(10);
/// How much of a body that is too large is read and thrown away, so that its sender gets
/// to read the answer instead of a reset connection.
const MAX_DRAINED_BYTES: usize = 32 * 1024 * 1024;

/// The request with its whole body in memory.
pub(super) async fn whole(request: Request) -> Result<Request, LabProblem> {
    if request.body().is_end_stream() {
        return Ok(request);
    }
    let (parts, mut body) = request.into_parts();
    if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        // A client that waits for `100 Continue` has not sent the body yet and will not.
        if !parts.headers.contains_key(header::EXPECT) {
            drain(body).await;
        }
        return Err(too_large());
    }
    let collected = Limited::new(&mut body, MAX_BODY_BYTES).collect();
    match tokio::time::timeout(ARRIVES_WITHIN, collected).await {
        Ok(Ok(whole)) => Ok(Request::from_parts(parts, whole.to_bytes().into())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            drain(body).await;
            Err(too_large())
        }
        Ok(Err(_)) => Err(LabProblem::invalid("the body broke off")),
        Err(_) => Err(LabProblem::invalid("the body did not arrive in time")),
    }
}

fn too_large() -> LabProblem {
    LabProblem::new(LabCode::TooLarge).detail(format!("a body may have {MAX_BODY_BYTES} bytes"))
}

async fn drain(body: Body) {
    let mut body = Limited::new(body, MAX_DRAINED_BYTES);
    let drained = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = tokio::time::timeout(ARRIVES_WITHIN, drained).await;
}
