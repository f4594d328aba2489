//! What is said of the rungs beside their files: titles, and the stages of the course 黑马点评.
//! In English the idea of a rung is what its file says; here is the same in Chinese.

use super::in_language;
use ladder::Rung;
use seckill::http::Language;

/// What is said of a rung beside its file.
#[derive(Clone, Copy)]
struct Said {
    rung: &'static str,
    title: &'static str,
    title_zh: &'static str,
    /// The stage of the course that it is, in both languages.
    stage: Option<[&'static str; 2]>,
    idea_zh: &'static str,
    breaks_zh: &'static str,
    /// Its page, in both languages.
    pages: [&'static str; 2],
}

/// Rung: title, title in Chinese; its stage in the course, if it has one; idea and where it breaks, in
/// Chinese.
macro_rules! course {
    (@stage) => { None };
    (@stage $stage:literal, $stage_zh:literal) => { Some([$stage, $stage_zh]) };
    ($($rung:ident: $title:literal, $title_zh:literal; $(stage $stage:literal, $stage_zh:literal;)?
        $idea_zh:literal $breaks_zh:literal)+) => {
        const COURSE: &[Said] = &[$(Said {
            rung: stringify!($rung),
            title: $title,
            title_zh: $title_zh,
            stage: course!(@stage $($stage, $stage_zh)?),
            idea_zh: $idea_zh,
            breaks_zh: $breaks_zh,
            pages: [
                include_str!(concat!("../../../../docs/ladder/", stringify!($rung), ".md")),
                include_str!(concat!("../../../../docs/ladder/", stringify!($rung), ".zh-CN.md")),
            ],
        }),+];
    };
}

course! {
    r01_naive: "read the stock, check, subtract", "读库存，判断，减一";
        stage "超卖问题: overselling", "超卖问题";
        "读库存，有就减一，写订单。"
        "两个买家都在对方写之前读到同一个库存：最后一张券卖给了两个人。"
    r02_row_lock: "`select … for update`", "`select … for update`";
        stage "悲观锁: the pessimistic lock", "悲观锁";
        "悲观锁：读的时候就把行锁住。"
        "同一个用户点了两次：没有人数过他的订单。而且所有人排队等一行。"
    r03_version_cas: "`where stock = <what was read>`", "`where stock = 读到的值`";
        stage "乐观锁, 版本号/CAS: optimistic, with a version", "乐观锁：版本号法 / CAS";
        "乐观锁：库存还是刚才读到的那个数，才写。"
        "许多人读到同一个库存：只有一个人写得进去，其余的人被告知售罄，而券还在。"
    r04_stock_guard: "`where stock > 0`", "`where stock > 0`";
        stage "乐观锁改进: optimistic, improved", "乐观锁的改进";
        "乐观锁：不管刚才读到多少，只要还有就写。"
        "同一个用户点了两次：没有人数过他的订单。"
    r05a_check_then_insert: "count the user's orders first", "先数该用户的订单";
        stage "一人一单: one per user", "一人一单";
        "一人一单：卖之前先数这个用户的订单。"
        "同一个用户点了两次：两个请求都在对方写之前数完了。"
    r05b_advisory_lock: "an advisory lock in the transaction", "事务里的咨询锁";
        "每个用户一把锁，由 PostgreSQL 保管在写库的那个事务里：第一条语句拿锁，提交、回滚或断线时放锁。"
        "持有锁的代码在另一个事务里再拿同一把锁：永远等下去。而且每个等待的请求都占着一条数据库连接。"
    r06_global_mutex: "one mutex around everything", "一把锁包住一切";
        stage "`synchronized` 方法锁 (`this`)", "`synchronized` 方法（锁 `this`）";
        "一把进程内的锁包住整个购买（synchronized 方法）。"
        "有第二个进程：它不知道第一个进程的锁。"
    r07a_user_mutex_inside_tx: "a mutex per user, inside the transaction", "每个用户一把锁，在事务里面";
        stage "`synchronized (userId.toString().intern())` inside `@Transactional`: 事务未提交锁已释放", "`@Transactional` 方法里的 `synchronized (userId.toString().intern())`：事务未提交，锁已释放";
        "每个用户一把锁，在事务里面拿、在提交之前放。"
        "第二次点击在释放之后、提交之前进来：它看不见还没提交的订单。"
    r07b_user_mutex: "a mutex per user, around the transaction", "每个用户一把锁，在事务外面";
        stage "锁住整个事务 (`AopContext.currentProxy()`); then 集群下锁失效", "锁住整个事务（`AopContext.currentProxy()`）；接着是集群下锁失效";
        "每个用户一把锁，事务开始之前拿，提交之后放。"
        "有第二个进程：它不知道第一个进程的锁。"
    r08a_setnx: "`SETNX`, `DEL`", "`SETNX`、`DEL`";
        stage "分布式锁: the first one", "分布式锁的起点";
        "锁放进 Redis：SETNX 拿锁，DEL 放锁，所有进程都看得见。"
        "持有者死了：锁没有租期，这个用户永远被关在门外。"
    r08b_setnx_expire: "`SETNX`, then `EXPIRE`", "`SETNX`，再 `EXPIRE`";
        stage "加过期时间, not yet atomic", "加过期时间，但不是原子的";
        "先 SETNX，再 EXPIRE，让死者的锁自己到期。"
        "持有者死在两条命令之间；或者工作比租期长。"
    r09_set_nx_px: "`SET NX PX`, `DEL`", "`SET NX PX`、`DEL`";
        stage "`SimpleRedisLock`, first version", "`SimpleRedisLock` 初级版本";
        "一条命令同时拿锁并设租期。"
        "工作比租期长：第二个人进来，而前一个人的 DEL 删掉了别人的锁。"
    r10_owner_check: "`GET`, compare, `DEL`", "`GET`、比较、`DEL`";
        stage "解决误删: a mark of one's own in the value", "解决误删：值里放自己的标识";
        "值里写明是谁的锁，只删自己的。"
        "比较与删除之间锁到期；或者工作比租期长。"
    r11_lua_release: "compare and delete in Lua", "用 Lua 比较并删除";
        stage "Lua 脚本保证原子性", "Lua 脚本保证原子性";
        "一个脚本里比较并删除，中间没有缝隙。"
        "工作比租期长；持有锁的代码再拿同一把锁。"
    r12_reentrant: "a hash: owner → holds", "哈希：持有者 → 次数";
        stage "Redisson 可重入锁原理", "Redisson 可重入锁原理";
        "可重入：锁是一个哈希，持有者 → 次数。"
        "释放的响应丢了、又发了一次；或者工作比租期长。"
    r13a_renewal: "the lease is renewed", "续期：看门狗";
        stage "Redisson 看门狗 (WatchDog): renewal", "Redisson 看门狗（WatchDog）续期";
        "工作期间每过三分之一租期续一次；写库之前先看自己的时间过了没有。"
        "释放的响应丢了、又发了一次；持有者在最后一次检查与写之间被暂停了；唯一的 Redis 忘了这把锁。"
    r13b_wakeup: "waiting by messages", "用消息等待";
        stage "Redisson 锁重试: waiting by publish and subscribe", "Redisson 锁重试：发布订阅";
        "第二个请求会等：释放时发布一条消息；等待者先订阅，再试一次，然后睡到消息来，或剩下的租期结束。"
        "释放的响应丢了、又发了一次；持有者在最后一次检查与写之间被暂停了；唯一的 Redis 忘了这把锁。"
    r13c_resent_release: "a release that may be sent again", "可以重发的释放";
        "每次释放带一个自己的编号，Redis 把结果记一会儿：再发一次，什么也不变。"
        "唯一的 Redis 忘了这把锁；或者持有者在最后一次检查与写之间被暂停了。"
    r13d_redisson_lock: "the same in the production lock", "同样三件事：生产用的锁";
        stage "Redisson `RLock`", "Redisson 的 `RLock`";
        "生产用的锁：看门狗续期，等待者被叫醒，锁丢了会告诉持有者。"
        "唯一的 Redis 忘了这把锁；或者持有者在最后一次检查与写之间被暂停了。"
    r14_multi_lock: "all of three Redis", "三个 Redis 全部拿到";
        stage "主从一致性, multiLock", "主从一致性：联锁（multiLock）";
        "三台互不依赖的 Redis，全都拿到才算拿到。"
        "有一台停了：谁也拿不全，谁也买不到。"
    r15_redlock: "a majority of three Redis", "三个 Redis 拿到多数";
        stage "红锁 (RedLock), mentioned in passing", "红锁（RedLock），课程一带而过";
        "红锁：拿到多数就算。"
        "多数里有一台忘了锁、主从切换，或时钟跳了：两个人各有一个多数；持有者被暂停了。"
    r16_fencing: "a token that the database compares", "由数据库比较的令牌";
        "每次授权带一个更大的数，数据库拒绝更小的。"
        "锁的服务器没了：谁也买不到。"
    r17_zookeeper: "a place in a ZooKeeper queue", "在 ZooKeeper 里排队";
        "在 ZooKeeper 里排队，位置由持有者的会话维持。"
        "持有者在最后一次检查之后、写入之前被暂停，醒来时会话已过期。"
    r18a_constraints: "no lock: `unique` and `stock > 0`", "不要锁：`unique` 加 `stock > 0`";
        stage "the index everybody forgets", "人人都忘了建的那个唯一索引";
        "不要锁：由数据库的约束裁决每一次购买。"
        "没有什么能打破它；只是慢。"
    r18b_stock_segments: "the stock in eight rows", "库存分成八段";
        "库存分段：一份库存拆成八行，用户号决定从哪一段扣，八个买家就不必排在同一行后面。"
        "自己那一段空了，别的段还有：买家被告知“售罄”，最后几张谁也找不到。"
    r18c_all_segments: "the stock in eight rows, all of them tried", "库存分成八段，逐段找";
        "照 r18b，自己那一段空了，就逐段去别处找，都空了才说“售罄”。"
        "没有什么能打破它；只是每次拒绝要问八行，而八行还是同一台数据库。"
    r19_group_commit: "many purchases in one transaction", "许多次购买合成一个事务";
        stage "instead of 异步秒杀", "代替异步秒杀";
        "生产策略：一起等待的购买合成一个事务，提交一次。"
        "放锁的那台 Redis 停了：谁也买不到，但什么也不会丢。"
    r20_lua_and_queue: "Lua in Redis decides, a queue in the process writes", "Redis 里的 Lua 裁决，进程内队列写库";
        stage "异步秒杀: `BlockingQueue`", "异步秒杀：阻塞队列";
        "异步秒杀，课程的写法：一个 Lua 脚本在 Redis 里裁决，先返回，进程内的阻塞队列喂给一个写库线程；它给用户加锁、数订单、带条件扣减，再写订单。"
        "进程死时队列里还有订单；队列满了；Redis 从旧快照恢复，或者有人重新预热库存：数据库拒绝的，都已经答应过了。Redis 停了，谁也买不到。"
    r21a_lua_and_stream: "Lua and a stream, as the course has it", "Lua 加 Stream，课程的写法";
        stage "异步秒杀: `stream.orders`, `g1`, `c1`, pending-list", "异步秒杀：`stream.orders`、`g1`、`c1`、pending-list";
        "脚本同时把订单放进 Stream；消费者组 g1 从 0 建，各进程都叫 c1，出错之后才读 pending-list；写库照 r20 加锁、数订单、看扣减结果。"
        "消费者手里拿着消息死了；毒消息；Redis 丢了数据；Redis 卖了数据库不认的；Redis 停了，谁也买不到。"
    r21b_stream_from_now: "the same, from $ and trimmed", "同上，从 $ 建组，裁剪流";
        stage "as widely copied", "常见的抄法";
        "照 r21a，再加两个常被抄错的设置：组从 $ 建，流用 MAXLEN 裁剪。"
        "建组之前就有人买；买的人比流留得下的多：这些消息永远没人读。r21a 的毛病它也都有。"
    r21c_unchecked_consumer: "the same, without lock, count and check", "同上，去掉锁、计数和检查";
        stage "as widely copied", "常见的抄法";
        "常见的抄法：消费者不加锁、不数订单、不看扣减结果，反正 Redis 里的脚本已经裁决过了。"
        "消息来两次就写两次；Redis 把卖过的再卖一遍，就有了没有库存的订单和重复的订单。"
    r22_stream_done_right: "the stream done right", "把 Stream 用对";
        "各有其名的消费者，认领闲置消息，死信，库存条件与唯一索引同在一个事务，提交之后才确认；买家轮询结果。"
        "Redis 丢了它确认过的东西：断电，或主从切换到落后的副本。Redis 停了，谁也买不到。"
    r23a_outbox: "the database decides, an outbox feeds the stream", "数据库裁决，本地消息表（发件箱）喂给 Stream";
        stage "beyond the course: 本地消息表", "课程之外：本地消息表";
        "本地消息表：订单与发件箱的一行同在一个事务；中继把它放进 Stream，供后续的支付与邮件。"
        "消费者不幂等：中继死在发布与标记之间，会发布两次。"
    r23b_batched_outbox: "the same, many purchases in one transaction", "同上，许多次购买合成一个事务";
        stage "beyond the course: 本地消息表", "课程之外：本地消息表";
        "本地消息表加组提交：一起等待的购买合成一个事务，订单与发件箱的行同在其中。"
        "没有什么能打破它；消费者仍要幂等，中继一次一行，人多时会落后。"
    r24_expire_by_timer: "a timer in the process ends unpaid orders", "进程内的定时器取消未支付订单";
        stage "beyond the course: 订单超时自动取消", "课程之外：订单超时自动取消";
        "订单要在限期内支付：进程内的定时器到点，读到“未支付”就取消，再退库存；支付回调也是先读“未支付”，再写“已支付”。"
        "进程死了，定时器也没了，库存永远卡住；支付与到期都读到“未支付”，两边都成；迟到的支付收了钱，没有订单，也没人退。"
    r25_expire_by_condition: "one conditional update ends unpaid orders", "一条带条件的更新取消未支付订单";
        "每一步都是一条带条件的更新，条件就是它要离开的状态；库存与状态同在一个事务；谁都可以扫库里到期的订单；迟到的支付，要么订单复活，要么退款。"
        "没有什么能打破它；到期的订单最多晚一轮扫描才取消。"
    r26a_cached_stock: "refusals from a cached stock, deleted before the write", "用缓存的库存拒绝，先删缓存再写库";
        stage "商户查询缓存: cache aside, the wrong way round", "商户查询缓存：旁路缓存，顺序反了";
        "缓存与数据库：库存先读 Redis，没有再读库并回填（旁路缓存）；改库存的人先删缓存、再写库。卖不卖仍由数据库裁决。"
        "删了缓存、还没写库，有人读到旧库存又回填：加了货，却人人得到“售罄”。"
    r26b_delayed_double_delete: "delayed double delete", "延迟双删";
        stage "beyond the course: 延迟双删", "课程之外：延迟双删";
        "改库存：删缓存，写库，等半秒，再删一次。"
        "读的人比半秒还慢；或者进程死在第二次删除之前：旧库存留在缓存里。"
    r26c_sold_out_for_a_second: "only \"sold out\" is cached, for a second", "只缓存“售罄”，只缓存一秒";
        "缓存里只有一句“售罄”，而且只留一秒；其余的都由数据库裁决。"
        "Redis 停了，谁也买不到。还要容得下这一秒；每秒有几个买家会白问一次数据库。"
    r27a_retry: "a client that hears nothing sends it again", "没有响应，客户端就重试";
        "r18a，加上会重试的客户端：没等到响应，就把同一个请求再发一次。"
        "买成了，响应却丢了：重试得到“已经买过”，分不清那是不是自己刚才那一次。"
    r27b_request_key: "each request has a key", "每个请求带一个幂等键";
        "请求带一个客户端生成的幂等键，重试用同一个；键在库里唯一，与订单同在一个事务。"
        "没有什么能打破它；拒绝不会被记住，键总有一天要清理。"
}

/// A test has one for every rung.
fn said(rung: &Rung) -> Said {
    *COURSE.iter().find(|said| said.rung == rung.id).unwrap_or(&COURSE[0])
}

/// The title of a rung in Markdown: "a mutex per user, inside the transaction".
pub fn title(rung: &Rung, language: Language) -> &'static str {
    let said = said(rung);
    in_language(language, said.title, said.title_zh)
}

/// The stage of the course 黑马点评 that a rung is, in Markdown; `None` for what the course does not have.
pub fn course_chapter(rung: &Rung, language: Language) -> Option<&'static str> {
    said(rung).stage.map(|[english, chinese]| in_language(language, english, chinese))
}

/// The page of a rung, in Markdown.
pub fn page(rung: &Rung, language: Language) -> &'static str {
    let [english, chinese] = said(rung).pages;
    in_language(language, english, chinese)
}

/// What a rung does.
pub fn idea(rung: &Rung, language: Language) -> String {
    match language {
        Language::English => rung.line("Idea"),
        Language::Chinese => said(rung).idea_zh.to_owned(),
    }
}

/// Where it fails.
pub fn breaks_when(rung: &Rung, language: Language) -> String {
    match language {
        Language::English => rung.line("Breaks when"),
        Language::Chinese => said(rung).breaks_zh.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ladder::RUNGS;

    use super::*;

    #[test]
    fn every_rung_is_told_in_both_languages() {
        let known: Vec<&str> = RUNGS.iter().map(|rung| rung.id).collect();
        assert!(COURSE.iter().map(|said| said.rung).eq(known));
        for rung in RUNGS {
            for language in [Language::English, Language::Chinese] {
                assert!(!idea(rung, language).is_empty(), "{}", rung.id);
                assert!(!breaks_when(rung, language).is_empty(), "{}", rung.id);
            }
        }
    }
}
