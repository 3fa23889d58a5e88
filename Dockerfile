# Headwater as a container image, used by docker-compose.yml.
# Not built by this project's tests: they run where there is no image registry. Tell us if it does not build.

FROM rust:1.95-bookworm AS build
WORKDIR /src
# The image has the compiler that rust-toolchain.toml asks for, but not the components; building needs none of them.
ENV RUSTUP_TOOLCHAIN=1.95.0
COPY Cargo.toml Cargo.lock ./
COPY crates crates
COPY schemas schemas
COPY tests tests
RUN cargo build --release --locked --package headwater

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates libssl3 zlib1g \
    && rm -rf /var/lib/apt/lists/*
# The environment says everything (HEADWATER__...); mount /etc/headwater/headwater.toml to use a file.
COPY --from=build /src/target/release/headwater /usr/local/bin/headwater
USER 65534:65534
# The admin pages, once HEADWATER__ADMIN__LISTEN is 0.0.0.0:9464: by default they are for this container alone.
EXPOSE 9464
# SIGTERM is what Docker sends; Headwater needs up to 25 s then, so give it 30 (stop_grace_period, terminationGracePeriodSeconds).
ENTRYPOINT ["headwater"]
CMD ["run", "--init"]
