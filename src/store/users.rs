//! Users.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::postgres::PgPool;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::columns::row;
use super::connecting::PoolKind;
use super::statements::{Work, in_time};
use super::time_limits::{CONNECTION_WITHIN, GIVES_WAY};
use super::{DatabaseSession, Service, StoreError};
use crate::model::{User, UserId};
use redis_link::timeout::within;

row! { User: id, phone, nickname, created_at, tokens_not_before }

/// A phone that nobody has: the country code is not assigned, and [`create_range`] makes no user of it. The
/// administrator of a demonstration, where none is configured, logs in with it.
pub const NOBODYS_PHONE: &str = "+99900000000000";

/// The user with this phone, created if there is none.
pub async fn find_or_create(
    pool: &PgPool,
    phone: &str,
    nickname: &str,
    now: DateTime<Utc>,
) -> Result<User, StoreError> {
    loop {
        // Most logins are not the first one: for them nothing is written.
        if let Some(user) = find_by_phone(pool, phone).await? {
            return Ok(user);
        }
        let id = UserId::at(now, rand::random()).ok_or_else(|| {
            StoreError::defect(Service::Postgres, "no user id names the present time")
        })?;
        // If another login has made this user meanwhile, the next look finds it; if somebody else has the id, another is drawn.
        let query = sqlx::query_as(
            "insert into users (id, phone, nickname, created_at) values ($1, $2, $3, $4)
             on conflict do nothing
             returning id, phone, nickname, created_at, tokens_not_before",
        )
        .bind(id.get())
        .bind(phone)
        .bind(nickname)
        .bind(now);
        let _place = place_of(&WRITING).await?;
        let made = Work::step_with(GIVES_WAY, pool);
        let made = made.run(async |session| query.fetch_optional(session).await);
        if let Some(user) = made.await? {
            return Ok(user);
        }
    }
}

/// Statements of this process that write users, at once, on the connections of all readers. Another session may hold a
/// user's row, or all of them ([`reserve_ids`] does): the others go on reading.
pub(super) static WRITING: Semaphore = Semaphore::const_new(PoolKind::Others.half());

/// One of these places, as soon as one is free.
pub(super) async fn place_of(
    places: &'static Semaphore,
) -> Result<SemaphorePermit<'static>, StoreError> {
    let Ok(Ok(place)) = within(CONNECTION_WITHIN, places.acquire()).await else {
        let why = "statements that were sent before wait for the rows of users";
        return Err(StoreError::unavailable(Service::Postgres, why));
    };
    Ok(place)
}

/// The user who has this phone, as it is spelled.
pub async fn find_by_phone(pool: &PgPool, phone: &str) -> Result<Option<User>, StoreError> {
    let query = sqlx::query_as(
        "select id, phone, nickname, created_at, tokens_not_before from users where phone = $1",
    )
    .bind(phone);
    in_time(pool, async |connection| query.fetch_optional(connection).await).await
}

/// Whether some user has a phone of one of these spellings.
pub async fn have_phone(pool: &PgPool, spellings: &[String]) -> Result<bool, StoreError> {
    let query = sqlx::query_scalar("select exists (select from users where phone = any ($1))");
    let query = query.bind(spellings);
    in_time(pool, async |connection| query.fetch_one(connection).await).await
}

/// The user with this id; none who was erased.
pub async fn find(pool: &PgPool, id: UserId) -> Result<Option<User>, StoreError> {
    let query = sqlx::query_as(
        "select id, phone, nickname, created_at, tokens_not_before from users
         where id = $1 and phone is not null",
    )
    .bind(id.get());
    in_time(pool, async |connection| query.fetch_optional(connection).await).await
}

/// How long the database may take to set ids aside.
const RESERVED_WITHIN: Duration = Duration::from_secs(30);

/// Sets aside `count` ids in a row, for [`create_range`], that no user has. Returns the first.
pub async fn reserve_ids(pool: &PgPool, count: u32) -> Result<UserId, StoreError> {
    let reserve = async |session: &mut DatabaseSession| {
        sqlx::query("lock table users in share row exclusive mode").execute(&mut *session).await?;
        let first: i64 = sqlx::query_scalar(
            "select greatest(nextval(pg_get_serial_sequence('users', 'id')),
                             (select coalesce(max(id), 0) + 1 from users where id <= $1))",
        )
        .bind(UserId::LAST_OF_A_RANGE)
        .fetch_one(&mut *session)
        .await?;
        sqlx::query("select setval(pg_get_serial_sequence('users', 'id'), $1)")
            .bind(first + i64::from(count) - 1)
            .execute(session)
            .await?;
        Ok(first)
    };
    let first = Work::transaction(RESERVED_WITHIN, pool).run(reserve).await?;
    UserId::new(first)
        .ok_or_else(|| StoreError::defect(Service::Postgres, "user ids are exhausted"))
}

/// A statement with very many users takes its time.
const CREATED_WITHIN: Duration = Duration::from_secs(60);

/// Creates the load testers' users `first .. first + count`, with phone numbers of a
/// country code that is not assigned (+999). Those that exist are left as they are,
/// and all others are created or none. Returns how many were created.
pub async fn create_range(
    pool: &PgPool,
    first: UserId,
    count: u32,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let create = sqlx::query(
        "insert into users (id, phone, nickname, created_at)
         select id, '+999' || lpad(id::text, 11, '0'), 'load-' || id, $3
         from generate_series($1::bigint, $1::bigint + $2::bigint - 1) as id
         on conflict do nothing",
    )
    .bind(first.get())
    .bind(i64::from(count))
    .bind(now);
    // Later ranges come after these; the sequence never goes back.
    let set_sequence = sqlx::query(
        "select setval(pg_get_serial_sequence('users', 'id'),
                       greatest((select max(id) from users where id <= $1),
                                nextval(pg_get_serial_sequence('users', 'id')) - 1))",
    )
    .bind(UserId::LAST_OF_A_RANGE);
    let create = async |session: &mut DatabaseSession| {
        let created = create.execute(&mut *session).await?.rows_affected();
        set_sequence.execute(session).await?;
        Ok(created)
    };
    Work::transaction(CREATED_WITHIN, pool).run(create).await
}
