//! Routes as a server of this process serves them.

use std::net::SocketAddr;

use axum::Router;
use seckill::http::server::{self, ServerLimits};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::wait::must;

/// A server on a port of its own. It serves until it is told to stop, or the runtime of its test ends.
pub struct Served {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    pub serving: JoinHandle<()>,
}

impl Served {
    pub fn new(routes: Router, limits: ServerLimits) -> Self {
        Self::with_farewell(routes, limits, || ())
    }

    /// The same, with what is done when it is told to stop.
    pub fn with_farewell(
        routes: Router,
        limits: ServerLimits,
        farewell: impl FnOnce() + Send + 'static,
    ) -> Self {
        let listener = server::listen(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopped = async move {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
            farewell();
        };
        let serving = tokio::spawn(server::serve(listener, routes, limits, stopped));
        Self { address, stop: Some(stop), serving }
    }

    /// Tells it to stop.
    pub fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Until it has answered all that it began.
    pub async fn ended(self) {
        must("the server stops", self.serving).await.unwrap();
    }
}
