package seckill;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** The lock beside the real Redisson. Each group of checks has servers of its own, so they run side by side. */
public final class Suite {
    /** A group of checks, which starts what it needs. */
    interface Group {
        void run(Suite suite) throws Exception;
    }

    /** By name, the longest first. */
    private static final Map<String, Group> GROUPS = new LinkedHashMap<>();

    static {
        GROUPS.put("holding", HoldingChecks::run);
        GROUPS.put("fair", FairChecks::run);
        GROUPS.put("stress", StressChecks::run);
        GROUPS.put("cluster", ClusterChecks::run);
        GROUPS.put("waiting", WaitingChecks::run);
        GROUPS.put("names", NameChecks::run);
        GROUPS.put("loss", LossChecks::run);
        GROUPS.put("exclusion", ExclusionChecks::run);
        GROUPS.put("fencing", FencingChecks::run);
        GROUPS.put("pace", Pace::run);
    }

    /** The `seckill` under test, or the program that is in its place. */
    final String program;
    private final Report report = new Report();

    private Suite(String program) {
        this.program = program;
    }

    void check(String group, String what, Report.Check check) {
        report.check(group, what, check);
    }

    Ours ours(Server server) {
        return new Ours(program, server.address());
    }

    public static void main(String[] arguments) throws Exception {
        String version = arguments[0];
        Suite suite = new Suite(arguments[1]);
        List<String> wanted = Arrays.asList(arguments).subList(2, arguments.length);
        for (String name : wanted) {
            if (!GROUPS.containsKey(name)) {
                System.err.println("test-redisson: no group '" + name + "', only " + GROUPS.keySet());
                System.exit(2);
            }
        }
        System.out.println("Redisson " + version + " and " + suite.program);
        long begun = System.nanoTime();
        ExecutorService threads = Executors.newFixedThreadPool(3);
        GROUPS.forEach((name, group) -> {
            if (wanted.isEmpty() ? !name.equals("pace") : wanted.contains(name)) {
                threads.submit(() -> suite.run(name, group));
            }
        });
        threads.shutdown();
        threads.awaitTermination(1, TimeUnit.HOURS);
        long seconds = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - begun);
        System.out.println("Redisson " + version + ": " + suite.report.total() + " in " + seconds + " s");
        System.exit(suite.report.failures() == 0 ? 0 : 1);
    }

    private void run(String name, Group group) {
        try {
            group.run(this);
        } catch (Throwable error) {
            // A method that this version of Redisson lacks, too: a group that did not run is a failure.
            check(name, "its servers start and stop", () -> {
                throw new IllegalStateException(error);
            });
        }
    }
}
