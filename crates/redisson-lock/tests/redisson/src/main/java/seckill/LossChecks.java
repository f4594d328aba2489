package seckill;

import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** A lock that was broken open is lost to its holder. */
final class LossChecks {
    private static final String GROUP = "loss";

    private LossChecks() {}

    static void run(Suite suite) throws Exception {
        try (Server server = new Server();
                Theirs theirs = Theirs.on(server);
                Theirs.Owner owner = new Theirs.Owner()) {
            Ours ours = suite.ours(server);
            suite.check(GROUP, "forceUnlock ends our command, and the next one is not disturbed", () -> {
                RLock lock = theirs.lock("broken-open");
                // A third of the lease later we know.
                Ours.Running holder = ours.hold("broken-open", "--lease", "3s");
                Report.require(lock.forceUnlock(), "there was nothing to break open");
                Report.require(owner.done(() -> lock.tryLock(0, 600, TimeUnit.SECONDS)), "it is not free");
                Report.require(holder.process.waitFor(20, TimeUnit.SECONDS), "our command goes on");
                int status = holder.process.exitValue();
                Report.require(status == Ours.LOST, "we ended with " + status);
                Report.require(owner.done(lock::isHeldByCurrentThread), "the next holder lost it");
                owner.unlock(lock);
                return null;
            });
            suite.check(GROUP, "our force-release takes the lock from Redisson and wakes its waiter", () -> {
                RLock lock = theirs.lock("broken-open-3");
                owner.lock(lock);
                try (Theirs.Owner other = new Theirs.Owner()) {
                    Future<?> waiting = other.begin(() -> {
                        lock.lock(10, TimeUnit.MINUTES);
                        return null;
                    });
                    String channel = WaitingChecks.channel("broken-open-3");
                    Report.until("Redisson listens", () -> server.listeners(channel) == 1);
                    Report.require(ours.run("force-release", "broken-open-3", "--yes") == 0, "it failed");
                    waiting.get(20, TimeUnit.SECONDS);
                    Report.require(!owner.done(lock::isHeldByCurrentThread), "the first one still holds it");
                    other.unlock(lock);
                }
                return null;
            });
            suite.check(GROUP, "forceUnlock wakes our waiter", () -> {
                RLock lock = theirs.lock("broken-open-2");
                owner.lock(lock);
                Ours.Running waiter = ours.start("broken-open-2");
                String channel = WaitingChecks.channel("broken-open-2");
                Report.until("we listen", () -> server.listeners(channel) == 1);
                server.ask("SET", "soon", "1", "PX", "5000");
                lock.forceUnlock();
                waiter.entered();
                Report.require(server.number("EXISTS", "soon") == 1, "we were woken by the clock");
                waiter.end();
                return null;
            });
        }
    }
}
