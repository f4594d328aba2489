package seckill;

import java.util.LinkedHashMap;
import java.util.Map;
import org.redisson.api.RLock;

/** Any name is the same lock to both, and has the same channel. */
final class NameChecks {
    private static final String GROUP = "names";

    private NameChecks() {}

    private static Map<String, String> names() {
        Map<String, String> names = new LinkedHashMap<>();
        names.put("braces", "order:{7}:pay");
        names.put("unbalanced braces", "}a{b");
        names.put("empty braces", "a{}b");
        names.put("spaces", " two  words ");
        names.put("quotes", "it's \"quoted\" `so` \\ and $HOME");
        names.put("control characters", "a\tb\nc\u0001d\u007f");
        names.put("Chinese", "秒杀:订单");
        names.put("emoji", "🔒:👩‍👩‍👧");
        names.put("512 bytes", "n".repeat(512));
        names.put("512 bytes of Chinese", "锁".repeat(170) + "ab");
        return names;
    }

    static void run(Suite suite) throws Exception {
        try (Server server = new Server();
                Theirs theirs = Theirs.on(server);
                Theirs.Owner owner = new Theirs.Owner()) {
            Ours ours = suite.ours(server);
            names().forEach((what, name) -> suite.check(GROUP, what + ": exclusion and wake-up, both ways", () -> {
                RLock lock = theirs.lock(name);
                owner.lock(lock);
                Report.require(ours.tryOnce(name) == Ours.HELD, "we got in");
                Report.require(ours.inspect(name).contains("\"holds\":1"), ours.inspect(name));
                owner.unlock(lock);
                Ours.Running holder = ours.hold(name, "--lease", "10m");
                Report.require(!owner.done(() -> lock.tryLock()), "Redisson got in");
                Report.require(holder.end() == 0, "we did not end well");
                WaitingChecks.wakesRedisson(server, ours, theirs, owner, name);
                WaitingChecks.wakesUs(server, 1, ours, theirs, owner, name);
                return null;
            }));
        }
    }
}
