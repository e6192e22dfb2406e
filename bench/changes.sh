#!/bin/bash
# The output plugin: how many changes a second it decodes, beside pgoutput for the same transactions; how fast a consumer
# is while a reader follows a slot, beside no slot; how much WAL is written at wal_level = logical, and with
# REPLICA IDENTITY FULL; and how long after its commit a reader has a transaction, at RATE events a second.
#
#   bench/changes.sh
#
# EVENTS (of a simulated network, default 100000), RUNS (default 3), RATE (default 2000) and PG_CONFIG come from the environment.  The
# extension must be installed, test/server and test/simulator built: make bench does that.  Processor time is of the
# session that decodes, or of the consumer (Linux's schedstat).
set -euo pipefail
EVENTS=${EVENTS:-100000}
RUNS=${RUNS:-3}
RATE=${RATE:-2000}
HERE=$(cd "$(dirname "$0")" && pwd)

# begin SETTINGS [OPTION OF THE STREAM SERVER]...: a server with the extension, and the stream of a simulated network.
begin() {
	local listed=
	# all is read: grep -q would end the pipe, and so the server's success
	! as "$BIN/postgres" --describe-config 2>/dev/null | grep ^output_plugin_libraries >/dev/null ||
		listed="output_plugin_libraries = 'pgoutput, test_decoding, atproto'"
	start_server <<-X
		shared_preload_libraries = 'atproto'
		shared_buffers = 1GB
		max_wal_size = 16GB
		$listed
		$1
	X
	"${PSQL[@]}" -o /dev/null -c "CREATE EXTENSION atproto; SELECT atproto.create_tables('atproto')"
	"$HERE/../test/simulator/simulate" --events "$EVENTS" >"$W/capture"
	"$HERE/../test/server/streamserver" --capture "$W/capture" "${@:2}" --port-file "$W/port" >"$W/server.log" 2>&1 &
	stream=$!
	trap 'kill $stream; cleanup' EXIT
	until [ -s "$W/port" ]; do sleep 0.1; done
}

# seconds of processor time of a process
processor_time() { awk '{printf "%.3f", $1 / 1e9}' "/proc/$1/schedstat"; }

# Follows the stream to its end; sets SECONDS_TAKEN, PROCESSOR, WAL.
consume() {
	local before
	before=$("${PSQL[@]}" -c "SELECT pg_current_wal_insert_lsn() - '0/0'")
	"${PSQL[@]}" -o /dev/null -c 'SET client_min_messages = warning' -c "SELECT atproto.subscribe('bench', 'ws://127.0.0.1:$(cat "$W/port")', cursor => 0, proxy => '')"
	until [ "$("${PSQL[@]}" -c "SELECT coalesce(min(seq), 0) >= $EVENTS FROM atproto.cursor")" = t ]; do sleep 0.05; done
	SECONDS_TAKEN=$("${PSQL[@]}" -c "SELECT extract(epoch FROM c.updated_at - s.connected_at) FROM atproto.cursor c, atproto.stat_subscription s")
	PROCESSOR=$(processor_time "$("${PSQL[@]}" -c "SELECT pid FROM atproto.stat_subscription")")
	WAL=$(($("${PSQL[@]}" -c "SELECT pg_current_wal_insert_lsn() - '0/0'") - before))
}

# One line for a consumer: NAME SETTINGS SQL SLOT
consumer() (
	. "$HERE/server"
	begin "$2"
	"${PSQL[@]}" -o /dev/null -c "$3"
	if [ -n "$4" ]; then
		as "$BIN/pg_recvlogical" -h "$W" -U postgres -d postgres -S "$4" --create-slot -P atproto
		as "$BIN/pg_recvlogical" -h "$W" -U postgres -d postgres -S "$4" --start -n -f /dev/null 2>/dev/null &
		reader=$!
		trap 'kill $stream $reader; cleanup' EXIT
	fi
	consume
	awk -v name="$1" -v n="$EVENTS" -v s="$SECONDS_TAKEN" -v p="$PROCESSOR" -v w="$WAL" \
		'BEGIN {printf "%-44s %8.0f events/s, %8.0f of processor time, %6.0f bytes of WAL an event\n", name, n / s, n / p, w / n}'
)

# Decodes all that a slot has, and prints processor time and number of messages.
decode() { # FUNCTION OPTIONS
	"${PSQL[@]}" <<-SQL
		SELECT pg_backend_pid() AS pid \gset
		\setenv PID :pid
		\! cut -d' ' -f1 /proc/\$PID/schedstat
		SELECT count(*) FROM $1
		\g
		\! cut -d' ' -f1 /proc/\$PID/schedstat
	SQL
}

decoding() (
	. "$HERE/server"
	begin 'wal_level = logical'
	"${PSQL[@]}" -o /dev/null -c "CREATE PUBLICATION p FOR TABLE atproto.record, atproto.repo, atproto.label, atproto.cursor" \
		-c "SELECT pg_create_logical_replication_slot('a', 'atproto'), pg_create_logical_replication_slot('p', 'pgoutput')"
	consume
	changes=$("${PSQL[@]}" -c "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('p', NULL, NULL, 'proto_version', '1', 'publication_names', 'p') WHERE get_byte(data, 0) IN (68, 73, 85)")
	echo "# $(machine); $EVENTS events, $changes changed rows; load before: $(cut -d' ' -f1 /proc/loadavg)"
	for run in $(seq "$RUNS"); do
		for plugin in atproto pgoutput; do
			case $plugin in
				atproto) asked="pg_logical_slot_peek_changes('a', NULL, NULL)" ;;
				*) asked="pg_logical_slot_peek_binary_changes('p', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')" ;;
			esac
			decode "$asked" | awk -v plugin="$plugin" -v changes="$changes" 'NR == 1 {a = $1} NR == 2 {n = $1} NR == 3 {s = ($1 - a) / 1e9}
				END {printf "%-10s %8.0f changed rows a second of processor time, %d messages\n", plugin, changes / s, n}'
		done
	done
)

# The reader stamps each transaction when its last message comes; the message has the time of the commit, taken before the log is flushed.
delay() (
	. "$HERE/server"
	begin "$(printf '%s\n' 'wal_level = logical' 'fsync = on' 'atproto.batch_delay = 5ms')" --rate "$RATE"
	as "$BIN/pg_recvlogical" -h "$W" -U postgres -d postgres -S app --create-slot -P atproto
	mkfifo "$W/messages"
	chmod 666 "$W/messages"
	"${PYTHON:-python3}" -u "$HERE/reader_delay" <"$W/messages" &
	stamps=$!
	as "$BIN/pg_recvlogical" -h "$W" -U postgres -d postgres -S app --start -n -F 0 -f - >"$W/messages" 2>/dev/null &
	reader=$!
	trap 'kill $stream $reader; cleanup' EXIT
	consume
	sleep 1	# the reader has the last transaction long before
	# ends the reader, and with it the messages
	as "$BIN/pg_ctl" -D "$W/data" -m immediate -w stop >/dev/null
	wait "$stamps"
)

decoding
delay
for run in $(seq "$RUNS"); do
	consumer 'wal_level = replica' 'wal_level = replica' 'SELECT 1' ''
	consumer 'wal_level = logical, no slot' 'wal_level = logical' 'SELECT 1' ''
	consumer 'a slot, read' 'wal_level = logical' 'SELECT 1' app
	consumer 'a slot, read; REPLICA IDENTITY FULL' 'wal_level = logical' \
		'ALTER TABLE atproto.record REPLICA IDENTITY FULL; ALTER TABLE atproto.repo REPLICA IDENTITY FULL' app
done
