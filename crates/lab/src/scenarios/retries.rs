//! A client that hears nothing sends its request again.

use anyhow::bail;
use uuid::Uuid;

use crate::Scheduler;
use crate::scheduler::{ActorPlan, Stop};
use ladder::Answer;

/// The answer to A's purchase is lost, and the request comes again, to another process. After that the
/// user wants another one.
pub(super) async fn answer_lost(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(3).await?;
    let (first, second) = (scheduler.node().await?, scheduler.node().await?);
    let request = ActorPlan::new(0, voucher).with_key(Uuid::new_v4());
    let a = scheduler.enter("A", first, request).await?;
    let heard = scheduler.finish(a).await?;
    if !matches!(heard, Stop::Done(Answer::Ordered(_))) {
        bail!("A was to buy, and came to {heard:?}");
    }
    scheduler.unheard(a);
    scheduler
        .say("the answer is lost: A's client hears nothing, and sends the request again, as B");
    let b = scheduler.enter("B", second, request).await?;
    let again = scheduler.finish(b).await?;
    if again != heard {
        let told = |stop: &Stop| match stop {
            Stop::Done(answer) => answer.code(),
            _ => "nothing",
        };
        let (first, second) = (told(&heard), told(&again));
        scheduler
            .broken(format!("the first was answered {first}, the same request again {second}"));
    }
    let c = scheduler.buys("C", first, 0).await?;
    if scheduler.answer(c) != Some(&Stop::Done(Answer::AlreadyBought)) {
        scheduler.broken("another request of the user was taken for the same");
    }
    Ok(())
}
