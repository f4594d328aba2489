//! Ended sessions: the instant before which the tokens of a user are void.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::postgres::PgPool;

use super::statements::{Work, in_time};
use super::{StoreError, order_steps, users};
use crate::model::UserId;

/// A user has a row that is there, which is free at once unless another session holds it: whoever asks again and again then
/// keeps the place from the others for a moment only.
const GIVES_WAY_AT_ONCE: &str = "set local lock_timeout = '50ms'";

/// Ends all sessions of `user`. Returns the instant of the end, which is later than that of each end before, also where
/// the clock was set back; `None`: there is no such user.
pub async fn revoke(pool: &PgPool, user: UserId) -> Result<Option<DateTime<Utc>>, StoreError> {
    let Some(found) = users::find(pool, user).await? else { return Ok(None) };
    let now = order_steps::time(pool).await?;
    let after = found.tokens_not_before.map(|before| before + TimeDelta::microseconds(1));
    // Somebody else may have ended them since.
    let query = sqlx::query_scalar(
        "update users
         set tokens_not_before = greatest($2, tokens_not_before)
         where id = $1
         returning tokens_not_before",
    )
    .bind(user.get())
    .bind(after.map_or(now, |after| after.max(now)));
    let _place = users::place_of(&users::WRITING).await?;
    let end = Work::step_with(GIVES_WAY_AT_ONCE, pool);
    end.run(async |session| query.fetch_optional(session).await).await
}

/// The users from `first` to `last` who have ended all sessions, and when each did so last.
pub async fn list_of(
    pool: &PgPool,
    first: UserId,
    last: UserId,
) -> Result<HashMap<UserId, DateTime<Utc>>, StoreError> {
    let query = sqlx::query_as(
        "select id, tokens_not_before from users
         where id between $1 and $2 and tokens_not_before is not null",
    )
    .bind(first.get())
    .bind(last.get());
    let ends: Vec<(UserId, DateTime<Utc>)> =
        in_time(pool, async |connection| query.fetch_all(connection).await).await?;
    Ok(ends.into_iter().collect())
}

/// Up to `limit` revocations in their order after one at `instant` of the user with the id `user`.
pub async fn list_after(
    pool: &PgPool,
    (instant, user): (DateTime<Utc>, i64),
    limit: i64,
) -> Result<Vec<(UserId, DateTime<Utc>)>, StoreError> {
    // The index is partial, hence the first condition.
    let query = sqlx::query_as(
        "select id, tokens_not_before from users
         where tokens_not_before is not null and (tokens_not_before, id) > ($1, $2)
         order by tokens_not_before, id
         limit $3",
    )
    .bind(instant)
    .bind(user)
    .bind(limit);
    in_time(pool, async |connection| query.fetch_all(connection).await).await
}
