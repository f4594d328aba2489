package seckill;

import java.util.ArrayList;
import java.util.List;
import org.redisson.api.RFencedLock;

/** The tokens of one name grow, whoever gets them. */
final class FencingChecks {
    private static final String GROUP = "fencing";

    private FencingChecks() {}

    static void run(Suite suite) throws Exception {
        try (Server server = new Server();
                Theirs theirs = Theirs.on(server);
                Theirs.Owner owner = new Theirs.Owner()) {
            Ours ours = suite.ours(server);
            for (boolean oursFirst : new boolean[] {false, true}) {
                String who = oursFirst ? "we" : "Redisson";
                suite.check(GROUP, "the tokens grow, where " + who + " took the first one", () -> {
                    String name = "fenced-by-" + who;
                    RFencedLock lock = theirs.client.getFencedLock(name);
                    List<Long> tokens = new ArrayList<>();
                    for (int turn = 0; turn < 6; turn++) {
                        if ((turn % 2 == 0) == oursFirst) {
                            Ours.Running holder = ours.start(name, "--fence");
                            tokens.add(Long.valueOf(holder.entered()));
                            holder.end();
                        } else {
                            tokens.add(owner.done(() -> {
                                long token = lock.lockAndGetToken();
                                lock.unlock();
                                return token;
                            }));
                        }
                    }
                    for (int turn = 1; turn < tokens.size(); turn++) {
                        Report.require(tokens.get(turn) > tokens.get(turn - 1), tokens.toString());
                    }
                    return null;
                });
            }
        }
    }
}
