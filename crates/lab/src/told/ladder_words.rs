//! What the ladder's own values are called.

use super::{AtPoint, InWords, words};
use ladder::{Answer, Awaited, Detail, Point, WorkTurn};
use seckill::http::Language;

// The double hole is what the rung says there.
words! {
    of Point {
        StockRead => "reads the stock: {{}}", "读到库存：{{}}";
        OrdersCounted => "counts the orders of this user: {{}}", "数出该用户的订单：{{}}";
        KeySet => "has sent {{}}, and not the next command yet", "发出了 {{}}，下一条命令还没发";
        Locked => "holds the lock: {{}}", "拿到锁：{{}}";
        Missed => "finds the lock taken, is about to wait: {{}}", "发现锁被占着，准备等待：{{}}";
        LastCheck => "looks a last time whether the lock is still its own: {{}}", "最后确认一次锁还是不是自己的：{{}}";
        InnerDone => "hears from the purchase made on the way: {{}}", "途中那次购买的响应：{{}}";
        Committing => "is about to commit: {{}}", "即将提交：{{}}";
        Releasing => "is about to give back the lock: {{}}", "即将释放锁：{{}}";
        TakenInRedis => "has taken a voucher in Redis: {{}}", "在 Redis 里扣到一张券：{{}}";
        EntryRead => "takes an entry: {{}}", "取到一条消息：{{}}";
        Acknowledging => "has committed, is about to acknowledge: {{}}", "已经提交，即将确认：{{}}";
        Published => "has published, and not marked it yet: {{}}", "已经发布，还没标记：{{}}";
        UnpaidRead => "reads that it is unpaid: {{}}", "读到它未支付：{{}}";
        OrderDue => "finds it unpaid, and its time over: {{}}", "发现它未支付，且期限已过：{{}}";
        Cancelled => "has cancelled it, and not given the voucher back: {{}}", "已经取消它，券还没退回：{{}}";
        Cancelling => "is about to commit: it is cancelled, its voucher back: {{}}", "即将提交（订单取消，券退回）：{{}}";
        PaymentLate => "finds that it is not unpaid any more: {{}}", "发现它不再是未支付：{{}}";
        Settling => "is about to commit what becomes of the money: {{}}", "即将提交这笔钱的去向：{{}}";
        CacheDeleted => "has deleted the cached stock, and not written yet", "已经删掉缓存里的库存，还没写库";
        StockAdded => "has added stock, and has yet to delete the cached entry", "已经加了库存，还没删缓存";
        LetIn => "is let in: {{}}", "被放行：{{}}";
        Entering => "is about to commit its entry", "即将提交登记";
        FirstInLine => "finds who is first in line: {{}}", "查到队首：{{}}";
    }
}

impl InWords for AtPoint {
    fn in_words(&self, language: Language) -> String {
        self.0.in_words(language).replace("{}", &self.about(language))
    }
}

words! {
    of Detail {
        Nothing => "", "";
        Number(number) => "{number}", "{number}";
        Answer(answer) => "{answer}", "{answer}";
        Mutex => "the mutex", "进程内的锁";
        UserMutex => "the user's mutex", "该用户的进程内锁";
        UntilTransactionEnds => "until the transaction ends", "直到事务结束";
        FirstInQueue => "the first in the queue", "排在队首";
        Setnx => "SETNX", "SETNX";
        SetnxPexpire(lease) => "SETNX, PEXPIRE, for {lease}", "SETNX、PEXPIRE，租期 {lease}";
        SetWithLease(lease) => "SET NX PX, for {lease}", "SET NX PX，租期 {lease}";
        Hold(holds, lease) => "hold {holds}, for {lease}", "第 {holds} 次持有，租期 {lease}";
        RenewedHold(holds, lease) => "hold {holds}, for {lease}, renewed", "第 {holds} 次持有，租期 {lease}，会续期";
        RenewedEveryThird(lease) => "for {lease}, renewed every third", "租期 {lease}，每过三分之一续期一次";
        OnAllNodes(lease) => "on all nodes, for {lease}, renewed", "在所有节点上，租期 {lease}，会续期";
        OnNodes(nodes, lease) => "on {nodes} nodes, for {lease}, renewed", "在 {nodes} 个节点上，租期 {lease}，会续期";
        Fenced(lease, token) => "for {lease}, by token {token}", "租期 {lease}，令牌 {token}";
        WillHearRelease => "it will hear of the release", "锁释放时它会收到通知";
        WillWatchAhead => "it will watch who is ahead", "它会监听排在前面的那一个";
        StillOwn => "it is", "是";
        Del => "DEL", "DEL";
        GetThenDel => "GET says it is its own; next is DEL", "GET 说是自己的，下一步是 DEL";
        CompareAndDelete => "compare-and-delete, one script", "比较并删除，一个脚本";
        OneHold => "one hold, one script", "减一次持有，一个脚本";
        OneHoldSafely => "one hold, safe to send again", "减一次持有，重发也安全";
        OnEveryNode => "on every node", "在每个节点上";
        PlaceInQueue => "its place in the queue", "它在队列里的位置";
        NthInWindow(nth) => "number {nth} of this minute", "这一分钟的第 {nth} 次";
        TokensLeft(left) => "tokens left: {left}", "还剩 {left} 个令牌";
        PlaceInLine(place) => "place {place} in line", "排在第 {place} 位";
    }
}

words! {
    of Awaited {
        Mutex => "the mutex", "进程内的锁";
        UserMutex => "the user's mutex", "该用户的进程内锁";
        Release => "the release", "锁的释放";
        Batch => "its batch", "它所在的那一批";
        LockedRow => "a row that another transaction has locked", "另一个事务锁住的行";
        AdvisoryLock => "an advisory lock that another transaction has", "另一个事务持有的咨询锁";
    }
}

words! {
    of WorkTurn {
        Idle => "finds nothing to do", "没有事可做";
        Settled(answer) => "is done with it: {answer}", "处理完毕：{answer}";
        Batch(entries) => "is done with a batch of {entries}", "处理完一批，共 {entries} 条";
        PutAside => "puts it aside, among the dead letters", "把它放进死信";
        Published => "is done with it: published, and marked as such", "处理完毕：已经发布并标记";
        FollowedUp => "is done with it: the payment is begun, a mail sent", "处理完毕：支付已经发起，邮件已经发出";
        Cancelled => "is done with it: cancelled, its voucher on sale again", "处理完毕：订单取消，券重新开售";
        Outrun => "finds no unpaid order any more, and changes nothing", "已经没有未支付的订单，什么也没改";
        Paid => "is done with it: the order is paid", "处理完毕：订单已支付";
        Revived => "is done with it: the order lives again, and is paid", "处理完毕：订单恢复有效，并已支付";
        GivenBack => "is done with it: the money is to be given back", "处理完毕：这笔钱要退回";
        Unmatched => "finds no such order: the money is written down, for somebody to look at", "没有这张订单：记下这笔钱，等人处理";
        Repeated => "knows this payment already", "这笔支付已经处理过";
        Restocked => "is done with it: more is on sale", "处理完毕：又有券开售";
        TooLate => "comes too late; a line in a log says so", "来得太晚，日志里记了一行";
        Drawn => "is done with it: the entries are drawn, and the first have orders", "处理完毕：已经抽签，抽中的有了订单";
        Offered => "is done with it: the first in line has an order", "处理完毕：队首有了订单";
        NothingToOffer => "finds nothing to offer any more, and changes nothing", "已经没有券可以递补，什么也没改";
    }
}

impl InWords for Answer {
    fn in_words(&self, language: Language) -> String {
        let code = self.code();
        let chinese = match self {
            _ if language == Language::English => return code.to_owned(),
            Self::Ordered(_) => "买到了",
            Self::SoldOut => "售罄",
            Self::AlreadyBought => "已经买过",
            Self::InProgress => "订单正在处理",
            Self::Accepted => "已受理",
            Self::GivenUp => "下单失败",
            Self::Refused => "未放行",
            Self::Entered => "已登记抽签",
            Self::InLine => "已排队",
        };
        format!("{chinese}（{code}）")
    }
}
