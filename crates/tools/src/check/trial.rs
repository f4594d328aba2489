//! `--trial`: one buyer, one purchase, one look at the books, each shown with its request, its answer and the rule
//! that reads it. A mistake in the file is seen before a crowd is sent.

use std::time::Duration;

use axum::http::HeaderMap;
use load::calls::{self, Call, CallAnswer};
use load::outcome::{ACCEPTED, CodeAndOrder, NO_ANSWER, ORDERED};
use load::template::{Taken, Values};
use program::ConfigError;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::books::{self, BooksReading, BooksWait};
use super::buyers::{self, CheckBuyer, at, of_user};
use super::target::{CheckRequest, CheckTarget, TokenSource, VoucherSource, call};
use super::vouchers;

/// So much of an answer is shown, in characters.
const SHOWN: usize = 1_000;
/// Between two questions what became of a purchase.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// What one buyer met.
pub struct Trial<'a> {
    target: &'a CheckTarget,
    answer_timeout: Duration,
    /// In place of the values of placeholders.
    buyer: CheckBuyer,
    /// All of it, for a person.
    pub text: String,
}

impl<'a> Trial<'a> {
    /// Lets one buyer buy. The second value says whether a yes was heard and is in the books, as far as the file
    /// tells of them.
    ///
    /// # Errors
    /// When there is no buyer or no voucher, or the books cannot be read.
    pub async fn run(
        target: &'a CheckTarget,
        answer_timeout: Duration,
    ) -> Result<(String, bool), ConfigError> {
        let nobody = CheckBuyer { user: "".into(), token: "".into() };
        let mut trial = Self { target, answer_timeout, buyer: nobody, text: String::new() };
        trial.log_in().await?;
        let voucher = trial.voucher().await?;
        let before = trial.books(&voucher, 0).await?;
        let mut read = trial.buy(&voucher).await;
        if read.0 == ACCEPTED {
            read = trial.ask_later(&voucher, read).await;
        }
        let (outcome, order) = read;
        let is_yes = outcome == ORDERED;
        let expected = before.as_ref().map_or(0, |before| before.orders) + i64::from(is_yes);
        let after = trial.books(&voucher, expected).await?;
        let is_booked = after.is_none_or(|after| after.orders >= expected);
        let order = order.map_or_else(String::new, |order| format!(", order {order}"));
        let end = match (is_yes, is_booked) {
            (true, true) => "the file says how to buy here",
            (true, false) => "the order is not in the books",
            (false, _) => "nothing was bought: look at the answers and at the rules",
        };
        trial.say(&format!("\nHeard: {}{order}. In short: {end}.", outcome));
        Ok((trial.text, is_yes && is_booked))
    }

    fn say(&mut self, line: &str) {
        let CheckBuyer { user, token } = &self.buyer;
        let line = match user == token || token.is_empty() {
            true => line.to_owned(),
            false => line.replace(&**token, "{token}"),
        };
        let line: String = line
            .chars()
            .map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c })
            .collect();
        self.text += &line;
        self.text.push('\n');
    }

    async fn log_in(&mut self) -> Result<(), ConfigError> {
        if let TokenSource::Login { first, request, place } = &self.target.tokens {
            self.say(&format!("Login of user {first}"));
            let call = request.call(&self.target.nodes[0], &of_user(&first.to_string()));
            let answer = self.send(call).await;
            let token = answer.as_ref().and_then(|answer| place.find(&mut answer.answer()));
            let Some(token) = token else {
                let why = format!("no token {}", at(place));
                return Err(ConfigError(format!("{}   {why}", self.text)));
            };
            self.say(&format!("   the token {}: {} characters", at(place), token.len()));
            self.buyer = CheckBuyer { user: first.to_string().into(), token: token.into() };
            let shown = std::mem::take(&mut self.text);
            self.say(shown.trim_end());
            return Ok(());
        }
        self.buyer = buyers::read(self.target, 1).await?[0].clone();
        Ok(())
    }

    async fn voucher(&mut self) -> Result<String, ConfigError> {
        let voucher = match &self.target.vouchers {
            VoucherSource::Fixed(voucher) => voucher.clone(),
            _ => match vouchers::put_on_sale(self.target, 1, 0).await? {
                Some(voucher) => voucher,
                None => unreachable!("only a fixed voucher is not put on sale"),
            },
        };
        self.say(&format!("\nVoucher {voucher}, user {}", self.buyer.user.clone()));
        Ok(voucher)
    }

    async fn books(
        &mut self,
        voucher: &str,
        expected: i64,
    ) -> Result<Option<BooksReading>, ConfigError> {
        let Some(source) = &self.target.books else {
            self.say("\nNo [books]: answers alone prove little.");
            return Ok(None);
        };
        let reading = match expected {
            0 => books::read(self.target, source, voucher).await?,
            _ => {
                let wait = BooksWait { turns: &Semaphore::new(1), is_final: false };
                let quiet = books::until_quiet(self.target, source, voucher, || expected, wait);
                quiet.await?.reading
            }
        };
        let BooksReading { orders, users, stock, list, .. } = &reading;
        let number = |it: &Option<i64>| it.map_or_else(|| "?".to_owned(), |it| it.to_string());
        let listed = if list.is_some() { ", each of them listed" } else { "" };
        let (users, stock) = (number(users), number(stock));
        self.say(&format!("\nBooks: {orders} orders{listed}, {users} users, {stock} left"));
        Ok(Some(reading))
    }

    /// One attempt: all steps.
    async fn buy(&mut self, voucher: &str) -> CodeAndOrder {
        let purchase = self.target.purchase.for_voucher(voucher);
        let (node, buyer) = (&self.target.nodes[0], self.buyer.clone());
        let mut taken = Taken::new();
        for (number, step) in purchase.target.before.iter().enumerate() {
            self.say(&format!("\nStep {}", number + 1));
            let values = Values { user: &buyer.user, token: &buyer.token, taken: &taken };
            let Some(answer) = self.send(call(&step.path, &step.target, node, &values)).await
            else {
                return (NO_ANSWER.into(), None);
            };
            let known = taken.len();
            let goes_on = step.take(&mut answer.answer(), &mut taken);
            for (name, value) in &taken[known..] {
                self.say(&format!("   {{{name}}} is {value}"));
            }
            if !goes_on {
                let ((outcome, order), is_known) = step.target.answers.read(&mut answer.answer());
                let why = if is_known { "a refusal" } else { "not all is there that it must give" };
                self.say(&format!("   ends the attempt: {outcome}, {why}"));
                return (outcome, order);
            }
        }
        self.say("\nPurchase");
        let values = Values { user: &buyer.user, token: &buyer.token, taken: &taken };
        let answer = self.send(purchase.call(node, &values)).await;
        self.read(&purchase, answer.as_ref())
    }

    async fn ask_later(&mut self, voucher: &str, accepted: CodeAndOrder) -> CodeAndOrder {
        let Some(later) = &self.target.later else { return accepted };
        let request = later.request.for_voucher(voucher);
        let (begun, buyer) = (Instant::now(), self.buyer.clone());
        let order = accepted.1.clone().map(|order| ("order".into(), order));
        let taken: Taken = order.into_iter().collect();
        let values = Values { user: &buyer.user, token: &buyer.token, taken: &taken };
        self.say("\nAsking later");
        let shown = self.text.len();
        loop {
            // Only the last question is shown.
            self.text.truncate(shown);
            let answer = self.send(request.call(&self.target.nodes[0], &values)).await;
            let mut read = self.read(&request, answer.as_ref());
            if read.0 != ACCEPTED || begun.elapsed() >= later.within {
                read.1 = read.1.or(accepted.1);
                return read;
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// Says by which rule an answer is read.
    fn read(&mut self, request: &CheckRequest, answer: Option<&CallAnswer>) -> CodeAndOrder {
        let Some(answer) = answer else { return (NO_ANSWER.into(), None) };
        let mut answer = answer.answer();
        let ((outcome, order), _) = request.target.answers.read(&mut answer);
        let rule = request.target.answers.rule(&mut answer);
        self.say(&match rule.and_then(|rule| request.rules.get(rule)) {
            Some(rule) => format!("   fits the rule {rule}"),
            None => "   fits no rule".to_owned(),
        });
        if let Some(order) = &order {
            self.say(&format!("   the order is {order}"));
        }
        (outcome, order)
    }

    /// Sends one request, and shows it and its answer.
    async fn send(&mut self, call: Option<Call>) -> Option<CallAnswer> {
        let Some(call) = call else {
            self.say("   cannot be written as HTTP: look at what the placeholders stand for");
            return None;
        };
        self.say(&format!("-> {} {}{}", call.method, call.node.host, call.path));
        self.show(&call.headers, &call.body);
        let answer = calls::send(&[call], 1, self.answer_timeout).await.pop().flatten();
        match &answer {
            Some(answer) => {
                self.say(&format!("<- {}", answer.status));
                self.show(&answer.headers, &answer.body);
            }
            None => self.say("<- no answer"),
        }
        answer
    }

    fn show(&mut self, headers: &HeaderMap, body: &[u8]) {
        for (name, value) in headers {
            self.say(&format!("   {name}: {}", value.to_str().unwrap_or("?")));
        }
        let body: String = String::from_utf8_lossy(body).trim().chars().take(SHOWN).collect();
        if !body.is_empty() {
            self.say(&format!("   {body}"));
        }
    }
}
