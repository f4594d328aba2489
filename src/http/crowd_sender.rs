//! What a server that sends crowds of made-up buyers does, for the handlers that ask for it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::whole_number;
use super::schemas::Id;
use super::verdicts::CrowdVerdict;
use crate::model::VoucherId;

/// Buyers of one crowd.
pub const MAX_USERS: i32 = 20_000;
/// Attempts of each.
pub const MAX_ATTEMPTS: i32 = 10;

/// A crowd to send.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCrowd {
    /// What the crowd buys.
    #[schema(value_type = Id)]
    pub voucher_id: VoucherId,
    /// Buyers, who are made for it.
    #[serde(deserialize_with = "whole_number")]
    #[schema(minimum = 1, maximum = 20_000, example = 1000)]
    pub users: i32,
    /// How often each of them tries, all at once.
    #[serde(deserialize_with = "whole_number")]
    #[schema(minimum = 1, maximum = 10, example = 5)]
    pub attempts: i32,
}

/// How far a crowd is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CrowdPhase {
    /// Its users are made, and the sale has perhaps not begun.
    Preparing,
    /// Its attempts are sent.
    Running,
    /// The database is audited.
    Auditing,
    /// There is a verdict.
    Ended,
    /// It was stopped.
    Stopped,
    /// It could not be sent, or not be judged.
    Failed,
}

impl CrowdPhase {
    /// Whether there is nothing more to come.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Ended | Self::Stopped | Self::Failed)
    }
}

/// A crowd, and how far it is.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CrowdBody {
    /// What was asked for.
    #[serde(flatten)]
    pub crowd: NewCrowd,
    /// How far it is.
    pub phase: CrowdPhase,
    /// Attempts that are over.
    #[schema(minimum = 0)]
    pub done: u64,
    /// Attempts in all.
    #[schema(minimum = 0)]
    pub total: u64,
    /// Of a crowd that has `ended`.
    #[schema(required = true)]
    pub verdict: Option<CrowdVerdict>,
    /// Why a crowd `failed`, in words.
    #[schema(required = true)]
    pub failure: Option<String>,
}

/// Sends crowds, one at a time.
pub trait CrowdSender: Send + Sync + std::fmt::Debug {
    /// Begins to send a crowd whose sale begins in so long; `None`: another one is under way.
    fn start(&self, crowd: NewCrowd, begins_in: Duration) -> Option<CrowdBody>;
    /// The crowd that was sent last.
    fn current(&self) -> Option<CrowdBody>;
    /// Stops it, if it is under way, and waits for nothing.
    fn stop(&self);
}
