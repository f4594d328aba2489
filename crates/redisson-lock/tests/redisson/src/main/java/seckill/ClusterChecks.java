package seckill;

import java.util.ArrayList;
import java.util.List;
import org.redisson.api.RLock;

/**
 * Three masters. Before 3.19 Redisson hears and tells releases as plain messages, since then as sharded ones where
 * it finds out that there are any; 3.27 does when the master that it asks first happens to serve slot 0.
 */
final class ClusterChecks {
    private static final String GROUP = "cluster";
    private static final int SLOTS = 16_384;
    /** By the node that has its slot. */
    private static final String[] NAMES = {"b", "c", "a"};

    private ClusterChecks() {}

    static void run(Suite suite) throws Exception {
        List<Server> nodes = new ArrayList<>();
        try {
            start(nodes);
            checks(suite, nodes, null);
            if (hasModes()) {
                checks(suite, nodes, "OFF");
            }
        } finally {
            for (Server node : nodes) {
                node.close();
            }
        }
    }

    private static boolean hasModes() {
        try {
            Class.forName("org.redisson.config.ShardedSubscriptionMode");
            return true;
        } catch (ClassNotFoundException error) {
            return false;
        }
    }

    private static void start(List<Server> nodes) throws Exception {
        for (int index = 0; index < NAMES.length; index++) {
            Server node = new Server("--cluster-enabled", "yes", "--cluster-node-timeout", "5000");
            nodes.add(node);
            String first = String.valueOf(SLOTS * index / NAMES.length);
            String last = String.valueOf(SLOTS * (index + 1) / NAMES.length - 1);
            node.ask("CLUSTER", "ADDSLOTSRANGE", first, last);
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", String.valueOf(index + 1));
        }
        for (Server node : nodes.subList(1, nodes.size())) {
            nodes.get(0).ask("CLUSTER", "MEET", "127.0.0.1", String.valueOf(node.port));
        }
        for (Server node : nodes) {
            Report.until("the cluster is ready", () -> {
                String info = node.ask("CLUSTER", "INFO").toString();
                return info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
                        && info.contains("cluster_slots_ok:" + SLOTS);
            });
        }
    }

    private static void checks(Suite suite, List<Server> nodes, String mode) throws Exception {
        String url = "redis+cluster://127.0.0.1:" + nodes.get(0).port + ",127.0.0.1:" + nodes.get(1).port;
        Ours ours = new Ours(suite.program, url);
        String with = mode == null ? "" : " (shardedSubscriptionMode " + mode + ", as before 3.19)";
        try (Theirs theirs = Theirs.onCluster(nodes, mode);
                Theirs.Owner owner = new Theirs.Owner()) {
            suite.check(GROUP, "exclusion, both ways, on each of three masters" + with, () -> {
                for (String name : NAMES) {
                    RLock lock = theirs.lock(name);
                    owner.lock(lock);
                    Report.require(ours.tryOnce(name) == Ours.HELD, "we got in");
                    owner.unlock(lock);
                    Ours.Running holder = ours.hold(name);
                    Report.require(!owner.done(() -> lock.tryLock()), "Redisson got in");
                    Report.require(holder.end() == 0, "we did not end well");
                }
                return null;
            });
            suite.check(GROUP, "the fair lock: ours and Redisson's enter in order" + with, () -> {
                Server node = nodes.get(0);
                FairChecks.order(node, node.directory.resolve("order"), ours, theirs, NAMES[0]);
                return null;
            });
            for (int index = 0; index < NAMES.length; index++) {
                Server node = nodes.get(index);
                String name = NAMES[index];
                suite.check(GROUP, "our release wakes Redisson on master " + (index + 1) + with, () -> {
                    return WaitingChecks.wakesRedisson(node, ours, theirs, owner, name);
                });
                suite.check(GROUP, "Redisson's release wakes us on master " + (index + 1) + with, () -> {
                    return WaitingChecks.wakesUs(node, 2, ours, theirs, owner, name);
                });
            }
        }
    }
}
