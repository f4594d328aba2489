package seckill;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A redis-server of our own, on a free port, with nothing on disk. */
final class Server implements AutoCloseable {
    /** Stops the server when the other end of its standard input is closed: also when the suite is killed. */
    private static final String WATCHED =
            "trap '' INT TERM; redis-server \"$@\" >/dev/null & cat >/dev/null; kill -9 $!; rm -rf \"$DIR\"";

    final int port;
    private final Process process;
    /** Removed with the server. */
    final Path directory;
    private final Connection connection;

    Server(String... more) throws Exception {
        port = freePort();
        directory = Files.createTempDirectory("seckill-redisson-");
        List<String> command = new ArrayList<>(List.of("sh", "-c", WATCHED, "redis-server"));
        command.addAll(List.of("--port", String.valueOf(port), "--bind", "127.0.0.1", "--save", ""));
        command.addAll(List.of("--dir", directory.toString()));
        command.addAll(List.of(more));
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().put("DIR", directory.toString());
        builder.redirectError(ProcessBuilder.Redirect.DISCARD);
        builder.redirectOutput(ProcessBuilder.Redirect.DISCARD);
        process = builder.start();
        Connection[] made = new Connection[1];
        Report.until("redis-server answers", () -> {
            Report.require(process.isAlive(), "redis-server does not start");
            try {
                made[0] = new Connection(port);
                return "PONG".equals(made[0].ask("PING"));
            } catch (IOException notYet) {
                return false;
            }
        });
        connection = made[0];
    }

    /** One that a cluster's bus can use, too: 10,000 above it there is a port as well. */
    private static int freePort() throws IOException {
        while (true) {
            try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                if (socket.getLocalPort() < 50_000) {
                    return socket.getLocalPort();
                }
            }
        }
    }

    String address() {
        return "redis://127.0.0.1:" + port;
    }

    synchronized Object ask(String... words) throws IOException {
        return connection.ask(words);
    }

    long number(String... words) throws IOException {
        return (Long) ask(words);
    }

    /** How many subscriptions a channel has, plain and sharded ones. */
    long listeners(String channel) throws IOException {
        return subscriptions("NUMSUB", channel) + subscriptions("SHARDNUMSUB", channel);
    }

    /** kind: NUMSUB or SHARDNUMSUB. */
    long subscriptions(String kind, String channel) throws IOException {
        return (Long) ((List<?>) ask("PUBSUB", kind, channel)).get(1);
    }

    @Override
    public void close() throws IOException {
        connection.close();
        process.getOutputStream().close();
        try {
            process.waitFor();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** As much of the protocol as the suite needs. */
    static final class Connection implements AutoCloseable {
        private final Socket socket;
        private final InputStream in;

        Connection(int port) throws IOException {
            socket = new Socket(InetAddress.getLoopbackAddress(), port);
            socket.setTcpNoDelay(true);
            in = new BufferedInputStream(socket.getInputStream());
        }

        Object ask(String... words) throws IOException {
            StringBuilder text = new StringBuilder("*" + words.length + "\r\n");
            for (String word : words) {
                text.append('$').append(word.getBytes(StandardCharsets.UTF_8).length);
                text.append("\r\n").append(word).append("\r\n");
            }
            OutputStream out = socket.getOutputStream();
            out.write(text.toString().getBytes(StandardCharsets.UTF_8));
            out.flush();
            return answer();
        }

        Object answer() throws IOException {
            String line = line();
            String rest = line.substring(1);
            switch (line.charAt(0)) {
                case '+':
                    return rest;
                case ':':
                    return Long.valueOf(rest);
                case '$':
                    return rest.equals("-1") ? null : bytes(Integer.parseInt(rest));
                case '*':
                    List<Object> all = new ArrayList<>();
                    for (int left = Integer.parseInt(rest); left > 0; left--) {
                        all.add(answer());
                    }
                    return all;
                default:
                    throw new IOException(rest);
            }
        }

        private String bytes(int length) throws IOException {
            byte[] bytes = in.readNBytes(length);
            in.readNBytes(2);
            return new String(bytes, StandardCharsets.UTF_8);
        }

        private String line() throws IOException {
            StringBuilder line = new StringBuilder();
            for (int next = in.read(); next != '\n'; next = in.read()) {
                if (next < 0) {
                    throw new IOException("the connection is closed");
                }
                if (next != '\r') {
                    line.append((char) next);
                }
            }
            return line.toString();
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }
}
