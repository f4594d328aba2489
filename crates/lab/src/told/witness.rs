//! What shows that a promise is broken: which, whose, which order, which stock.

use super::{Failure, LockServer, Several, words};
use faults::FaultError;
use ladder::Answer;

words! {
    /// Why a promise is broken; also why nothing can be said of it.
    pub Witness {
        OfVoucher { voucher: usize, witness: Box<Witness> } => "voucher {voucher}: {witness}", "券 {voucher}：{witness}";
        All { witnesses: Several<Witness> } => "{witnesses}", "{witnesses}";

        // What the books show.
        Oversold { orders: i64, initial: i64, column: i64 } => "{orders} orders for a stock of {initial}; the column says {column}", "库存 {initial}，却有 {orders} 张订单；库存列写的是 {column}";
        OutOfBalance { orders: i64, left: i64, initial: i64 } => "{orders} orders and {left} in stock, of {initial}", "{orders} 张订单，库存剩 {left}，而初始库存是 {initial}";
        SentAway { buyers: Several<&'static str>, left: i64 } => "{buyers} told sold out, and {left} in stock", "{buyers} 得到“售罄”的响应，库存却还有 {left}";
        SeveralOrders { user: i64, count: usize } => "user {user} holds {count} orders", "用户 {user} 持有 {count} 张订单";
        BothOrders { user: i64, first: usize, second: usize } => "user {user} holds 2 orders: order {first} and order {second}", "用户 {user} 持有 2 张订单：订单 {first} 和 订单 {second}";
        TheseOrders { user: i64, count: usize, orders: Several<usize> } => "user {user} holds {count} orders: {orders}", "用户 {user} 持有 {count} 张订单：{orders}";
        NotOnSaleAgain { gone: i64, initial: i64 } => "{gone} of {initial} not on sale again", "{initial} 张里有 {gone} 张没有重新开售";
        NotPaidInTime { overdue: i64, initial: i64 } => "{overdue} of {initial} not paid in time, and not on sale again", "{initial} 张里有 {overdue} 张没有按时支付，也没有重新开售";

        // What a buyer was told.
        NoSuchOrder { buyer: &'static str } => "{buyer} was told of an order, and has none", "{buyer} 得到了订单号，却没有订单";
        NoOrder { buyer: &'static str } => "{buyer} was told yes, and has no order", "{buyer} 得到“成功”的响应，却没有订单";
        NoFinalAnswer { buyer: &'static str } => "{buyer} was accepted, and hears no final answer", "{buyer} 已被受理，却得不到最终响应";
        NobodyKnows { buyer: &'static str } => "{buyer} was accepted, and nobody has heard of it", "{buyer} 已被受理，却没有人知道它的请求";
        OtherAnswer { first: Answer, second: Answer } => "the first was answered {first}, the same request again {second}", "第一次的响应是 {first}，同一个请求再发一次的响应是 {second}";
        TakenForTheSame => "another request of the user was taken for the same", "该用户的另一个请求被当成了同一个";
        OverTheRate { user: i64, count: usize, seconds: u64 } => "user {user} was let in {count} times within {seconds} s", "用户 {user} 在 {seconds} 秒内被放行 {count} 次";
        LetInTwice { user: i64, count: usize } => "user {user} was let in {count} times with one token", "用户 {user} 凭一个令牌被放行 {count} 次";
        Passed { ahead: &'static str, behind: &'static str } => "{ahead} stood in line, and {behind}, who came later, was served first", "{ahead} 已经在排队，后来的 {behind} 却先买到了";
        EarlyWins { winners: Several<i64> } => "whoever came first has won: users {winners}", "谁先到谁买到：用户 {winners}";
        NoAnswer { actor: &'static str, failure: Failure } => "{actor} came to no answer: {failure}", "{actor} 没有得到响应：{failure}";

        // What a lock does.
        LockedOutForEver { user: i64 } => "user {user} is locked out for ever", "用户 {user} 永远被锁在门外";
        LockedOutAfterLease { user: i64 } => "user {user} is locked out though the lease has ended", "租期已经到期，用户 {user} 仍被锁在门外";
        NobodyGoesOn { actors: Several<&'static str> } => "{actors} waits, and nobody can go on", "{actors} 在等待，谁也走不下去";
        WaitsForItself { buyer: &'static str } => "{buyer} waits for a lock that {buyer} itself holds", "{buyer} 在等 {buyer} 自己持有的锁";
        RefusedByItself { buyer: &'static str } => "{buyer} is turned away by the lock that {buyer} itself holds", "{buyer} 被 {buyer} 自己持有的锁拒绝";
        StuckOnTheWay { buyer: &'static str } => "{buyer} cannot go on after the purchase made on the way", "途中那次购买之后，{buyer} 无法继续";
        SleptThroughRelease { buyer: &'static str } => "{buyer} slept through the release", "{buyer} 错过了锁的释放";
        InACircle { buyer: &'static str } => "{buyer} waited in a circle, and the database ended its transaction", "{buyer} 陷入循环等待，数据库终止了它的事务";
        ServerDown { server: LockServer } => "{server} is down, and nobody can buy", "{server}停了，谁也买不到";

        // What a consumer does.
        NeverFollowedUp => "what comes after an order was never done", "订单之后该做的事一直没有做";
        PaidForTwice { payments: i64 } => "an order was paid for {payments} times", "一张订单支付了 {payments} 次";
        GivenBackToNobody { buyer: &'static str } => "{buyer}'s voucher was given back, and its user did not get it", "{buyer} 的券退回了，它的用户却没有买到";
        GivenBackTwice { buyer: &'static str } => "{buyer}'s voucher was given back twice", "{buyer} 的券退回了两次";
        OtherEnd { buyer: &'static str, stop: String } => "{buyer} has an order, and its entry came to {stop}", "{buyer} 已有订单，它的消息却得到 {stop}";

        // What becomes of money.
        OrderAndMoney { payer: &'static str } => "{payer} has the order and the money", "{payer} 既有订单，又拿回了钱";
        CancelledThoughPaid { payer: &'static str } => "{payer} was told that the order is paid, and it is cancelled; nobody gives the money back", "{payer} 得到“已支付”的响应，订单却取消了，没有人退款";
        PaidForNothing { payer: &'static str } => "{payer} paid for an order that is not there, and nobody knows of the money", "{payer} 付了钱，订单却不存在，没有人知道这笔钱";
        PaidTooLate { payer: &'static str } => "{payer} paid too late, and nobody gives the money back", "{payer} 付得太晚，没有人退款";

        // Why nothing can be said.
        Missing { missing: NotInstalled } => "{missing}", "{missing}";
        Verbatim { text: String } => "{text}", "{text}";
    }
}

impl Witness {
    /// The user comes again, and a dead holder has left a lock.
    pub const fn locked_out(user: i64, never_ends: bool) -> Self {
        match never_ends {
            true => Self::LockedOutForEver { user },
            false => Self::LockedOutAfterLease { user },
        }
    }
}

impl<T: Into<String>> From<T> for Witness {
    fn from(text: T) -> Self {
        Self::Verbatim { text: text.into() }
    }
}

impl NotInstalled {
    /// What `error` says is not installed, where that is why something failed.
    pub fn of(error: &anyhow::Error) -> Option<Self> {
        error.chain().find_map(|cause| match cause.downcast_ref()? {
            FaultError::NotInstalled { server, install } => Some(Self::Server { server, install }),
            FaultError::Missing(text) => Some(Self::Verbatim { text: text.clone() }),
            _ => None,
        })
    }
}

words! {
    /// What this machine lacks.
    pub NotInstalled {
        Server { server: &'static str, install: &'static str } => "{server} is not installed: run scripts/setup.sh lab, or {install}", "没有安装 {server}：运行 scripts/setup.sh lab，或者 {install}";
        Verbatim { text: String } => "{text}", "{text}";
    }
}
