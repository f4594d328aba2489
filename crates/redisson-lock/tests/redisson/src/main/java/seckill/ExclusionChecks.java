package seckill;

import java.util.concurrent.TimeUnit;
import org.redisson.RedissonMultiLock;
import org.redisson.api.RLock;

/** Who holds a lock keeps everybody else out, whatever they are written in. */
final class ExclusionChecks {
    private static final String GROUP = "exclusion";

    private ExclusionChecks() {}

    static void run(Suite suite) throws Exception {
        try (Server server = new Server();
                Theirs theirs = Theirs.on(server);
                Theirs.Owner owner = new Theirs.Owner()) {
            Ours ours = suite.ours(server);
            suite.check(GROUP, "what Redisson holds we do not get, neither at once nor by waiting", () -> {
                RLock lock = theirs.lock("by-redisson");
                owner.lock(lock);
                require(ours.tryOnce("by-redisson") == Ours.HELD, "we got in at once");
                int status = ours.run("run", "by-redisson", "--wait", "300ms", "--", "true");
                require(status == Ours.HELD, "we got in after a while: " + status);
                owner.unlock(lock);
                require(ours.tryOnce("by-redisson") == 0, "it is not free again");
                return null;
            });
            suite.check(GROUP, "what we hold Redisson does not get, neither at once nor by waiting", () -> {
                RLock lock = theirs.lock("by-us");
                Ours.Running holder = ours.hold("by-us");
                require(!owner.done(lock::tryLock), "Redisson got in at once");
                require(!owner.done(() -> lock.tryLock(300, TimeUnit.MILLISECONDS)), "Redisson got in later");
                require(lock.isLocked() && !owner.done(lock::isHeldByCurrentThread), "it is not held by us");
                require(holder.end() == 0, "we did not end well");
                require(owner.done(() -> lock.tryLock()), "it is not free again");
                owner.unlock(lock);
                return null;
            });
            suite.check(GROUP, "Redisson cannot unlock what we hold", () -> {
                RLock lock = theirs.lock("not-theirs");
                Ours.Running holder = ours.hold("not-theirs");
                boolean refused = owner.done(() -> {
                    try {
                        lock.unlock();
                        return false;
                    } catch (IllegalMonitorStateException error) {
                        return true;
                    }
                });
                require(refused && lock.isLocked(), "it did");
                require(holder.end() == 0, "we lost it");
                return null;
            });
            suite.check(GROUP, "Redisson's holds are counted, and only the last release is one", () -> {
                RLock lock = theirs.lock("twice");
                owner.lock(lock);
                owner.lock(lock);
                String owned = owner.done(() -> ":" + Thread.currentThread().getId() + "\"");
                String twice = ours.inspect("twice");
                require(twice.contains("\"holds\":2") && twice.contains(owned), twice);
                owner.unlock(lock);
                String once = ours.inspect("twice");
                require(once.contains("\"holds\":1") && ours.tryOnce("twice") == Ours.HELD, once);
                owner.unlock(lock);
                require(ours.inspect("twice").contains("\"locked\":false"), "it is not free again");
                require(ours.tryOnce("twice") == 0, "we do not get in");
                return null;
            });
            suite.check(GROUP, "Redisson's MultiLock takes all or nothing while we hold one of its names", () -> {
                RLock[] locks = {theirs.lock("multi-1"), theirs.lock("multi-2"), theirs.lock("multi-3")};
                RLock all = new RedissonMultiLock(locks);
                Ours.Running holder = ours.hold("multi-2");
                require(!owner.done(() -> all.tryLock(300, TimeUnit.MILLISECONDS)), "it took all");
                require(!locks[0].isLocked() && !locks[2].isLocked(), "it kept some");
                require(holder.end() == 0, "we did not end well");
                require(owner.done(() -> all.tryLock(300, 600_000, TimeUnit.MILLISECONDS)), "it took none");
                require(ours.tryOnce("multi-2") == Ours.HELD, "we got in");
                owner.unlock(all);
                require(ours.tryOnce("multi-2") == 0, "it is not free again");
                return null;
            });
        }
    }

    private static void require(boolean holds, String otherwise) {
        Report.require(holds, otherwise);
    }
}
