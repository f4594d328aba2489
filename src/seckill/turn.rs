//! Whose turn it is to lead a line, and the answers to those who stood in it.

use std::ops::Deref;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::runtime::Handle;

use super::PurchaseError;
use super::line::{Line, Member, Told};
use super::seller::Seller;

/// What whoever leads a line does with a batch.
pub(super) trait Leads: Clone + Send + 'static {
    fn seller(&self) -> &Arc<Seller>;

    fn line(&self) -> &Line;

    /// Everybody in `batch` gets an answer, or a place in the next line. When `turn` is dropped, the
    /// next batch goes.
    fn lead(turn: Turn<Self>, batch: Vec<Member>) -> impl Future<Output = ()> + Send;

    /// They stand in line. Where one more may lead that begins now, in a task of its own: who came
    /// may leave, and the purchases of the others not with him.
    fn join(&self, members: impl IntoIterator<Item = Member>) {
        let (batch, refused) = self.line().join(members);
        if !batch.is_empty() {
            self.seller().spawn(Self::lead(Turn(self.clone()), batch));
        }
        tell(self.seller(), refused);
    }

    /// All who wait hear so now, instead of one batch after the other, each after as long a time.
    fn send_away(&self, because: impl Fn() -> PurchaseError) {
        let told = self.line().leave().into_iter().map(|member| (member, Err(because())));
        tell(self.seller(), told.collect());
    }
}

/// To lead a line. Dropped, also in a panic, it passes to the next.
pub(super) struct Turn<L: Leads>(L);

impl<L: Leads> Deref for Turn<L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.0
    }
}

impl<L: Leads> Drop for Turn<L> {
    fn drop(&mut self) {
        let batch = self.line().next();
        // Without a runtime the process ends, and what is dropped here with it.
        if let (false, Ok(runtime)) = (batch.is_empty(), Handle::try_current()) {
            let next = Self(self.0.clone());
            self.seller().tasks.spawn_on(L::lead(next, batch), &runtime);
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

/// Their locks are free when they hear of it: whoever asks again is not in his own way. All are
/// given back by one task, for to wake each buyer to do so costs as much as it costs Redis.
pub(super) async fn give_back_and_tell(seller: &Seller, mut told: Vec<Told>) {
    let guards = told.iter_mut().filter_map(|(member, _)| member.guard.take());
    join_all(guards.map(|guard| seller.let_go(guard))).await;
    told.into_iter().for_each(|(member, outcome)| member.tell(outcome));
}
