//! Buyers are told by text message what happened to their orders. The events say whom to tell; each text is a message, which is
//! sent until the gateway takes it, as any other.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;

use super::sms::{BuyerText, SmsGateway};
use super::{Language, TextFile};
use crate::config::{Occasion, Occasions};
use crate::model::{Currency, OrderStatus};
use crate::orders::event_sender::EventReceiver;
use crate::orders::outbox::{Receiver, Unsent, pause_after};
use crate::store::event_log::Event;
use crate::store::messages::{self, Channel, MessageId, MessageKind, Told};
use crate::store::{Database, order_steps};

static TEXTS: TextFile = TextFile::new(include_str!("buyer_texts.toml"));

/// A step that is older is told to nobody: texts may have been off meanwhile.
const TOLD_FOR: TimeDelta = TimeDelta::hours(6);
/// How often a text is sent that the gateway does not take: for about six hours.
const MAX_ATTEMPTS: i32 = 80;

/// Writes texts for the events of which buyers are told.
#[derive(Debug)]
pub struct BuyerTexts {
    /// Where they are written.
    pub database: Database,
    /// Of what buyers are told.
    pub occasions: Occasions,
}

impl BuyerTexts {
    /// The text that an event calls for.
    fn text_for(&self, event: &Event) -> Option<MessageId> {
        let is_offered = event.details.0.get("entry_id").is_some();
        let (occasion, kind) = match (event.kind.as_str(), event.actor.as_str()) {
            ("entry.offered", _) => (Occasion::Offered, MessageKind::TellOffered),
            // The buyer of a free voucher had the answer to the purchase.
            ("order.paid", "gateway") | ("order.revived", _) => {
                (Occasion::Paid, MessageKind::TellPaid)
            }
            ("order.paid", _) if is_offered => (Occasion::Offered, MessageKind::TellPaid),
            // One that is refunded by an administrator at once costs nothing.
            ("order.cancelled" | "order.refund_begun" | "order.refunded", "administrator") => {
                (Occasion::Cancelled, MessageKind::TellCancelled)
            }
            ("order.refunded" | "order.settled_outside", _) => {
                (Occasion::Refunded, MessageKind::TellRefunded)
            }
            _ => return None,
        };
        let order_id = event.order_id.filter(|_| self.occasions.0.contains(&occasion))?;
        let (_, number) = event.id.rsplit_once('.')?;
        let number = number.parse().ok()?;
        Some(MessageId { kind, voucher_id: event.voucher_id, order_id, number })
    }
}

#[async_trait]
impl EventReceiver for BuyerTexts {
    fn name(&self) -> &'static str {
        "buyers"
    }

    async fn take(&self, events: &[Event]) -> Result<(), String> {
        let write = async {
            let pool = self.database.pool();
            let now = order_steps::time(pool).await?;
            let recent = events.iter().filter(|event| now - event.at <= TOLD_FOR);
            let texts: Vec<_> = recent.filter_map(|event| self.text_for(event)).collect();
            if texts.is_empty() { Ok(()) } else { messages::tell_buyers(pool, &texts).await }
        };
        write.await.map_err(|error| error.to_string())
    }
}

/// Sends the texts.
#[derive(Debug, Clone)]
pub struct ToPhones {
    /// Where they are.
    pub database: Database,
    /// Sends them.
    pub sms: Arc<dyn SmsGateway>,
    /// Of all prices.
    pub currency: Currency,
}

impl Receiver for ToPhones {
    const CHANNEL: Channel = Channel::Phones;

    async fn send(&self, message: MessageId) -> Result<bool, Unsent> {
        let Some(told) = messages::find_told(self.database.pool(), message).await? else {
            return Ok(true);
        };
        if let Some(text) = self.text(message, &told) {
            self.sms.send_text(&text).await.map_err(Unsent::NotTaken)?;
        }
        Ok(true)
    }

    fn pause(&self, message: MessageId, attempt: i32, error: &str) -> Option<Duration> {
        let may_try = attempt < MAX_ATTEMPTS;
        tracing::warn!(text = %id_of(message), attempt, error, may_try, "a text to a buyer was not taken");
        may_try.then(|| pause_after(attempt))
    }
}

impl ToPhones {
    /// What is said; `None`: it is not true any more, or nobody has the phone.
    fn text<'a>(&self, message: MessageId, told: &'a Told) -> Option<BuyerText<'a>> {
        let phone = told.phone.as_deref()?;
        let left = told.pay_by.map(|pay_by| pay_by - told.now);
        let is_free = told.amount == 0;
        let template = match (message.kind, told.status) {
            (MessageKind::TellOffered, OrderStatus::Unpaid)
                if left >= Some(TimeDelta::minutes(1)) =>
            {
                "offered"
            }
            (MessageKind::TellPaid, OrderStatus::Paid | OrderStatus::Used) if is_free => "yours",
            (MessageKind::TellPaid, OrderStatus::Paid | OrderStatus::Used) => "paid",
            (MessageKind::TellRefunded, OrderStatus::Refunded) => "refunded",
            (MessageKind::TellCancelled, OrderStatus::Cancelled) => "cancelled",
            // The money is back already: another text says so.
            (MessageKind::TellCancelled, OrderStatus::Refunded)
                if is_free || told.is_sale_cancelled =>
            {
                "cancelled"
            }
            (MessageKind::TellCancelled, OrderStatus::Refunding) if told.is_sale_cancelled => {
                "cancelled_refund"
            }
            _ => return None,
        };
        let is_chinese = ["+852", "+853", "+886"].iter().any(|code| phone.starts_with(code));
        // A phone of mainland China is kept without its country code.
        let language = match is_chinese || !phone.starts_with('+') {
            true => Language::Chinese,
            false => Language::English,
        };
        let minutes = left.filter(|_| template == "offered").map(|left| left.num_minutes());
        let amount = format!("{} {}", self.currency.decimal(told.amount), self.currency);
        let text = TEXTS.of(language)[template]
            .replace("{amount}", &amount)
            .replace("{minutes}", &minutes.unwrap_or_default().to_string())
            .replace("{title}", &told.title); // the last: a title may have braces
        let (id, title) = (id_of(message), told.title.as_str());
        Some(BuyerText { id, phone, template, text, title, amount: told.amount, minutes })
    }
}

fn id_of(MessageId { kind, voucher_id, order_id, number }: MessageId) -> String {
    format!("{voucher_id}.{order_id}.{number}.{}", <&str>::from(kind))
}
