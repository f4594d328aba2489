//! *Idea.* A lock service that agrees before it answers: a place in a ZooKeeper queue, kept by
//! the holder's session (the lock recipe of the ZooKeeper documentation).
//! *Holds.* One order per user; a waiter watches the one ahead, and a dead holder's place goes
//! with its session.
//! *Breaks when* the service is down: nobody buys. And when the holder is stopped past its session,
//! between its last look and its write: the service knows better, the database does not. It is slow,
//! and one more system to run.
//! *Next.* Let the database judge, which has the data anyway (r18a).

use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgPool;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, SessionState};

use super::{Answer, Awaited, Design, Detail, Point, Purchase, Resources, RungError};
use seckill::store::Keys;

/// A shorter session ends by itself on a busy machine.
const MIN_SESSION: Duration = Duration::from_secs(1);

const QUEUE: CreateOptions<'static> = CreateMode::Container.with_acls(Acls::anyone_all());
const PLACE: CreateOptions<'static> = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());

struct ZooKeeper {
    database: PgPool,
    address: String,
    keys: Keys,
    session: OnceCell<Client>,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let address = resources.zookeeper.ok_or(RungError::Lacks("a ZooKeeper"))?;
    let session = OnceCell::new();
    Ok(Box::new(ZooKeeper { database: resources.database, address, keys: resources.keys, session }))
}

#[async_trait]
impl Design for ZooKeeper {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let connector = Client::connector().with_session_timeout(purchase.lease.max(MIN_SESSION));
        let session = self.session.get_or_try_init(|| connector.connect(&self.address)).await?;
        let queue = format!("/{}", self.keys.order_lock(purchase.user));
        session.mkdir(&queue, &QUEUE).await?;
        let (_, number) = session.create(&format!("{queue}/place-"), b"", &PLACE).await?;
        let place = format!("place-{number}");
        let own = format!("{queue}/{place}");
        let turn = first_in(session, &queue, &place, purchase);
        let answer = match timeout(purchase.patience, turn).await {
            Ok(Ok(())) => self.buy_first(purchase, session).await,
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(Answer::InProgress),
        };
        purchase.at(Point::Releasing, Detail::PlaceInQueue).await;
        // What fails here ends with the session.
        let _ = session.delete(&own, None).await;
        answer
    }
}

/// Until nobody is ahead of `place`.
async fn first_in(
    session: &Client,
    queue: &str,
    place: &str,
    purchase: &Purchase,
) -> Result<(), RungError> {
    loop {
        let mut places = session.list_children(queue).await?;
        places.sort();
        let Some(ahead) = places.iter().rev().find(|other| other.as_str() < place) else {
            return Ok(());
        };
        purchase.at(Point::Missed, Detail::WillWatchAhead).await;
        let (there, left) = session.check_and_watch_stat(&format!("{queue}/{ahead}")).await?;
        if there.is_some() {
            purchase.waiting(Awaited::Release, left.changed()).await;
        }
    }
}

impl ZooKeeper {
    async fn buy_first(&self, purchase: &Purchase, session: &Client) -> Result<Answer, RungError> {
        purchase.at(Point::Locked, Detail::FirstInQueue).await;
        if let Some(inner) = purchase.inner() {
            purchase.at(Point::InnerDone, self.buy(&inner).await?).await;
        }
        self.place(purchase, session).await
    }

    async fn place(&self, purchase: &Purchase, session: &Client) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        let orders: i64 = sqlx::query_scalar(
            "select count(*) from orders where user_id = $1 and voucher_id = $2",
        )
        .bind(purchase.user.get())
        .bind(purchase.voucher.get())
        .fetch_one(&mut *transaction)
        .await?;
        purchase.at(Point::OrdersCounted, orders).await;
        if orders > 0 {
            return Ok(Answer::AlreadyBought);
        }
        if session.state() != SessionState::SyncConnected {
            return Err(RungError::LockLost);
        }
        purchase.at(Point::LastCheck, Detail::StillOwn).await;
        let taken = sqlx::query(
            "update seckill_vouchers set stock = stock - 1 where voucher_id = $1 and stock > 0",
        )
        .bind(purchase.voucher.get())
        .execute(&mut *transaction)
        .await?;
        if taken.rows_affected() == 0 {
            return Ok(Answer::SoldOut);
        }
        let order: i64 = sqlx::query_scalar(
            "insert into orders (user_id, voucher_id) values ($1, $2) returning id",
        )
        .bind(purchase.user.get())
        .bind(purchase.voucher.get())
        .fetch_one(&mut *transaction)
        .await?;
        purchase.at(Point::Committing, order).await;
        transaction.commit().await?;
        Ok(Answer::Ordered(order))
    }
}
