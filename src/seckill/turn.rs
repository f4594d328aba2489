//! Whose turn it is to lead a line, and the answers to those who stood in it.

use std::ops::Deref;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::runtime::Handle;

use super::PurchaseError;
use super::admission::MAX_WAIT;
use super::line::{Line, Member, Told};
use super::seller::Seller;

/// What whoever leads a line does with a batch.
pub(super) trait Leads: Clone + Send + 'static {
    fn seller(&self) -> &Arc<Seller>;

    fn line(&self) -> &Line;

    /// Done before a batch goes. Whoever joins the line meanwhile goes, too.
    fn gather(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Everybody in `batch` gets an answer, or a place in the next line. When `turn` is dropped, the
    /// next batch goes.
    fn lead(turn: Turn<Self>, batch: Vec<Member>) -> impl Future<Output = ()> + Send;

    /// They stand in line. Where one more may lead, a task of its own does: who came may leave, and the
    /// purchases of the others not with him.
    fn join(&self, members: impl IntoIterator<Item = Member>) {
        // A shutdown waits for it until there is the task.
        let _begun = self.seller().tasks.token();
        let (leads, refused) = self.line().join(members);
        if leads {
            self.seller().spawn(Turn::new(self).begin());
        }
        tell(self.seller(), refused);
    }

    /// Without those who have waited for too long: they hear so.
    fn in_time(&self, mut batch: Vec<Member>) -> Vec<Member> {
        let gate = &self.seller().gate;
        let late = batch.extract_if(.., |member| {
            member.since.elapsed() > MAX_WAIT || gate.is_too_long(member.since)
        });
        self.refuse(late, || PurchaseError::Overloaded);
        batch
    }

    /// It is of no use, for `batch` and for all who wait.
    fn give_up(&self, batch: Vec<Member>, because: impl Fn() -> PurchaseError) {
        self.refuse(batch, &because);
        self.send_away(because);
    }

    /// All who wait hear so now, instead of one batch after the other, each after as long a time.
    fn send_away(&self, because: impl Fn() -> PurchaseError) {
        self.refuse(self.line().leave(), because);
    }

    /// It is over for `members`, all for the same reason.
    fn refuse(
        &self,
        members: impl IntoIterator<Item = Member>,
        because: impl Fn() -> PurchaseError,
    ) {
        let told = members.into_iter().map(|member| (member, Err(because())));
        tell(self.seller(), told.collect());
    }
}

/// To lead a line. Dropped, also in a panic, it passes to the next.
pub(super) struct Turn<L: Leads> {
    of: L,
    has_begun: bool,
}

impl<L: Leads> Turn<L> {
    fn new(of: &L) -> Self {
        Self { of: of.clone(), has_begun: false }
    }

    /// Leads whoever waits by now, who may be more than when it was decided that somebody leads: the
    /// fewer the batches, the less they cost. Nobody, when all have left since.
    async fn begin(mut self) {
        self.gather().await;
        self.has_begun = true;
        let batch = self.line().begin();
        if !batch.is_empty() {
            L::lead(self, batch).await;
        }
    }
}

impl<L: Leads> Deref for Turn<L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.of
    }
}

impl<L: Leads> Drop for Turn<L> {
    fn drop(&mut self) {
        if !self.has_begun {
            // It did not get so far, for the process ends: those whose turn it was hear so.
            drop(self.line().begin());
        }
        if self.line().pass() {
            let next = Self::new(&self.of);
            // Without a runtime it is dropped here.
            if let Ok(runtime) = Handle::try_current() {
                self.seller().tasks.spawn_on(next.begin(), &runtime);
            }
        }
    }
}

/// It is over for them: they hear how, and whoever leads goes on.
pub(super) fn tell(seller: &Arc<Seller>, told: Vec<Told>) {
    if told.iter().any(|(member, _)| member.guard.is_some()) {
        let teller = Arc::clone(seller);
        seller.spawn(async move { give_back_and_tell(&teller, told).await });
    } else {
        told.into_iter().for_each(|(member, outcome)| member.tell(outcome));
    }
}

/// Each hears of it when his lock is free: whoever asks again is not in his own way. One task gives
/// all of them back, for to wake each buyer to do so costs as much as it costs Redis.
pub(super) async fn give_back_and_tell(seller: &Seller, told: Vec<Told>) {
    let each = told.into_iter().map(async |(mut member, outcome)| {
        if let Some(guard) = member.guard.take() {
            // Another one may come meanwhile.
            member.request.pass = None;
            seller.let_go(guard).await;
        }
        member.tell(outcome);
    });
    join_all(each).await;
}
