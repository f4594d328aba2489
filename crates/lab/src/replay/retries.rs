//! A client that hears nothing sends its request again.

use anyhow::bail;
use uuid::Uuid;

use crate::Scheduler;
use crate::scheduler::{Act, Attempt};
use crate::told::{Event, Witness};
use ladder::Answer;

/// The answer to A's purchase is lost, and the request comes again, to another process. After that the
/// user wants another one.
pub(super) async fn answer_lost(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(3).await?;
    let (first, second) = (scheduler.node().await?, scheduler.node().await?);
    let request = Attempt { request: Some(Uuid::new_v4().as_u128()), ..Attempt::new(0, voucher) };
    let a = scheduler.enter("A", first, request).await?;
    let heard = scheduler.finish(a).await?;
    let Act::Done(first_answer @ Answer::Ordered(_)) = heard else {
        bail!("A was to buy, and came to {heard:?}");
    };
    scheduler.unheard(a);
    scheduler.log.say(Event::AnswerLost { actor: "A", again: "B" });
    let b = scheduler.enter("B", second, request).await?;
    let again = scheduler.finish(b).await?;
    if again != heard {
        let Act::Done(second) = again else { bail!("B was to be answered, and came to {again:?}") };
        scheduler.log.broken(Witness::OtherAnswer { first: first_answer, second });
    }
    let c = scheduler.buys("C", first, 0).await?;
    if scheduler.answer(c) != Some(&Act::Done(Answer::AlreadyBought)) {
        scheduler.log.broken(Witness::TakenForTheSame);
    }
    Ok(())
}
