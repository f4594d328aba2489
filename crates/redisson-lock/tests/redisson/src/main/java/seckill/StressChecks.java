package seckill;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** Many of both at once. What they count has no other protection than the lock. */
final class StressChecks {
    private static final String GROUP = "stress";
    private static final int THREADS = 4;
    private static final int PROCESSES = 4;
    private static final int ROUNDS = 40;

    private StressChecks() {}

    static void run(Suite suite) throws Exception {
        try (Server server = new Server();
                Theirs theirs = Theirs.on(server)) {
            Ours ours = suite.ours(server);
            Path file = server.directory.resolve("count");
            String what = THREADS + " threads of Redisson and " + PROCESSES + " processes of ours, "
                    + ROUNDS + " entries each: the count is exact";
            suite.check(GROUP, what, () -> {
                Files.writeString(file, "0");
                ExecutorService threads = Executors.newFixedThreadPool(THREADS + PROCESSES);
                List<Future<?>> all = new ArrayList<>();
                for (int thread = 0; thread < THREADS; thread++) {
                    all.add(threads.submit(() -> count(theirs.lock("count"), file)));
                }
                String add = "n=$(cat '" + file + "'); echo $((n + 1)) > '" + file + "'";
                for (int process = 0; process < PROCESSES; process++) {
                    all.add(threads.submit(() -> {
                        for (int round = 0; round < ROUNDS; round++) {
                            int status;
                            int tries = 0;
                            do {
                                status = ours.run("run", "count", "--", "sh", "-c", add);
                                // Redis did not answer in time, as on a busy machine: nothing was run.
                            } while (status == 69 && ++tries < 5);
                            Report.require(status == 0, "we ended with " + status);
                        }
                        return null;
                    }));
                }
                for (Future<?> one : all) {
                    one.get(50, TimeUnit.SECONDS);
                }
                threads.shutdownNow();
                int expected = (THREADS + PROCESSES) * ROUNDS;
                String counted = Files.readString(file).trim();
                Report.require(counted.equals(String.valueOf(expected)), counted + " instead of " + expected);
                return null;
            });
        }
    }

    private static Void count(RLock lock, Path file) throws Exception {
        for (int round = 0; round < ROUNDS; round++) {
            lock.lock();
            try {
                int before = Integer.parseInt(Files.readString(file).trim());
                Files.writeString(file, String.valueOf(before + 1));
            } finally {
                lock.unlock();
            }
        }
        return null;
    }
}
