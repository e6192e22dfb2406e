#!/bin/bash
# How long until an event is visible: RATE events a second for DURATION seconds from the
# simulator, through a WebSocket into committed rows.
#
# The stream server sends event i at (the connection's start) + i / RATE.  Another
# session looks at the cursor every 2 ms; an event is visible when that first
# shows it, so that the figures include up to 2 ms of looking.
#
# The extension must be installed, test/server and test/simulator built: make
# bench does that.  PG_CONFIG, RATE, DURATION, WORKERS and DELAYS, values of
# atproto.batch_delay, come from the environment; each gets a server of its own.
set -euo pipefail
RATE=${RATE:-2000}
DURATION=${DURATION:-20}
WORKERS=${WORKERS:-1}
HERE=$(cd "$(dirname "$0")" && pwd)

# measure DELAY, in a shell of its own: what it starts goes with it
measure() (
	. "$HERE/server"
	events=$((RATE * DURATION))
	start_server <<-X
		fsync = on
		shared_preload_libraries = 'atproto'
		atproto.batch_delay = '$1'
	X
	"${PSQL[@]}" -o /dev/null -c "CREATE EXTENSION atproto" -f "$HERE/latency.sql"
	"$HERE/../test/simulator/simulate" --events "$events" >"$W/capture"
	"$HERE/../test/server/streamserver" --capture "$W/capture" --rate "$RATE" --port-file "$W/port" >"$W/server.log" 2>&1 &
	server=$!
	trap 'kill $server; cleanup' EXIT
	until [ -s "$W/port" ]; do sleep 0.1; done

	echo "# $(machine); $events events at $RATE a second, workers = $WORKERS"
	echo "# fsync = on, atproto.batch_delay = $("${PSQL[@]}" -c "SHOW atproto.batch_delay"); load before: $(cut -d' ' -f1 /proc/loadavg)"
	"${PSQL[@]}" -o /dev/null -c "SELECT atproto.subscribe('bench', 'ws://127.0.0.1:$(cat "$W/port")', cursor => 0, proxy => '', workers => $WORKERS)"
	"${PSQL[@]}" -F ' ' <<SQL
CALL seen.look('SELECT min(seq) >= $events FROM atproto.cursor');
SELECT 'milliseconds until visible: median', round(median), ', 99 %', round(p99), ', 99.9 %', round(p999), ', most', round(most) FROM seen.latency($RATE, 1, $events);
SELECT 'transactions:', batches, ', events in each, on average:', $events / batches FROM atproto.stat_subscription;
SQL
)

for delay in ${DELAYS:-50ms 5ms}; do
	measure "$delay"
done
