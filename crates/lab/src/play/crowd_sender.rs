//! A crowd of made-up buyers, as it is asked for and told of.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::crowd_verdict::CrowdVerdict;
use seckill::http::body::whole_number;
use seckill::http::schemas::Id;
use seckill::model::VoucherId;

/// Buyers of one crowd.
pub(super) const MAX_USERS: i32 = 20_000;
/// Attempts of each.
pub(super) const MAX_ATTEMPTS: i32 = 10;

/// A crowd to send.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCrowd {
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
pub(super) enum CrowdPhase {
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
    pub(super) const fn is_over(self) -> bool {
        matches!(self, Self::Ended | Self::Stopped | Self::Failed)
    }
}

/// A crowd, and how far it is.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct CrowdBody {
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
