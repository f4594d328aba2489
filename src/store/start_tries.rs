//! What a start has to know from the database before it serves anybody.

use super::StoreError;

/// How often a start asks before it gives up.
const START_TRIES: usize = 5;

/// Counts how often a start has asked in vain. A database that has just started may be slow.
#[derive(Debug, Default)]
pub(crate) struct StartTries(usize);

impl StartTries {
    /// Whether to ask once more after this answer.
    pub(crate) fn another_may_help(&mut self, error: &StoreError) -> bool {
        self.0 += 1;
        self.0 < START_TRIES && error.retry_may_help()
    }
}

/// What `read` reads, by as many tries as a start has.
///
/// # Errors
/// That of the last try.
pub(crate) async fn read_at_start<T, R>(mut read: impl FnMut() -> R) -> Result<T, StoreError>
where
    R: Future<Output = Result<T, StoreError>>,
{
    let mut tries = StartTries::default();
    loop {
        match read().await {
            Err(error) if tries.another_may_help(&error) => {}
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::store::Service;

    async fn tries_before(answer: impl Fn(usize) -> Result<(), StoreError>) -> (usize, bool) {
        let tries = Cell::new(0);
        let read = || {
            tries.set(tries.get() + 1);
            std::future::ready(answer(tries.get()))
        };
        let is_read = read_at_start(read).await.is_ok();
        (tries.get(), is_read)
    }

    #[tokio::test]
    async fn a_start_asks_a_few_times_and_only_where_that_may_help() {
        let away = || StoreError::unavailable(Service::Postgres, std::fmt::Error);
        let slow = |try_number| if try_number < 5 { Err(away()) } else { Ok(()) };
        assert_eq!(tries_before(slow).await, (5, true));
        assert_eq!(tries_before(|_| Err(away())).await, (5, false));
        let defect = |_| Err(StoreError::from(sqlx::Error::RowNotFound));
        assert_eq!(tries_before(defect).await, (1, false));
    }
}
