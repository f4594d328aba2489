# syntax=docker/dockerfile:1

FROM rust:1.95-bookworm AS build
WORKDIR /build
# `docker build --build-arg FEATURES=otlp .`: with traces.
ARG FEATURES=""
COPY . .
# The server alone: an image is for production. The caches live with the builder, not in
# a layer: after a change only what it touches is compiled again, which the usual trick of
# building the dependencies against an empty main does for them alone. A cache is gone when the
# step ends, hence the copy. `locked`, because two builds at once would break each other's files.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/build/target,sharing=locked \
    cargo build --locked --release -p seckill --features "$FEATURES" \
    && install -D target/release/seckill /out/seckill

FROM debian:bookworm-slim
# Certificates for databases reached over TLS; the builder has them, so no package manager here.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/seckill /usr/local/bin/
# A number, so that an orchestrator can see that it is not root. The program handles SIGTERM and
# starts no other process when the URLs are set, so it can be PID 1 by itself.
USER 10001:10001
# Another address, or port, is another value; the health check follows it.
ENV SECKILL_LISTEN=0.0.0.0:8080
EXPOSE 8080
# Liveness, not readiness: some orchestrators restart what is unhealthy, and a Redis that is away
# is no reason to restart every server. bash speaks HTTP well enough that no curl is needed.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 CMD ["bash", "-c", \
    "host=${SECKILL_LISTEN%:*} && case $host in 0.0.0.0 | '[::]') host=127.0.0.1 ;; esac && host=${host#[} && exec 3<>\"/dev/tcp/${host%]}/${SECKILL_LISTEN##*:}\" && printf 'GET %s/healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' \"$SECKILL_BASE_PATH\" >&3 && read -r -t 2 _ status _ <&3 && [[ $status == 200 ]]"]
ENTRYPOINT ["seckill"]
CMD ["serve"]
