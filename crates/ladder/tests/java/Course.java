package course;

import java.util.UUID;
import org.apache.curator.framework.CuratorFramework;
import org.redisson.api.RedissonClient;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.transaction.support.TransactionTemplate;

/** What every Java block of the course finds around it. A block is the members of a class that extends this one. */
abstract class Course {
    JdbcTemplate jdbc;
    TransactionTemplate transactions;
    StringRedisTemplate redis;
    RedissonClient redisson;
    CuratorFramework zookeeper;

    /** Names the process in the owner of a lock. */
    static final String PROCESS = UUID.randomUUID().toString();

    /** What a buyer is told. */
    enum Answer {
        ORDERED,
        SOLD_OUT,
        ALREADY_BOUGHT,
        IN_PROGRESS,
        ENTERED,
        IN_LINE
    }

    /** Counts, subtracts and inserts, as r05a does. It is run in a transaction. */
    abstract Answer place(long user, long voucher);
}
