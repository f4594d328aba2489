//! The payment service of an operator, as a test lets it answer.

use std::sync::{Arc, Mutex};

use axum::Router;
use seckill::http::payments::PaymentWebhook;
use seckill::http::server::ServerLimits;
use seckill::http::webhook::Webhook;
use serde_json::json;

use super::served::Served;
use super::world::World;

/// A real HTTP server, which answers every message alike.
#[derive(Debug, Clone, Default)]
pub struct PaymentService(Arc<Mutex<String>>);

impl PaymentService {
    /// From now on it answers this.
    pub fn answers(&self, body: &str) {
        body.clone_into(&mut self.0.lock().unwrap());
    }

    /// From now on it sends buyers there.
    pub fn sends_to(&self, pay_url: &str) {
        self.answers(&json!({ "pay_url": pay_url }).to_string());
    }
}

impl World {
    /// The same, whose buyers pay at `service`, also by WeChat and Alipay.
    #[must_use]
    pub fn paying_at(self, service: &PaymentService) -> Self {
        let answer = Arc::clone(&service.0);
        let routes = Router::new().fallback(async move || answer.lock().unwrap().clone());
        let address = Served::new(routes, ServerLimits::of(100)).address;
        let url = format!("http://{address}/pay").parse().unwrap();
        let webhook = Webhook::new(url, self.secret.as_bytes(), self.clock.clone()).unwrap();
        let schemes = "http,https,weixin,alipays".parse().unwrap();
        Self { payments: Some(Arc::new(PaymentWebhook { webhook, schemes })), ..self }
    }
}
