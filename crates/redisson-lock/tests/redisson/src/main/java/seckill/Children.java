package seckill;

import java.io.IOException;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** The processes that the suite has started. They end with it, however it ends. */
final class Children {
    private static final Set<Process> RUNNING = ConcurrentHashMap.newKeySet();

    private Children() {}

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> RUNNING.forEach(Children::end)));
    }

    static Process start(ProcessBuilder builder) throws IOException {
        Process process = builder.start();
        RUNNING.add(process);
        process.onExit().thenAccept(RUNNING::remove);
        return process;
    }

    private static void end(Process process) {
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly();
    }
}
