//! The buyers: the user that a request names, or a new one where it names none.

use std::sync::atomic::{AtomicI64, Ordering};

use axum::http::{HeaderMap, header};
use sqlx::postgres::PgPool;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use seckill::http::ApiError;
use seckill::model::UserId;

/// Buyers that wait to be written down. Beyond them an order waits, too.
const MAX_WAITING: usize = 10_000;

/// Gives numbers to buyers who do not bring one.
#[derive(Debug)]
pub(super) struct Numbers(AtomicI64);

impl Numbers {
    /// The first is `first`.
    pub(super) const fn from(first: i64) -> Self {
        Self(AtomicI64::new(first))
    }

    /// The buyer of a request. There is no authentication in the lab: the token is the user's
    /// number. Without one it is somebody who has never been here, so that plain `curl` and
    /// `wrk` are a crowd.
    pub(super) fn who(&self, headers: &HeaderMap) -> Result<UserId, ApiError> {
        let wrong = || ApiError::invalid("in the lab the token is the user's number: Bearer 7");
        let Some(said) = headers.get(header::AUTHORIZATION) else {
            let next = self.0.fetch_add(1, Ordering::Relaxed);
            return UserId::new(next).ok_or_else(wrong);
        };
        let (scheme, number) =
            said.to_str().ok().and_then(|said| said.split_once(' ')).ok_or_else(wrong)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(wrong());
        }
        number.trim().parse().map_err(|_| wrong())
    }
}

/// Writes the buyers into `users`, so that `seckill audit` knows them: beside the
/// purchases and many at a time, because this is no part of what a rung is measured by.
#[derive(Debug, Clone)]
pub(super) struct Register(mpsc::Sender<UserId>);

impl Register {
    /// Begins to write, until the handle is dropped.
    pub(super) fn open(database: PgPool) -> (Self, AbortOnDropHandle<()>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Self(sender), AbortOnDropHandle::new(tokio::spawn(write(database, receiver))))
    }

    /// `user` has bought.
    pub(super) async fn bought(&self, user: UserId) {
        // Closed only when all is over.
        let _ = self.0.send(user).await;
    }
}

async fn write(database: PgPool, mut waiting: mpsc::Receiver<UserId>) {
    let mut users = Vec::new();
    while waiting.recv_many(&mut users, MAX_WAITING).await > 0 {
        let numbers: Vec<i64> = users.drain(..).map(UserId::get).collect();
        let written = sqlx::query(
            "insert into users (id, phone, nickname, created_at)
             select id, 'lab-' || id, 'lab-' || id, now() from unnest($1::bigint[]) as id
             on conflict do nothing",
        )
        .bind(numbers)
        .execute(&database)
        .await;
        if let Err(error) = written {
            tracing::warn!(%error, "buyers have no row in users: `seckill audit` will say so");
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn who(said: &'static str) -> Option<i64> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static(said));
        Numbers::from(1).who(&headers).ok().map(UserId::get)
    }

    #[test]
    fn the_token_is_the_users_number() {
        assert_eq!(who("Bearer 7"), Some(7));
        assert_eq!(who("bearer 7"), Some(7));
        for wrong in ["Bearer", "Bearer ", "Bearer -7", "Bearer 0", "Bearer x", "7", "Basic 7"] {
            assert_eq!(who(wrong), None, "{wrong}");
        }
        assert_eq!(who("Bearer 9223372036854775808"), None);
    }

    #[test]
    fn a_buyer_without_a_token_is_somebody_new() {
        let numbers = Numbers::from(100);
        let who = || numbers.who(&HeaderMap::new()).ok().map(UserId::get);
        assert_eq!([who(), who()], [Some(100), Some(101)]);
    }
}
