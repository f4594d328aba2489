//! What takes the payments of a test's world.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use seckill::orders::{AnnounceError, GatewayError, PaymentGateway, PaymentRequest, RefundRequest};
use seckill::store::notices::Notice;
use seckill::store::payments::PaymentId;

/// A payment gateway that keeps what it is asked for, and can be away, or silent.
#[derive(Debug, Default)]
pub struct KeptPayments {
    is_away: AtomicBool,
    is_silent: AtomicBool,
    asked: AtomicUsize,
    pub refunded: Mutex<Vec<RefundRequest>>,
    /// Payments that it knows are not wanted any more.
    pub cancelled: Mutex<Vec<String>>,
    /// Payments of which it was asked what became of them.
    pub questions: Mutex<Vec<PaymentId>>,
    /// What it says of some of them. The others are not paid.
    pub answers: Mutex<HashMap<PaymentId, Notice>>,
}

#[async_trait]
impl PaymentGateway for KeptPayments {
    async fn request_payment(&self, request: PaymentRequest) -> Result<String, AnnounceError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.is_silent.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
        self.answer()?;
        Ok(format!("https://pay.example/{}", request.payment))
    }

    async fn cancel_payment(&self, payment: PaymentId) -> Result<(), GatewayError> {
        self.answer()?;
        self.cancelled.lock().unwrap().push(payment.to_string());
        Ok(())
    }

    async fn payment_status(&self, payment: PaymentId) -> Result<Option<Notice>, GatewayError> {
        self.questions.lock().unwrap().push(payment);
        self.answer()?;
        Ok(self.answers.lock().unwrap().get(&payment).cloned())
    }

    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError> {
        self.answer()?;
        self.refunded.lock().unwrap().push(request.clone());
        Ok(())
    }
}

impl KeptPayments {
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    /// From now on nobody who wants to begin a payment gets an answer.
    pub fn fall_silent(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
    }

    /// How many payments it was asked for.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn answer(&self) -> Result<(), GatewayError> {
        match self.is_away.load(Ordering::Relaxed) {
            true => Err(GatewayError("it is away".to_owned())),
            false => Ok(()),
        }
    }
}
