#!/bin/bash
# How long erase() takes for a large account, and how long the consumer is behind meanwhile.
#
# The consumer follows RATE events a second of the simulator's network.  The erased account is the account with the most events, so
# that the consumer meets the account while erase() runs, and waits for a piece of erase() as a consumer in use would.  Before each
# run the account gets RECORDS records by SQL.  Another session looks at the cursor every 2 ms (latency.sql): the lag of an event is
# the time from when the stream server was to send the event until this session sees the commit.
#
#   bench/erase.sh            print the results
#   bench/erase.sh --write    also put them into bench/notes
#
# The extension must be installed, test/server and test/simulator built: make bench does that.  PG_CONFIG, RECORDS, RUNS, RATE,
# WORKERS, SECONDS_LIVE (the length of the stream; it must outlast the runs) and QUIET (seconds without erase() before each run, for
# comparison) come from the environment.
set -euo pipefail
RECORDS=${RECORDS:-100000}
RUNS=${RUNS:-3}
RATE=${RATE:-1000}
WORKERS=${WORKERS:-1}
SECONDS_LIVE=${SECONDS_LIVE:-300}
QUIET=${QUIET:-5}
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)

. "$HERE/server"
. "$HERE/figures"

start_server <<X
fsync = on
autovacuum = on
shared_preload_libraries = 'atproto'
shared_buffers = 1GB
max_wal_size = 16GB
checkpoint_timeout = 1h
X
value() { "${PSQL[@]}" -c "$1"; }

"${PSQL[@]}" -o /dev/null -c "CREATE EXTENSION atproto" -f "$HERE/latency.sql" -f "$HERE/took.sql" -c "CREATE TABLE finished ()"
"$HERE/../test/simulator/simulate" --events $((RATE * SECONDS_LIVE)) --accounts 1000 --mix identity=0,account=0 >"$W/capture"
"$HERE/../test/server/streamserver" --capture "$W/capture" --rate "$RATE" --port-file "$W/port" >"$W/server.log" 2>&1 &
server=$!
trap 'kill $server; cleanup' EXIT
until [ -s "$W/port" ]; do
	kill -0 $server || { cat "$W/server.log" >&2; exit 1; }
	sleep 0.1
done
value "SET client_min_messages = warning; SELECT atproto.subscribe('bench', 'ws://127.0.0.1:$(cat "$W/port")', cursor => 0, proxy => '', workers => $WORKERS)" >/dev/null
value "CALL seen.look('SELECT EXISTS (SELECT FROM finished)')" &
looker=$!
trap 'kill $server $looker 2>/dev/null; cleanup' EXIT

reached() {	# SEQ: waits until the tables have this event
	until [ "$(value "SELECT COALESCE(min(seq), 0) >= $1 FROM atproto.cursor")" = t ]; do
		[ "$(value "SELECT drops FROM atproto.stat_subscription")" = '{}' ] || { echo "the connection was dropped" >&2; exit 1; }
		sleep 0.1
	done
}
sent_at() {	# TIME: the number of the last event that the stream server was to send
	value "SELECT floor(extract(epoch FROM '$1'::timestamptz - connected_at) * $RATE)::bigint FROM atproto.stat_subscription"
}
most() {	# FIRST LAST: the greatest lag of these events, in milliseconds
	value "SELECT round(most) FROM seen.latency($RATE, $1, $2)"
}

reached $((RATE * 5))
did=$(value "SELECT did FROM atproto.record JOIN atproto.repo USING (did) WHERE active GROUP BY did ORDER BY count(*) DESC, did LIMIT 1")
for ((i = 0; i < RUNS; i++)); do
	"${PSQL[@]}" -o /dev/null <<SQL
INSERT INTO atproto.record (did, collection, rkey, cid, rev, value)
SELECT '$did', 'app.bsky.feed.like', (1 + n::bigint * 1024)::atproto.tid::text::recordkey, cidlink_of(int8send(n)), '2222222222333',
	jsonb_build_object('\$type', 'app.bsky.feed.like', 'createdAt', '2026-01-01T00:00:00.000Z', 'subject', jsonb_build_object(
		'cid', cidlink_of(int8send(n)), 'uri', 'at://$did/app.bsky.feed.post/3jzfcijpj2z2a'))
FROM generate_series(1::bigint, $RECORDS) n ON CONFLICT DO NOTHING;
VACUUM (ANALYZE) atproto.record;
CHECKPOINT;
SQL
	reached "$(sent_at "$(value 'SELECT clock_timestamp()')")"
	IFS='|' read -r quiet began ended seconds cpu rows left < <("${PSQL[@]}" -v did="$did" <<SQL
SET client_min_messages = error;
SELECT clock_timestamp() AS quiet, pg_sleep($QUIET) AS unused \gset
SELECT count(*) AS rows FROM atproto.record WHERE did = :'did' \gset
SELECT clock_timestamp() AS began, busy() AS began_cpu \gset
CALL atproto.erase(:'did');
SELECT clock_timestamp() AS ended, busy() AS ended_cpu \gset
SELECT :'quiet', :'began', :'ended', extract(epoch FROM :'ended'::timestamptz - :'began'), round((:ended_cpu - :began_cpu)::numeric / 1000, 2), :rows,
	(SELECT count(*) FROM atproto.record WHERE did = :'did' AND rev = '2222222222333');
SQL
	)
	[ "$left" = 0 ] || { echo "$left records of the account remain" >&2; exit 1; }
	first=$(sent_at "$quiet")
	middle=$(sent_at "$began")
	last=$(sent_at "$ended")
	[ "$last" -lt $((RATE * SECONDS_LIVE)) ] || { echo "the stream ended before the runs: make SECONDS_LIVE greater" >&2; exit 1; }
	reached $((last + 1))
	echo "$seconds $cpu $(awk "BEGIN {printf \"%.0f\", $rows / $seconds}") $(most "$first" "$middle") $(most "$middle" $((last + 1)))" >>"$W/runs"
	echo "# run $((i + 1)): $rows records; seconds, CPU time, records a second, lags in ms: $(tail -1 "$W/runs")" >&2
done
value "INSERT INTO finished DEFAULT VALUES"
wait $looker

column() {	# N FORMAT: the median of this column
	# shellcheck disable=SC2046 # numbers
	printf "$2" "$(median $(awk -v n="$1" '{print $n}' "$W/runs"))"
}
{
	echo "## Erasure"
	echo
	echo "\`RECORDS=$RECORDS RUNS=$RUNS RATE=$RATE WORKERS=$WORKERS bench/erase.sh\`: $(machine); load of the machine before it: $LOAD; \`fsync = on\`. \`erase()\` of an account while the consumer takes $RATE events a second, also of this account. The lag is from when an event was to be sent until another session sees the commit. Medians of $RUNS runs."
	echo
	echo "| records of the account | \`erase()\`, by the clock | CPU time of the session | records a second | greatest lag in the $QUIET seconds before | greatest lag while \`erase()\` runs |"
	echo "|---|---|---|---|---|---|"
	echo "| $RECORDS | $(column 1 %.2f) s | $(column 2 %.2f) s | $(column 3 %.0f) | $(column 4 %.0f) ms | $(column 5 %.0f) ms |"
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
