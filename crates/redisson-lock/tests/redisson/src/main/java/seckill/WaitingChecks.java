package seckill;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** Who waits sleeps until it is told. */
final class WaitingChecks {
    private static final String GROUP = "waiting";

    private WaitingChecks() {}

    static void run(Suite suite) throws Exception {
        try (Server server = new Server();
                Theirs theirs = Theirs.on(server);
                Theirs.Owner owner = new Theirs.Owner()) {
            Ours ours = suite.ours(server);
            // The leases are of ten minutes: nothing but the message ends a wait.
            suite.check(GROUP, "our release wakes Redisson", () -> {
                return wakesRedisson(server, ours, theirs, owner, "wake-theirs");
            });
            suite.check(GROUP, "Redisson's release wakes us", () -> {
                return wakesUs(server, 1, ours, theirs, owner, "wake-ours");
            });
            suite.check(GROUP, "nobody polls: in three seconds two waiters send nothing", () -> {
                Ours.Running holder = ours.hold("quiet", "--lease", "10m");
                Ours.Running waiter = ours.start("quiet");
                Future<?> other = owner.begin(() -> {
                    theirs.lock("quiet").lockInterruptibly(10, TimeUnit.MINUTES);
                    return null;
                });
                Report.until("both listen", () -> server.listeners(channel("quiet")) == 2);
                List<String> sent = commandsAbout(server, "quiet", 3_000);
                Report.require(sent.size() == 1, "more than our own look: " + sent);
                Report.require(!waiter.isInside() && !other.isDone(), "somebody got in");
                other.cancel(true);
                waiter.process.destroy();
                holder.end();
                return null;
            });
        }
    }

    /** What is sent about a lock in a while, as MONITOR has it. */
    private static List<String> commandsAbout(Server server, String name, long milliseconds) throws Exception {
        List<String> sent = new CopyOnWriteArrayList<>();
        try (Server.Connection monitor = new Server.Connection(server.port)) {
            // What is under way: a waiter tries again when its subscription is confirmed.
            Thread.sleep(500);
            monitor.ask("MONITOR");
            Thread reader = new Thread(() -> {
                try {
                    while (true) {
                        String line = monitor.answer().toString();
                        if (line.contains(name)) {
                            sent.add(line);
                        }
                    }
                } catch (Exception closed) {
                    // The end of the while.
                }
            });
            reader.start();
            Thread.sleep(milliseconds);
            // Shows that all of it is heard.
            server.ask("EXISTS", name);
            Report.until("our own look is heard", () -> !sent.isEmpty());
        }
        return sent;
    }

    /** How long it took, and which kind of message Redisson listened to. */
    static String wakesRedisson(Server server, Ours ours, Theirs theirs, Theirs.Owner owner, String name)
            throws Exception {
        RLock lock = theirs.lock(name);
        Ours.Running holder = ours.hold(name, "--lease", "10m");
        Future<Long> entered = owner.begin(() -> {
            lock.lock(10, TimeUnit.MINUTES);
            return System.nanoTime();
        });
        Report.until("Redisson listens", () -> server.listeners(channel(name)) == 1);
        boolean sharded = server.subscriptions("SHARDNUMSUB", channel(name)) == 1;
        Report.require(!entered.isDone(), "Redisson got in while we held it");
        long released = System.nanoTime();
        holder.end();
        long took = entered.get(20, TimeUnit.SECONDS) - released;
        owner.unlock(lock);
        return TimeUnit.NANOSECONDS.toMillis(took) + " ms, the end of our process included, by a "
                + (sharded ? "sharded" : "plain") + " message";
    }

    /** The same the other way round. subscriptions: how many a waiter of ours has. */
    static String wakesUs(
            Server server, int subscriptions, Ours ours, Theirs theirs, Theirs.Owner owner, String name)
            throws Exception {
        RLock lock = theirs.lock(name);
        owner.lock(lock);
        Ours.Running waiter = ours.start(name);
        Report.until("we listen", () -> server.listeners(channel(name)) == subscriptions);
        Report.require(!waiter.isInside(), "we got in while Redisson held it");
        // We also try by the clock, every ten seconds. This key lives for five.
        String soon = "{" + name + "}:soon";
        server.ask("SET", soon, "1", "PX", "5000");
        long released = System.nanoTime();
        owner.unlock(lock);
        waiter.entered();
        long took = System.nanoTime() - released;
        Report.require(server.number("EXISTS", soon) == 1, "we were woken by the clock");
        Report.require(waiter.end() == 0, "we did not end well");
        return TimeUnit.NANOSECONDS.toMillis(took) + " ms, the start of a shell included";
    }

    static String channel(String name) {
        String inBraces = name.contains("{") ? name : "{" + name + "}";
        return "redisson_lock__channel:" + inBraces;
    }
}
