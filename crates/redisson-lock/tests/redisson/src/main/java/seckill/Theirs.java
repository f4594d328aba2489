package seckill;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/** A Redisson client, and threads of it: to Redisson each thread is an owner. */
final class Theirs implements AutoCloseable {
    final RedissonClient client;

    Theirs(Config config) {
        config.setThreads(4).setNettyThreads(4);
        client = Redisson.create(config);
    }

    static Theirs on(Server server) {
        Config config = new Config();
        SingleServerConfig single = config.useSingleServer().setAddress(server.address());
        single.setConnectionMinimumIdleSize(2).setSubscriptionConnectionMinimumIdleSize(1);
        return new Theirs(config);
    }

    /** mode: a ShardedSubscriptionMode, or null for what this version does of itself. */
    static Theirs onCluster(Iterable<Server> nodes, String mode) throws Exception {
        Config config = new Config();
        ClusterServersConfig cluster = config.useClusterServers();
        nodes.forEach(node -> cluster.addNodeAddress(node.address()));
        few(cluster);
        if (mode != null) {
            // Not in each version that the suite is built for.
            Class<?> type = Class.forName("org.redisson.config.ShardedSubscriptionMode");
            Object value = type.getMethod("valueOf", String.class).invoke(null, mode);
            ClusterServersConfig.class.getMethod("setShardedSubscriptionMode", type).invoke(cluster, value);
        }
        return new Theirs(config);
    }

    private static void few(BaseMasterSlaveServersConfig<?> config) {
        config.setMasterConnectionMinimumIdleSize(2).setSlaveConnectionMinimumIdleSize(1);
        config.setSubscriptionConnectionMinimumIdleSize(1);
    }

    RLock lock(String name) {
        return client.getLock(name);
    }

    /** One owner: what is done in it is done by one thread. */
    static final class Owner implements AutoCloseable {
        private final ExecutorService thread = Executors.newSingleThreadExecutor(runnable -> {
            Thread thread = new Thread(runnable);
            thread.setDaemon(true);
            return thread;
        });

        <T> Future<T> begin(Callable<T> what) {
            return thread.submit(what);
        }

        <T> T done(Callable<T> what) throws Exception {
            return begin(what).get(20, TimeUnit.SECONDS);
        }

        void lock(RLock lock) throws Exception {
            done(() -> {
                lock.lock(10, TimeUnit.MINUTES);
                return null;
            });
        }

        void unlock(RLock lock) throws Exception {
            done(() -> {
                lock.unlock();
                return null;
            });
        }

        @Override
        public void close() {
            thread.shutdownNow();
        }
    }

    @Override
    public void close() {
        client.shutdown(0, 5, TimeUnit.SECONDS);
    }
}
