package seckill;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** `seckill lock`, as processes. */
final class Ours {
    /** Somebody else holds the lock. */
    static final int HELD = 75;
    /** The lock was lost while the command ran. */
    static final int LOST = 70;

    /** A command that says that it runs, and then runs until it is told to end, or the suite is killed. */
    private static final String UNTIL_TOLD =
            "trap 'exit 0' TERM; echo \"in ${SECKILL_LOCK_FENCE-}\"; read end; exit 0";

    final String program;
    private final String redisUrl;

    Ours(String program, String redisUrl) {
        this.program = program;
        this.redisUrl = redisUrl;
    }

    private ProcessBuilder command(String... arguments) {
        List<String> command = new ArrayList<>(List.of(program, "lock"));
        command.addAll(List.of(arguments));
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().put("REDIS_URL", redisUrl);
        builder.redirectError(ProcessBuilder.Redirect.DISCARD);
        return builder;
    }

    /** Tries once, with nothing to do. The exit status. */
    int tryOnce(String name) throws Exception {
        return run("run", name, "--wait", "0s", "--", "true");
    }

    /** Runs `seckill lock` with these arguments to its end. The exit status. */
    int run(String... arguments) throws Exception {
        Process process = Children.start(command(arguments).redirectOutput(ProcessBuilder.Redirect.DISCARD));
        return process.waitFor();
    }

    /** Runs `seckill lock` with these arguments to its end. What it says. */
    String says(String... arguments) throws Exception {
        Process process = Children.start(command(arguments));
        return new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    }

    String inspect(String name) throws Exception {
        return says("inspect", name, "--json").replaceAll("\\s", "");
    }

    /** Starts a holder, or who wants to be one. */
    Running start(String name, String... options) throws IOException {
        List<String> arguments = new ArrayList<>(List.of("run", name));
        arguments.addAll(List.of(options));
        arguments.addAll(List.of("--", "sh", "-c", UNTIL_TOLD));
        return new Running(Children.start(command(arguments.toArray(String[]::new))));
    }

    /** Starts a holder and waits until it is one. */
    Running hold(String name, String... options) throws Exception {
        Running running = start(name, options);
        running.entered();
        return running;
    }

    /** A process that holds a lock or waits for it. */
    static final class Running {
        final Process process;
        private final BufferedReader out;

        Running(Process process) {
            this.process = process;
            this.out = new BufferedReader(
                    new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        }

        /** Waits until it is inside. Its fencing token, if it has one. */
        String entered() throws Exception {
            String line = out.readLine();
            Report.require(line != null && line.startsWith("in "), "ours did not get in: " + line);
            return line.substring(3);
        }

        boolean isInside() throws Exception {
            return out.ready();
        }

        /** Tells its command to end. The exit status. */
        int end() throws Exception {
            process.destroy();
            Report.require(process.waitFor(20, TimeUnit.SECONDS), "ours does not end");
            return process.exitValue();
        }
    }
}
