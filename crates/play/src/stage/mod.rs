//! The stage: one sale that everybody watches who has the page `/watch` open, and beside it the same crowd
//! at a wrong design.
//!
//! `show` is what there is to see; `watchers` tells it to all pages; `director` runs a show; `seller` is who
//! sells in it; `verdict` is what came of it; `api` has the routes, `html` the page, `place` tells a buyer
//! of the shop how early an order was.

mod api;
mod director;
mod html;
mod place;
mod seller;
mod show;
mod verdict;
mod watchers;

pub(super) use api::{StageState, routes};
pub(super) use director::{ShowDirector, ShowSize};
pub(super) use html::ShowPageData;
pub(super) use seller::CrowdSender;
