package seckill;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** A Java process that holds a lock, or waits for it, until it is killed, or the suite is. */
public final class Holder {
    private Holder() {}

    /** Starts one, and waits until it holds the lock. */
    static Process start(Server server, String name, long watchdogMs) throws Exception {
        Process process = begin(server, name, watchdogMs, false);
        BufferedReader out = new BufferedReader(new InputStreamReader(process.getInputStream()));
        Report.require("held".equals(out.readLine()), "the other Java process does not get the lock");
        return process;
    }

    /** Starts one. */
    static Process begin(Server server, String name, long watchdogMs, boolean fair) throws Exception {
        String java = System.getProperty("java.home") + "/bin/java";
        String classes = System.getProperty("java.class.path");
        return Children.start(new ProcessBuilder(
                        java, "-XX:TieredStopAtLevel=1", "-cp", classes, Holder.class.getName(),
                        server.address(), name, String.valueOf(watchdogMs), String.valueOf(fair))
                .redirectError(ProcessBuilder.Redirect.DISCARD));
    }

    public static void main(String[] arguments) throws Exception {
        Config config = new Config().setLockWatchdogTimeout(Long.parseLong(arguments[2]));
        config.useSingleServer().setAddress(arguments[0]);
        RedissonClient client = Redisson.create(config);
        boolean fair = Boolean.parseBoolean(arguments[3]);
        RLock lock = fair ? client.getFairLock(arguments[1]) : client.getLock(arguments[1]);
        lock.lock();
        System.out.println("held");
        System.in.read();
        Runtime.getRuntime().halt(0);
    }
}
