package seckill;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.api.RLock;

/** The fair lock: one queue for the waiters of both. */
final class FairChecks {
    private static final String GROUP = "fair";
    private static final int EACH = 8;

    private FairChecks() {}

    static void run(Suite suite) throws Exception {
        try (Server server = new Server();
                Theirs theirs = Theirs.on(server)) {
            Ours ours = suite.ours(server);
            suite.check(GROUP, "ours and Redisson's enter in the order in which they came", () -> {
                order(server, server.directory.resolve("order"), ours, theirs, "in-order");
                return null;
            });
            suite.check(GROUP, "waiters of both that were killed are passed over", () -> {
                killed(server, ours, theirs);
                return null;
            });
            String what = EACH + " threads of Redisson beside " + EACH
                    + " processes of ours: each side gets 40 % at least, and the count is exact";
            suite.check(GROUP, what, () -> shares(server, ours, theirs));
        }
    }

    private static void until(Server server, String name, int waiting) throws Exception {
        String queue = "redisson_lock_queue:{" + name + "}";
        Report.until(waiting + " are in the queue", () -> server.number("LLEN", queue) == waiting);
    }

    /** Six waiters, in turn of either, each in the queue before the next one comes. */
    static void order(Server server, Path file, Ours ours, Theirs theirs, String name) throws Exception {
        Files.deleteIfExists(file);
        List<String> expected = new ArrayList<>();
        List<Future<?>> entered = new ArrayList<>();
        ExecutorService threads = Executors.newCachedThreadPool();
        Ours.Running holder = ours.hold(name, "--fair", "--lease", "10m");
        for (int turn = 0; turn < 6; turn++) {
            String who = (turn % 2 == 0 ? "Redisson-" : "ours-") + turn;
            expected.add(who);
            entered.add(threads.submit(() -> {
                if (who.startsWith("ours")) {
                    String note = "echo " + who + " >> '" + file + "'";
                    int status = ours.run("run", name, "--fair", "--lease", "10m", "--", "sh", "-c", note);
                    Report.require(status == 0, "we ended with " + status);
                    return null;
                }
                RLock lock = theirs.client.getFairLock(name);
                lock.lock(10, TimeUnit.MINUTES);
                Files.writeString(file, who + "\n", java.nio.file.StandardOpenOption.CREATE,
                        java.nio.file.StandardOpenOption.APPEND);
                lock.unlock();
                return null;
            }));
            until(server, name, turn + 1);
        }
        holder.end();
        for (Future<?> one : entered) {
            one.get(20, TimeUnit.SECONDS);
        }
        threads.shutdown();
        Report.require(Files.readAllLines(file).equals(expected), Files.readAllLines(file).toString());
    }

    /** The queue: one of Redisson's and one of ours, both killed, then one of each. */
    private static void killed(Server server, Ours ours, Theirs theirs) throws Exception {
        String name = "killed";
        ExecutorService thread = Executors.newSingleThreadExecutor();
        Ours.Running holder = ours.hold(name, "--fair");
        Process theirDead = Holder.begin(server, name, 30_000, true);
        until(server, name, 1);
        Ours.Running ourDead = ours.start(name, "--fair");
        until(server, name, 2);
        Ours.Running next = ours.start(name, "--fair");
        until(server, name, 3);
        Future<Boolean> last = thread.submit(() -> {
            RLock lock = theirs.client.getFairLock(name);
            boolean entered = lock.tryLock(50, 600, TimeUnit.SECONDS);
            if (entered) {
                lock.unlock();
            }
            return entered;
        });
        until(server, name, 4);
        theirDead.destroyForcibly().waitFor();
        ourDead.process.destroyForcibly().waitFor();
        holder.end();
        next.entered();
        Report.require(!last.isDone(), "the last one was first");
        next.end();
        Report.require(last.get(50, TimeUnit.SECONDS), "the last one did not get in");
        thread.shutdown();
    }

    private static String shares(Server server, Ours ours, Theirs theirs) throws Exception {
        Path file = server.directory.resolve("shares");
        Files.writeString(file, "0");
        AtomicBoolean over = new AtomicBoolean();
        AtomicInteger theirEntries = new AtomicInteger();
        AtomicInteger ourEntries = new AtomicInteger();
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<?>> all = new ArrayList<>();
        String add = "n=$(cat '" + file + "'); sleep 0.01; echo $((n + 1)) > '" + file + "'";
        for (int one = 0; one < EACH; one++) {
            all.add(threads.submit(() -> {
                RLock lock = theirs.client.getFairLock("shared");
                while (!over.get()) {
                    lock.lock();
                    int before = Integer.parseInt(Files.readString(file).trim());
                    Thread.sleep(10);
                    Files.writeString(file, String.valueOf(before + 1));
                    lock.unlock();
                    theirEntries.incrementAndGet();
                }
                return null;
            }));
            all.add(threads.submit(() -> {
                while (!over.get()) {
                    int status = ours.run("run", "shared", "--fair", "--", "sh", "-c", add);
                    Report.require(status == 0, "we ended with " + status);
                    ourEntries.incrementAndGet();
                }
                return null;
            }));
        }
        Thread.sleep(12_000);
        over.set(true);
        for (Future<?> one : all) {
            one.get(40, TimeUnit.SECONDS);
        }
        threads.shutdown();
        int total = theirEntries.get() + ourEntries.get();
        String counted = Files.readString(file).trim();
        Report.require(counted.equals(String.valueOf(total)), counted + " instead of " + total);
        int share = 100 * ourEntries.get() / total;
        String found = share + " % of " + total + " entries are ours";
        Report.require(share >= 40 && share <= 60, found);
        return found;
    }
}
