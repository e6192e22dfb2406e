# PostgreSQL with the extension, on the official image.
#
#   docker build -t postgres-atproto .
#   docker run -d --name pg -e POSTGRES_PASSWORD=secret postgres-atproto
#   docker exec -it pg psql -U postgres
#
# then CREATE EXTENSION atproto; and so on, in the database postgres.  For others:
#   docker run ... postgres-atproto -c shared_preload_libraries=atproto -c atproto.databases=mine
#
# The output plugin (doc/use/plugin.md) needs, besides: -c wal_level=logical, and, where the server has this setting,
#   -c output_plugin_libraries=pgoutput,test_decoding,atproto
#
# Another version: --build-arg POSTGRES=18-trixie.  The names of the libraries
# below are those of Debian 13 (trixie).
ARG POSTGRES=17-trixie

FROM postgres:${POSTGRES} AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
    gcc make libcbor-dev libwslay-dev libcurl4-openssl-dev libsecp256k1-dev libc-ares-dev libssl-dev zlib1g-dev libzstd-dev postgresql-server-dev-$PG_MAJOR
COPY . /src
WORKDIR /src
RUN make with_llvm=no && make with_llvm=no DESTDIR=/out install

FROM postgres:${POSTGRES}
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates libcbor0.10 libwslay1 libcurl4t64 libsecp256k1-2 libcares2 libzstd1 libssl3t64 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out /
# By TCP: while the scripts of a new cluster run, the server listens on its socket only.
HEALTHCHECK --interval=10s --timeout=5s --retries=6 \
    CMD pg_isready -q -h 127.0.0.1 -U "${POSTGRES_USER:-postgres}" -d "${POSTGRES_DB:-${POSTGRES_USER:-postgres}}"
# The entry is that of the official image: it starts as root, changes to the user postgres, and becomes the server.
CMD ["postgres", "-c", "shared_preload_libraries=atproto"]
