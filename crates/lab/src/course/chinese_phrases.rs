//! The sentences of timelines, verdicts and witnesses, and the same in Chinese. `{}` is a hole: a name, a
//! number, or another phrase; `{*}` takes whatever stands there, such as the words of an operating system.

macro_rules! phrases {
    ($($english:literal => $chinese:literal;)+) => {
        /// English, Chinese. The first that fits is taken.
        pub(super) const PHRASES: &[(&str, &str)] = &[$(($english, $chinese)),+];
    };
}

phrases! {
    // Two sentences, where each of them is one.
    "{}; {}" => "{}；{}";

    // What the lab does to the world.
    "voucher {} is on sale, {} in stock" => "券 {} 开售，库存 {}";
    "user {} wants voucher {}, and on the way voucher {} (process {})" => "用户 {} 要买券 {}，途中还要买券 {}（进程 {}）";
    "user {} wants voucher {} (process {})" => "用户 {} 要买券 {}（进程 {}）";
    "process {} is killed (SIGKILL)" => "进程 {} 被杀（SIGKILL）";
    "process {} is stopped (SIGSTOP)" => "进程 {} 被暂停（SIGSTOP）";
    "process {} goes on (SIGCONT)" => "进程 {} 继续运行（SIGCONT）";
    "process {} starts, and ends what it knows of" => "进程 {} 启动，取消它知道的到期订单";
    "process {} starts" => "进程 {} 启动";
    "a minute passes" => "过了一分钟";
    "the lease ends" => "租期到期";
    "the lease ends, as if its time had passed" => "租期到期，就像时间到了一样";
    "the lease ends on {}, as if its time had passed" => "{} 上的租期到期，就像时间到了一样";
    "the lease would have ended: it has been renewed" => "租期本该到期，但已经续期";
    "the lock has no lease: it never ends" => "锁没有租期，永远不会到期";
    "the lab ends the lease, as time would" => "实验室让租期到期，就像时间到了一样";
    "the lab locks the voucher's row" => "实验室锁住券的那一行";
    "the lab lets go of the row" => "实验室放开那一行";
    "the time to pay is over" => "支付期限已过";
    "Redis is killed (SIGKILL)" => "Redis 被杀（SIGKILL）";
    "ZooKeeper is killed (SIGKILL)" => "ZooKeeper 被杀（SIGKILL）";
    "Redis {} of {} is killed (SIGKILL)" => "Redis {}（共 {} 台）被杀（SIGKILL）";
    "Redis {} is down" => "Redis {} 停了";
    "Redis {} is up again" => "Redis {} 恢复了";
    "Redis {} is restarted, and is empty" => "Redis {} 重启，数据为空";
    "the clock of Redis {} leaps past the lease" => "Redis {} 的时钟跳过了租期";
    "the link from the master to its replica is cut" => "主节点到副本的连接被切断";
    "the master is killed (SIGKILL)" => "主节点被杀（SIGKILL）";
    "the replica is promoted" => "副本升为主节点（主从切换）";
    "the reply to {}'s next command will be lost" => "{} 下一条命令的响应会丢失";
    "the release has arrived twice" => "释放命令到达了两次";
    "Redis writes a snapshot (SAVE)" => "Redis 写快照（SAVE）";
    "Redis is killed (SIGKILL), and started again from its snapshot" => "Redis 被杀（SIGKILL），再从快照启动";
    "Redis has written its log to the disk (appendfsync everysec)" => "Redis 已把日志写到磁盘（appendfsync everysec）";
    "the lab chooses where the log is cut: before {}'s purchase" => "实验室选定日志在哪里截断：{} 的购买之前";
    "the power is cut: Redis starts again with what was on its disk" => "断电：Redis 用磁盘上已有的数据重新启动";
    "the connection of this transaction is ended (pg_terminate_backend)" => "这个事务的连接被断开（pg_terminate_backend）";
    "the database will commit, and its answer be lost" => "数据库会提交，但响应会丢失";
    "an entry is in the stream that is no order" => "Stream 里有一条不是订单的消息";
    "the consumers are started, and make their group" => "消费者启动，并创建消费者组";
    "payments begun: {}; mails sent: {}" => "已发起的支付：{}；已发出的邮件：{}";
    "{}'s order has failed; its user comes again, as {}" => "{} 的下单失败了；它的用户又来一次，记作 {}";
    "{} has missed the lock, and its subscription is held up" => "{} 没拿到锁，而它的订阅被拖住";
    "PostgreSQL ends the transaction of the dead process, and with it the lock" => "PostgreSQL 结束死去进程的事务，锁也随之释放";
    "so {} waits for as long as process {} is stopped, and keeps a connection" => "于是 {} 要等到进程 {} 恢复为止，一直占着一条连接";
    "an operator loads the stock from the database into Redis: {}" => "运维把数据库里的库存重新载入 Redis：{}";
    "the answer is lost: {}'s client hears nothing, and sends the request again, as {}" => "响应丢了：{} 的客户端什么也没收到，把请求又发一次，记作 {}";
    "of its {} segments the first two have one each" => "{} 段里，头两段各有一张";
    "and so on, without end" => "如此反复，没有尽头";

    // What an actor does.
    "goes on" => "继续往下走";
    "waits for {}" => "等待{}";
    "an advisory lock that another transaction has" => "另一个事务持有的咨询锁";
    "a row that another transaction has locked" => "另一个事务锁住的行";
    "the mutex" => "进程内的锁";
    "the user's mutex" => "该用户的进程内锁";
    "the release" => "锁的释放";
    "its batch" => "它所在的那一批";
    "an operator wants to put one more on sale" => "运维要加一张券";
    "has lost its lock and writes nothing" => "发现锁丢了，什么也没写";
    "is told: {}" => "得到响应：{}";
    "asks again, and is told: {}" => "再问一次，得到响应：{}";
    "asks again, and nobody has heard of it" => "再问一次，没有人知道这个请求";
    "ordered" => "买到了（ordered）";
    "sold_out" => "售罄（sold_out）";
    "already_bought" => "已经买过（already_bought）";
    "order_in_progress" => "订单正在处理（order_in_progress）";
    "accepted" => "已受理（accepted）";
    "order_failed" => "下单失败（order_failed）";
    "wants to pay for {} (process {})" => "要支付{}（进程 {}）";
    "has paid, says the gateway again (process {})" => "支付网关再次通知：已支付（进程 {}）";

    // Why it came to no answer.
    "an entry that is no order" => "不是订单的消息";
    "the queue is full" => "队列满了";
    "comes to no answer: an entry that is no order" => "没有得到响应：这条消息不是订单";
    "comes to no answer: the queue is full" => "没有得到响应：队列满了";
    "comes to no answer: the database" => "没有得到响应：数据库出错";
    "comes to no answer: the lock" => "没有得到响应：锁出错";
    "comes to no answer: the database: {*}" => "没有得到响应：数据库出错：{*}";
    "comes to no answer: the lock: {*}" => "没有得到响应：锁出错：{*}";
    "comes to no answer: {*}" => "没有得到响应：{*}";

    // At its pause points.
    "reads the stock: {}" => "读到库存：{}";
    "counts the orders of this user: {}" => "数出该用户的订单：{}";
    "has sent {}, and not the next command yet" => "发出了 {}，下一条命令还没发";
    "holds the lock: {}" => "拿到锁：{}";
    "finds the lock taken, is about to wait: {}" => "发现锁被占着，准备等待：{}";
    "looks a last time whether the lock is still its own: {}" => "最后确认一次锁还是不是自己的：{}";
    "hears from the purchase made on the way: {}" => "途中那次购买的响应：{}";
    "has given back the lock, and not committed" => "已经释放锁，还没提交";
    "has deleted the cached stock, and not written yet" => "已经删掉缓存里的库存，还没写库";
    "has added stock, and not deleted what is cached yet" => "已经加了库存，还没删缓存";
    "is about to commit: it is cancelled, its voucher back: {}" => "即将提交（订单取消，券退回）：{}";
    "is about to commit: {}" => "即将提交：{}";
    "is about to give back the lock: {}" => "即将释放锁：{}";
    "has taken a voucher in Redis: {}" => "在 Redis 里扣到一张券：{}";
    "takes an entry: {}" => "取到一条消息：{}";
    "has committed, is about to acknowledge: {}" => "已经提交，即将确认：{}";
    "has published, and not marked it yet: {}" => "已经发布，还没标记：{}";
    "reads that it is unpaid: {}" => "读到它未支付：{}";
    "finds it unpaid, and its time over: {}" => "发现它未支付，且期限已过：{}";
    "has cancelled it, and not given the voucher back: {}" => "已经取消它，券还没退回：{}";
    "finds that it is not unpaid any more: {}" => "发现它不再是未支付：{}";
    "is about to commit what becomes of the money: {}" => "即将提交这笔钱的去向：{}";
    "order {}" => "订单 {}";
    "{} ms" => "{} 毫秒";
    "{} s" => "{} 秒";
    "SETNX, PEXPIRE {}" => "SETNX、PEXPIRE {}";
    "SET NX PX {}" => "SET NX PX {}";
    "hold {}, for {}, renewed" => "第 {} 次持有，租期 {}，会续期";
    "hold {}, for {}" => "第 {} 次持有，租期 {}";
    "for {}, by token {}" => "租期 {}，令牌 {}";
    "until the transaction ends" => "直到事务结束";
    "SETNX, PEXPIRE, for {}" => "SETNX、PEXPIRE，租期 {}";
    "SET NX PX, for {}" => "SET NX PX，租期 {}";
    "for {}, renewed every third" => "租期 {}，每过三分之一续期一次";
    "on all nodes, for {}, renewed" => "在所有节点上，租期 {}，会续期";
    "on {} nodes, for {}, renewed" => "在 {} 个节点上，租期 {}，会续期";
    "the first in the queue" => "排在队首";
    "it will hear of the release" => "锁释放时它会收到通知";
    "it will watch who is ahead" => "它会监听排在前面的那一个";
    "it is" => "是";
    "it is, by token {}" => "是，令牌 {}";
    "GET says it is its own; next is DEL" => "GET 说是自己的，下一步是 DEL";
    "compare-and-delete, one script" => "比较并删除，一个脚本";
    "one hold, one script" => "减一次持有，一个脚本";
    "one hold, safe to send again" => "减一次持有，重发也安全";
    "on every node" => "在每个节点上";
    "its place in the queue" => "它在队列里的位置";

    // What came of a turn.
    "finds nothing to do" => "没有事可做";
    "is done with it: {}" => "处理完毕：{}";
    "puts it aside, among the dead letters" => "把它放进死信";
    "published, and marked as such" => "已经发布并标记";
    "the payment is begun, a mail sent" => "支付已经发起，邮件已经发出";
    "cancelled, its voucher on sale again" => "订单取消，券重新开售";
    "finds no unpaid order any more, and changes nothing" => "已经没有未支付的订单，什么也没改";
    "more is on sale" => "又有券开售";
    "the order is paid" => "订单已支付";
    "the order lives again, and is paid" => "订单恢复有效，并已支付";
    "the money is to be given back" => "这笔钱要退回";
    "knows this payment already" => "这笔支付已经处理过";
    "comes too late; a line in a log says so" => "来得太晚，日志里记了一行";

    // Why a promise is broken.
    "voucher {}: {}" => "券 {}：{}";
    "so {} is broken: {}" => "于是 {} 被打破：{}";
    "user {} holds {} orders" => "用户 {} 持有 {} 张订单";
    "{} was told of an order, and has none" => "{} 得到了订单号，却没有订单";
    "{} waits, and nobody can go on" => "{} 在等待，谁也走不下去";
    "so: {}" => "于是：{}";
    "user {} is locked out for ever" => "用户 {} 永远被锁在门外";
    "user {} is locked out though the lease has ended" => "租期已经到期，用户 {} 仍被锁在门外";
    "{} waits for a lock that {} itself holds" => "{} 在等 {} 自己持有的锁";
    "{} is turned away by the lock that {} itself holds" => "{} 被 {} 自己持有的锁拒绝";
    "{} cannot go on after the purchase made on the way" => "途中那次购买之后，{} 无法继续";
    "{} slept through the release" => "{} 错过了锁的释放";
    "Redis {} of {} is down, and nobody can buy" => "Redis {}（共 {} 台）停了，谁也买不到";
    "{} is down, and nobody can buy" => "{} 停了，谁也买不到";
    "the first was answered {}, the same request again {}" => "第一次的响应是 {}，同一个请求再发一次的响应是 {}";
    "another request of the user was taken for the same" => "该用户的另一个请求被当成了同一个";
    "one server of the lock is down, and nobody can buy" => "锁的一台服务器停了，谁也买不到";
    "what comes after an order was never done" => "订单之后该做的事一直没有做";
    "{} was accepted, and hears no final answer" => "{} 已被受理，却得不到最终响应";
    "{} was accepted, and nobody has heard of it" => "{} 已被受理，却没有人知道它的请求";
    "{} was told yes, and has no order" => "{} 得到“成功”的响应，却没有订单";
    "an order was paid for {} times" => "一张订单支付了 {} 次";
    "{}'s voucher was given back, and its user did not get it" => "{} 的券退回了，它的用户却没有买到";
    "{}'s voucher was given back twice" => "{} 的券退回了两次";
    "{} has an order, and its entry came to {*}" => "{} 已有订单，它的消息却得到 {*}";
    "{} orders for a stock of {}; the column says {}" => "库存 {2}，却有 {1} 张订单；库存列写的是 {3}";
    "{} orders and {} in stock, of {}" => "{} 张订单，库存剩 {}，而初始库存是 {}";
    "{} told sold out, and {} in stock" => "{} 得到“售罄”的响应，库存却还有 {}";
    "user {} holds {} orders: {}" => "用户 {} 持有 {} 张订单：{}";
    "{} of {} not on sale again" => "{2} 张里有 {1} 张没有重新开售";
    "{} of {} not paid in time, and not on sale again" => "{2} 张里有 {1} 张没有按时支付，也没有重新开售";
    "{} has the order and the money" => "{} 既有订单，又拿回了钱";
    "{} was told that the order is paid, and it is cancelled; nobody gives the money back" => "{} 得到“已支付”的响应，订单却取消了，没有人退款";
    "{} paid too late, and nobody gives the money back" => "{} 付得太晚，没有人退款";

    // Why a step of a session makes no sense.
    "{} waits for the other buyer" => "{} 在等另一个买家";
    "{} is through" => "{} 已经结束";
    "this rung has no consumer" => "这一级没有消费者";
    "the consumer has nothing to do" => "消费者没有事可做";
    "there is no process whose end would show something now" => "现在杀掉进程看不出什么";
    "no lock with a lease is held whose end could still be played" => "没有还能到期的锁";
    "a schedule has at most {} steps" => "一份调度最多 {} 步";

    // Why the page of the ladder has nothing to show.
    "{} people play, and {} wait: no more can wait now" => "{} 人在玩，{} 人在排队：现在不能再排了";
    "this session has ended, or somebody else has its place: begin another one" => "这次会话已经结束，或者位置让给了别人：请重新开始";
    "the session has failed: begin another one" => "这次会话失败了：请重新开始";
    "too many requests wait for a step, or the player has ended" => "等待的请求太多，或者服务正在停止";
    "there is no rung {}; GET /lab shows all of them" => "没有 {} 这一级；GET /lab 列出所有的级";
    "a schedule is made of A, B, C, L and K; {} is none of them" => "调度只由 A、B、C、L 和 K 组成，不能有 {}";
    "{} must be 1 or 2, not {}" => "{} 必须是 1 或 2，不能是 {}";
    "stock must be 0 to {}, not {}" => "stock 必须是 0 到 {}，不能是 {}";
    "{} is not installed: run scripts/setup.sh lab, or {*}" => "没有安装 {}：运行 scripts/setup.sh lab，或者 {*}";
    "session must be a UUID" => "session 必须是 UUID";
    "actor must be A, B, C, L or K" => "actor 必须是 A、B、C、L 或 K";

    // Several of them.
    "{}, {}" => "{}、{}";
    "{} and {}" => "{} 和 {}";
}
