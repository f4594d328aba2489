package seckill;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.redisson.Redisson;
import org.redisson.config.Config;

/** A Java process that holds a lock until it is killed, or the suite is. */
public final class Holder {
    private Holder() {}

    /** Starts one, and waits until it holds the lock. */
    static Process start(Server server, String name, long watchdogMs) throws Exception {
        String java = System.getProperty("java.home") + "/bin/java";
        String classes = System.getProperty("java.class.path");
        Process process = Children.start(new ProcessBuilder(
                        java, "-XX:TieredStopAtLevel=1", "-cp", classes, Holder.class.getName(),
                        server.address(), name, String.valueOf(watchdogMs))
                .redirectError(ProcessBuilder.Redirect.DISCARD));
        BufferedReader out = new BufferedReader(new InputStreamReader(process.getInputStream()));
        Report.require("held".equals(out.readLine()), "the other Java process does not get the lock");
        return process;
    }

    public static void main(String[] arguments) throws Exception {
        Config config = new Config().setLockWatchdogTimeout(Long.parseLong(arguments[2]));
        config.useSingleServer().setAddress(arguments[0]);
        Redisson.create(config).getLock(arguments[1]).lock();
        System.out.println("held");
        System.in.read();
        Runtime.getRuntime().halt(0);
    }
}
