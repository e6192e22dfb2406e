#!/bin/bash
# atproto.check(): how long it takes on tables of a size, as a whole, deep, and by a share.
#
#   REPOS=25000 bench/check.sh      so many repositories of 400 records, each with a link
#
# REPOS (default 2500: a million records) and PG_CONFIG (default pg_config) come from the
# environment.  The extension must be installed.  Times are the server process's on a processor (Linux's schedstat), then by the clock.
set -euo pipefail
REPOS=${REPOS:-2500}
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)

. "$HERE/server"

start_server <<X
shared_buffers = 4GB
work_mem = 64MB
max_wal_size = 8GB
X
echo "load before: $LOAD"
"${PSQL[@]}" -v repos="$REPOS" -f "$HERE/check.sql"
