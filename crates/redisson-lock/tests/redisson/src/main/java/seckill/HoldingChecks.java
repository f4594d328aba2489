package seckill;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** Who lives stays inside beyond the lease, who is killed does not. */
final class HoldingChecks {
    private static final String GROUP = "holding";
    private static final long LEASE_SECONDS = 30;

    private HoldingChecks() {}

    static void run(Suite suite) throws Exception {
        try (Server server = new Server();
                Theirs theirs = Theirs.on(server);
                Theirs.Owner owner = new Theirs.Owner();
                Theirs.Owner other = new Theirs.Owner()) {
            Ours ours = suite.ours(server);
            // At the same time, because each takes longer than a lease.
            Ours.Running ourHolder = ours.hold("renewed-by-us");
            RLock theirLock = theirs.lock("renewed-by-redisson");
            owner.done(() -> {
                theirLock.lock();
                return null;
            });
            long begun = System.nanoTime();
            suite.check(GROUP, "a killed holder of ours keeps Redisson out for its lease, no longer", () -> {
                Ours.Running killed = ours.hold("we-are-killed", "--lease", "2s");
                RLock lock = theirs.lock("we-are-killed");
                killed.process.destroyForcibly().waitFor();
                long left = server.number("PTTL", "we-are-killed");
                Report.require(left > 0 && left <= 2_000, left + " ms left");
                // Its own limit is far beyond the lease.
                Report.require(other.done(() -> lock.tryLock(15, 600, TimeUnit.SECONDS)), "it is still out");
                other.unlock(lock);
                return null;
            });
            suite.check(GROUP, "a killed holder of Redisson's keeps us out for its lease, no longer", () -> {
                Process killed = Holder.start(server, "redisson-is-killed", 2_000);
                Report.require(ours.tryOnce("redisson-is-killed") == Ours.HELD, "we got in");
                Ours.Running waiter = ours.start("redisson-is-killed", "--wait", "15s");
                killed.destroyForcibly().waitFor();
                waiter.entered();
                Report.require(waiter.end() == 0, "we did not end well");
                return null;
            });
            while (System.nanoTime() - begun < TimeUnit.SECONDS.toNanos(LEASE_SECONDS + 3)) {
                Thread.sleep(100);
            }
            suite.check(GROUP, "three seconds after its first lease our holder keeps Redisson out", () -> {
                RLock lock = theirs.lock("renewed-by-us");
                Report.require(!other.done(() -> lock.tryLock()), "Redisson got in");
                Report.require(server.number("PTTL", "renewed-by-us") > 0, "no lease is left");
                Report.require(ourHolder.end() == 0, "we lost it");
                return null;
            });
            suite.check(GROUP, "three seconds after its first lease Redisson's holder keeps us out", () -> {
                Report.require(ours.tryOnce("renewed-by-redisson") == Ours.HELD, "we got in");
                owner.unlock(theirLock);
                Report.require(ours.tryOnce("renewed-by-redisson") == 0, "it is not free again");
                return null;
            });
        }
    }
}
