//! The state that all requests of `lab serve` share.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::buyers::Numbers;
use super::rung_service::RungService;
use ladder::Rung;
use seckill::model::VoucherId;

/// Purchases under way, those included whose buyers have left.
const MAX_PURCHASES: usize = 16_384;

/// What is on sale at every service from the beginning.
pub(super) const FIRST_STOCK: i32 = 100;

/// What all requests share.
pub(super) struct LabState {
    pub(super) services: Vec<Arc<RungService>>,
    /// One on sale at each, in the services' order; none at a node's.
    pub(super) first: Vec<VoucherId>,
    pub(super) strangers: Numbers,
    pub(super) address: SocketAddr,
    pub(super) purchases: TaskTracker,
    pub(super) places: Arc<Semaphore>,
}

impl LabState {
    pub(super) fn new(address: SocketAddr, services: Vec<RungService>, strangers: i64) -> Self {
        Self {
            services: services.into_iter().map(Arc::new).collect(),
            first: Vec::new(),
            strangers: Numbers::from(strangers + 1),
            address,
            purchases: TaskTracker::new(),
            places: Arc::new(Semaphore::new(MAX_PURCHASES)),
        }
    }

    /// Each rung and what is on sale there.
    pub(super) fn on_sale(&self) -> impl Iterator<Item = OnSale> {
        self.services.iter().zip(&self.first).map(|(service, voucher)| OnSale {
            rung: service.rung,
            voucher: *voucher,
            curl: format!(
                "curl -X POST http://{}/lab/{}/vouchers/{voucher}/orders",
                self.address, service.rung.id
            ),
        })
    }
}

/// A voucher on sale at a rung.
#[derive(Debug)]
pub struct OnSale {
    /// The rung.
    pub rung: &'static Rung,
    /// The voucher.
    pub voucher: VoucherId,
    /// A command that buys it.
    pub curl: String,
}
