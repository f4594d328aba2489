//! What fails in a replay: servers, and attempts.

use serde::{Deserialize, Serialize};

use super::{InWords, words};
use ladder::RungError;
use seckill::http::Language;

words! {
    /// One of the servers of a lock.
    pub LockServer {
        Redis => "Redis", "Redis ";
        OneRedis { nth: usize, of: usize } => "Redis {nth} of {of}", "Redis {nth}（共 {of} 台）";
        ZooKeeper => "ZooKeeper", "ZooKeeper ";
    }
}

words! {
    /// Where an attempt failed that came to no answer.
    #[derive(Copy, Serialize, Deserialize)]
    pub FailedPart {
        Database => "the database", "数据库出错";
        Store => "a store", "存储出错";
        Redis => "Redis", "Redis";
        Lock => "the lock", "锁出错";
        Purchase => "the purchase", "购买出错";
        ZooKeeper => "ZooKeeper", "ZooKeeper";
        Queue => "the queue is full", "队列满了";
        Entry => "an entry that is no order", "这条消息不是订单";
        Other => "something else", "别的地方出错";
    }
}

/// Why an attempt came to no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Where.
    pub part: FailedPart,
    /// In the words of a library or an operating system; empty where the part says it all.
    pub reason: String,
}

impl InWords for Failure {
    fn in_words(&self, language: Language) -> String {
        let (part, colon) = (self.part.in_words(language), language.choose(": ", "："));
        match (self.part, self.reason.as_str()) {
            (FailedPart::Other, reason) => reason.to_owned(),
            (_, "") => part,
            (_, reason) => format!("{part}{colon}{reason}"),
        }
    }
}

impl From<&anyhow::Error> for Failure {
    fn from(error: &anyhow::Error) -> Self {
        let Some(of_rung) = error.downcast_ref::<RungError>() else {
            return Self { part: FailedPart::Other, reason: error.to_string() };
        };
        let (part, reason) = match of_rung {
            RungError::Database(cause) => (FailedPart::Database, cause.to_string()),
            RungError::Store(cause) => (FailedPart::Store, cause.to_string()),
            RungError::Redis(cause) => (FailedPart::Redis, cause.to_string()),
            RungError::Lock(cause) => (FailedPart::Lock, cause.to_string()),
            RungError::Purchase(cause) => (FailedPart::Purchase, cause.to_string()),
            RungError::ZooKeeper(cause) => (FailedPart::ZooKeeper, cause.to_string()),
            RungError::QueueFull => (FailedPart::Queue, String::new()),
            RungError::NoOrder => (FailedPart::Entry, String::new()),
            RungError::LockLost | RungError::Lacks(_) | RungError::Batch(_) => {
                (FailedPart::Other, of_rung.to_string())
            }
        };
        Self { part, reason }
    }
}
