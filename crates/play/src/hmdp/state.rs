//! What the handlers can reach.

use axum::extract::FromRef;
use seckill::http::App;

use super::lists::ListAnswers;
use crate::login::Demonstration;

#[derive(Debug, Clone)]
pub(super) struct HmdpState {
    pub(super) demonstration: Demonstration,
    pub(super) lists: ListAnswers,
}

impl FromRef<HmdpState> for App {
    fn from_ref(state: &HmdpState) -> Self {
        state.demonstration.app.clone()
    }
}
