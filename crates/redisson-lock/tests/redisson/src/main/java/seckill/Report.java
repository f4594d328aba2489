package seckill;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** What was checked, and what of it failed. One line a check. */
final class Report {
    /** A check that hangs is one that failed. */
    private static final long LIMIT_SECONDS = 90;

    /** A check. What it returns is printed behind its line; null or empty: nothing. */
    interface Check {
        String run() throws Exception;
    }

    private final ExecutorService threads = Executors.newCachedThreadPool(runnable -> {
        Thread thread = new Thread(runnable);
        thread.setDaemon(true);
        return thread;
    });
    private int passed;
    private int failed;

    void check(String group, String what, Check check) {
        Future<String> running = threads.submit(check::run);
        String problem = null;
        String found = null;
        try {
            found = running.get(LIMIT_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            problem = String.valueOf(error.getCause());
        } catch (TimeoutException error) {
            running.cancel(true);
            problem = "not over after " + LIMIT_SECONDS + " s";
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            problem = "interrupted";
        }
        String end = problem != null ? ": " + problem : found == null || found.isEmpty() ? "" : ": " + found;
        print(problem == null, group + ": " + what + end);
    }

    private synchronized void print(boolean isPassed, String line) {
        passed += isPassed ? 1 : 0;
        failed += isPassed ? 0 : 1;
        System.out.println((isPassed ? "ok    " : "FAIL  ") + line);
    }

    synchronized int failures() {
        return failed;
    }

    synchronized String total() {
        return passed + " of " + (passed + failed) + " checks passed";
    }

    static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }

    /** A question that may throw. */
    interface Question {
        boolean ask() throws Exception;
    }

    /** Asks again and again until the answer is yes. */
    static void until(String what, Question question) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (!question.ask()) {
            require(System.nanoTime() < end, "waited in vain until " + what);
            Thread.sleep(5);
        }
    }
}
