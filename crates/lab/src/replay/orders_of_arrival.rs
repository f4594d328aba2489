//! Two sales that differ in who comes first.

use crate::Scheduler;
use crate::scheduler::Attempt;
use crate::told::{Event, Several, Witness};
use ladder::Capability;

/// Two users come to a sale of one voucher, and in the other order to another one, with the same requests: so the
/// entries of a draw have the same ids in both. The same user is to win.
pub(super) async fn other_order(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let node = scheduler.node().await?;
    let mut winners = Vec::new();
    for arrivals in [[("A", 0), ("B", 1)], [("B", 1), ("A", 0)]] {
        let voucher = scheduler.voucher(1).await?;
        for (name, user) in arrivals {
            let request = Some(user as u128 + 1);
            let buyer = Attempt { request, ..Attempt::new(user, voucher) };
            let buyer = scheduler.enter(name, node, buyer).await?;
            scheduler.finish(buyer).await?;
        }
        if scheduler.rung.can(Capability::Draw) {
            scheduler.expires_until_idle(node, voucher).await?;
        }
        let winner = sqlx::query_scalar("select user_id from orders where voucher_id = $1");
        let winner: i64 = winner.bind(voucher).fetch_one(&scheduler.database).await?;
        let user = winner - scheduler.first_user + 1;
        winners.push(user);
        scheduler.log.say(Event::Has { user, voucher: winners.len() });
    }
    if winners[0] != winners[1] {
        scheduler.log.broken(Witness::EarlyWins { winners: Several::Both(winners) });
    }
    Ok(())
}
