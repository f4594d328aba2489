package seckill;

import java.util.Arrays;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** Redisson's line of the table of `make bench-lock`: no check, so it runs only where it is asked for. */
final class Pace {
    private static final int ROUNDS = 7;
    private static final int PAIRS = 2_000;
    private static final int WAITERS = 50;
    private static final int SECONDS = 5;

    private Pace() {}

    static void run(Suite suite) throws Exception {
        try (Server server = new Server();
                Theirs busy = Theirs.on(server);
                Theirs fresh = Theirs.on(server)) {
            RLock lock = busy.lock("pace");
            double[] rates = new double[ROUNDS];
            // The first rounds warm up.
            for (int round = -3; round < ROUNDS; round++) {
                long begun = System.nanoTime();
                for (int pair = 0; pair < PAIRS; pair++) {
                    lock.lock();
                    lock.unlock();
                }
                if (round >= 0) {
                    rates[round] = PAIRS * 1e9 / (System.nanoTime() - begun);
                }
            }
            Arrays.sort(rates);
            // By a client of its own: that of the rounds goes on renewing for a while after so many of them.
            RLock held = fresh.lock("held");
            held.lock();
            ExecutorService threads = Executors.newFixedThreadPool(WAITERS);
            for (int waiter = 0; waiter < WAITERS; waiter++) {
                threads.submit(() -> {
                    held.lockInterruptibly();
                    held.unlock();
                    return null;
                });
            }
            TimeUnit.SECONDS.sleep(1);
            long before = commands(server);
            TimeUnit.SECONDS.sleep(SECONDS);
            long sent = commands(server) - before - 1;
            held.unlock();
            threads.shutdown();
            threads.awaitTermination(1, TimeUnit.MINUTES);
            System.out.printf("| Redisson, over TCP | %.0f (%.0f–%.0f) | | %d |%n",
                    rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1], sent);
        }
    }

    private static long commands(Server server) throws Exception {
        String info = (String) server.ask("INFO", "stats");
        return Long.parseLong(info.replaceAll("(?s).*total_commands_processed:(\\d+).*", "$1"));
    }
}
