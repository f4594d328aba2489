//! What happens in a replay.

use super::{Failure, InWords, LockServer, Witness, words};
use ladder::{Answer, Awaited, Detail, Invariant, Point, WorkTurn};
use seckill::http::Language;

words! {
    /// Something that happens in a replay: an actor does it, or the lab. Processes and servers count from 1.
    pub Event {
        // What the lab does to the world.
        OnSale { voucher: usize, stock: i32 } => "voucher {voucher} is on sale, {stock} in stock", "券 {voucher} 开售，库存 {stock}";
        Segments { segments: i64 } => "of its {segments} segments the first two have one each", "{segments} 段里，头两段各有一张";
        Wants { user: i64, voucher: usize, process: usize } => "user {user} wants voucher {voucher} (process {process})", "用户 {user} 要买券 {voucher}（进程 {process}）";
        WantsTwo { user: i64, voucher: usize, also: usize, process: usize } => "user {user} wants voucher {voucher}, and on the way voucher {also} (process {process})", "用户 {user} 要买券 {voucher}，途中还要买券 {also}（进程 {process}）";
        Killed { process: usize } => "process {process} is killed (SIGKILL)", "进程 {process} 被杀（SIGKILL）";
        Stopped { process: usize } => "process {process} is stopped (SIGSTOP)", "进程 {process} 被暂停（SIGSTOP）";
        Continued { process: usize } => "process {process} goes on (SIGCONT)", "进程 {process} 继续运行（SIGCONT）";
        Started { process: usize } => "process {process} starts", "进程 {process} 启动";
        StartedToExpire { process: usize } => "process {process} starts, and ends what it knows of", "进程 {process} 启动，取消它知道的到期订单";
        Has { user: i64, voucher: usize } => "user {user} has voucher {voucher}", "用户 {user} 得到券 {voucher}";
        MinutePasses => "a minute passes", "过了一分钟";
        SecondsPass { seconds: u64 } => "{seconds} s pass", "过了 {seconds} 秒";
        ClockAhead { process: usize, seconds: u64 } => "the clock of process {process} is {seconds} s ahead", "进程 {process} 的时钟快 {seconds} 秒";
        LeaseEnds => "the lease ends", "租期到期";
        LeaseEndsAsInTime => "the lease ends, as if its time had passed", "租期到期，就像时间到了一样";
        LeaseEndsOn { redis: usize } => "the lease ends on Redis {redis}, as if its time had passed", "Redis {redis} 上的租期到期，就像时间到了一样";
        LeaseRenewed => "the lease would have ended: it has been renewed", "租期本该到期，但已经续期";
        NoLease => "the lock has no lease: it never ends", "锁没有租期，永远不会到期";
        LabEndsLease => "the lab ends the lease, as time would", "实验室让租期到期，就像时间到了一样";
        LabLocksRow => "the lab locks the voucher's row", "实验室锁住券的那一行";
        LabFreesRow => "the lab lets go of the row", "实验室放开那一行";
        NoSuchOrder { order: usize } => "there is no order {order}", "没有订单 {order}";
        TimeToPayOver => "the time to pay is over", "支付期限已过";
        ServerKilled { server: LockServer } => "{server} is killed (SIGKILL)", "{server}被杀（SIGKILL）";
        RedisDown { redis: usize } => "Redis {redis} is down", "Redis {redis} 停了";
        RedisUp { redis: usize } => "Redis {redis} is up again", "Redis {redis} 恢复了";
        RedisEmpty { redis: usize } => "Redis {redis} is restarted, and is empty", "Redis {redis} 重启，数据为空";
        ClockLeaps { redis: usize } => "the clock of Redis {redis} leaps past the lease", "Redis {redis} 的时钟跳过了租期";
        LinkCut => "the link from the master to its replica is cut", "主节点到副本的连接被切断";
        HasAsynchronousStandby => "the database has an asynchronous standby", "数据库有一个异步备库";
        HasSynchronousStandby => "the database has a synchronous standby", "数据库有一个同步备库";
        StandbyCutOff => "the standby is cut off from the primary", "备库与主库断开";
        WaitsForStandby { actor: &'static str } => "{actor}'s commit waits for the standby", "{actor} 的提交在等备库";
        PrimaryKilled => "the primary is killed (SIGKILL)", "主库被杀（SIGKILL）";
        StandbyPromoted => "the standby is promoted", "备库升为主库";
        SweepGivesBack { actor: &'static str, segment: i64 } => "a sweep cancels {actor}'s order, and gives its voucher back to segment {segment}", "扫描取消 {actor} 的订单，把券退回第 {segment} 段";
        WaitsForSweep { actor: &'static str } => "{actor} has gone on to segment 2, and waits for the sweep", "{actor} 走到第 2 段，在等扫描的事务";
        SweepCommits => "the sweep commits", "扫描的事务提交";
        MasterKilled => "the master is killed (SIGKILL)", "主节点被杀（SIGKILL）";
        ReplicaPromoted => "the replica is promoted", "副本升为主节点（主从切换）";
        ReplyWillBeLost { actor: &'static str } => "the reply to {actor}'s next command will be lost", "{actor} 下一条命令的响应会丢失";
        ReleasedTwice => "the release has arrived twice", "释放命令到达了两次";
        Snapshot => "Redis writes a snapshot (SAVE)", "Redis 写快照（SAVE）";
        FromSnapshot => "Redis is killed (SIGKILL), and started again from its snapshot", "Redis 被杀（SIGKILL），再从快照启动";
        LogOnDisk => "Redis has written its log to the disk (appendfsync everysec)", "Redis 已把日志写到磁盘（appendfsync everysec）";
        LogCut { actor: &'static str } => "the lab chooses where the log is cut: before {actor}'s purchase", "实验室选定日志在哪里截断：{actor} 的购买之前";
        PowerCut => "the power is cut: Redis starts again with what was on its disk", "断电：Redis 用磁盘上已有的数据重新启动";
        ConnectionEnded => "the connection of this transaction is ended (pg_terminate_backend)", "这个事务的连接被断开（pg_terminate_backend）";
        CommitUnheard => "the database will commit, and its answer be lost", "数据库会提交，但响应会丢失";
        NoOrderInStream => "an entry is in the stream that is no order", "Stream 里有一条不是订单的消息";
        ConsumersStart => "the consumers are started, and make their group", "消费者启动，并创建消费者组";
        FollowedUp { payments: i64, mails: i64 } => "payments begun: {payments}; mails sent: {mails}", "已发起的支付：{payments}；已发出的邮件：{mails}";
        OrderFailed { actor: &'static str, again: &'static str } => "{actor}'s order has failed; its user comes again, as {again}", "{actor} 的下单失败了；它的用户又来一次，记作 {again}";
        SubscriptionHeld { actor: &'static str } => "{actor} has missed the lock, and its subscription is held up", "{actor} 没拿到锁，而它的订阅被拖住";
        DeadTransactionEnds => "PostgreSQL ends the transaction of the dead process, and with it the lock", "PostgreSQL 结束死去进程的事务，锁也随之释放";
        WaitsForStopped { actor: &'static str, process: usize } => "so {actor} waits for as long as process {process} is stopped, and keeps a connection", "于是 {actor} 要等到进程 {process} 恢复为止，一直占着一条连接";
        StockLoaded { stock: i32 } => "an operator loads the stock from the database into Redis: {stock}", "运维把数据库里的库存重新载入 Redis：{stock}";
        AnswerLost { actor: &'static str, again: &'static str } => "the answer is lost: {actor}'s client hears nothing, and sends the request again, as {again}", "响应丢了：{actor} 的客户端什么也没收到，把请求又发一次，记作 {again}";
        WithoutEnd => "and so on, without end", "如此反复，没有尽头";

        // What an actor does.
        GoesOn => "goes on", "继续往下走";
        At { step: AtPoint } => "{step}", "{step}";
        Waits { what: Awaited } => "waits for {what}", "等待{what}";
        Answered { answer: Answer } => "is told: {answer}", "得到响应：{answer}";
        AsksAgain { answer: Answer } => "asks again, and is told: {answer}", "再问一次，得到响应：{answer}";
        AsksInVain => "asks again, and nobody has heard of it", "再问一次，没有人知道这个请求";
        Failed { failure: Failure } => "comes to no answer: {failure}", "没有得到响应：{failure}";
        LostLock => "has lost its lock and writes nothing", "发现锁丢了，什么也没写";
        Worked { turn: WorkTurn } => "{turn}", "{turn}";
        WantsToRestock => "an operator wants to put one more on sale", "运维要加一张券";
        WantsToPay { order: usize, process: usize } => "wants to pay for order {order} (process {process})", "要支付订单 {order}（进程 {process}）";
        SaysAgain { process: usize } => "has paid, says the gateway again (process {process})", "支付网关再次通知：已支付（进程 {process}）";

        // What came of it.
        So { witness: Witness } => "so: {witness}", "于是：{witness}";
        Broken { invariant: Invariant, witness: Witness } => "so {invariant} is broken: {witness}", "于是 {invariant} 被打破：{witness}";
        // SQL and what a server answered, or a client of the lock: the same in either language.
        Verbatim { text: String } => "{text}", "{text}";
    }
}

impl Event {
    /// How it looks on a page.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::Answered { answer: Answer::Ordered(_) } => "ordered",
            Self::Answered { .. } => "refused",
            Self::Failed { .. } => "failed",
            Self::Waits { .. } => "waits",
            _ => "acts",
        }
    }

    /// What a session calls it where it is the lab's own.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Killed { .. } => "killed",
            Self::Stopped { .. } => "stopped",
            Self::Continued { .. } => "continued",
            Self::LeaseEndsOn { .. } | Self::LeaseEnds => "lease_ended",
            _ => "at_the_end",
        }
    }

    /// The pause point that the actor has come to, if it is at one.
    pub const fn point(&self) -> Option<Point> {
        match self {
            Self::At { step } => Some(step.0),
            _ => None,
        }
    }

    /// What a pause point, a wait, a failure or the end of a lease is about, without the sentence around it.
    pub fn about(&self, language: Language) -> String {
        match self {
            Self::At { step } => step.about(language),
            Self::Waits { what } => what.in_words(language),
            Self::Failed { failure } => failure.in_words(language),
            Self::LeaseEndsOn { redis } => format!("Redis {redis}"),
            _ => String::new(),
        }
    }

    /// The fencing token in it.
    pub const fn token_mut(&mut self) -> Option<&mut i64> {
        match self {
            Self::At { step: AtPoint(_, Detail::Fenced(_, token)) } => Some(token),
            _ => None,
        }
    }
}

impl<T: Into<String>> From<T> for Event {
    fn from(text: T) -> Self {
        Self::Verbatim { text: text.into() }
    }
}

/// A pause point, and what the rung says there: of an order its number, by the order in which they came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtPoint(pub Point, pub Detail);

impl AtPoint {
    pub(super) fn about(&self, language: Language) -> String {
        let order = if self.0.names_an_order() { language.choose("order ", "订单 ") } else { "" };
        format!("{order}{}", self.1.in_words(language))
    }
}
