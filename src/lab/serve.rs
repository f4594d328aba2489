//! The rungs over HTTP.

use crate::ladder::{Rung, Shop};

/// Serves one rung on a free port until `stop` resolves.
///
/// # Errors
/// When it cannot listen.
pub(super) async fn node(
    _rung: &'static Rung,
    _shop: Shop,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    stop.await;
    Ok(())
}
