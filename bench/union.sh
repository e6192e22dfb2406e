#!/bin/bash
# What a second source of the same tables costs: EVENTS events of a simulated network
# (test/simulator, as in bench/stream.sh) from one stream server; from two at the same time,
# as fast as they can, and RATE a second; and from the second one when the first is at its end, so that
# all it brings are duplicates; and of one that wants none of the events, which is received and cut like a duplicate.  CPU time is that of the consumers, without the stream servers and with what
# they do in the database.
#
# The extension must be installed, test/server and test/simulator built: make bench does that.
# PG_CONFIG, EVENTS, RATE, SECONDS_LIVE and RUNS come from the environment.
set -euo pipefail
EVENTS=${EVENTS:-100000}
RATE=${RATE:-1000}
SECONDS_LIVE=${SECONDS_LIVE:-20}
RUNS=${RUNS:-3}
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/bench/server"
. "$root/bench/figures"

start_server <<X
shared_preload_libraries = 'atproto'
shared_buffers = 1GB
max_wal_size = 16GB
checkpoint_timeout = 1h
X
"${PSQL[@]}" -o /dev/null -c "CREATE EXTENSION atproto" -c "SELECT atproto.create_tables('atproto')"
"$root/test/simulator/simulate" --events "$EVENTS" --accounts 1000 --mix identity=0,account=0 --output "$W/capture"

servers=()
finish() {
	stop_servers
	cleanup
}
stop_servers() {
	for pid in "${servers[@]}"; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" || true
	done
	servers=()
}
trap finish EXIT

port_of() {	# NAME OPTIONS: starts a stream server, sets port
	local file=$W/port.$1
	shift
	rm -f "$file"
	"$root/test/server/streamserver" --capture "$W/capture" --port-file "$file" "$@" >>"$W/servers.log" 2>&1 &
	servers+=($!)
	until [ -s "$file" ]; do sleep 0.1; done
	port=$(cat "$file")
}

subscribe() {	# NAME [CURSOR [OPTIONS]]
	echo "SELECT atproto.subscribe('$1', 'ws://127.0.0.1:$port', cursor => ${2:-0}, proxy => ''${3:-});"
}

# Until all have come to an event.
at() {	# SEQ
	until [ "$("${PSQL[@]}" -c "SELECT bool_and(COALESCE(seq, 0) >= $1) FROM atproto.stat_subscription")" = t ]; do sleep 0.1; done
}

# CPU time of the consumers of these subscriptions so far, in seconds.
cpu() {	# PATTERN
	for pid in $("${PSQL[@]}" -c "SELECT pid FROM pg_stat_activity WHERE application_name ~ '^atproto ($1)\$'"); do
		cpu_seconds <"/proc/$pid/stat"
	done | awk '{s += $1} END {print s}'
}

empty() {
	"${PSQL[@]}" -o /dev/null -c "SELECT atproto.unsubscribe(name) FROM atproto.subscription"
	until [ "$("${PSQL[@]}" -c "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'atproto consumer'")" = 0 ]; do sleep 0.1; done
	"${PSQL[@]}" -o /dev/null -c "TRUNCATE atproto.record, atproto.repo" -c CHECKPOINT
	stop_servers
}

# Sets used: CPU time of so many subscriptions at once.
follow() {	# N LAST OPTIONS
	local n=$1 last=$2 i sql=
	shift 2
	empty
	for ((i = 0; i < n; i++)); do
		port_of "$i" "$@"
		sql+=$(subscribe "s$i")
	done
	"${PSQL[@]}" -o /dev/null -c "$sql"
	at "$last"
	used=$(cpu 's.*')
}

# Sets used: CPU time of the first half of the events, of one more subscription that has all of them; both
# halves less the second one, since what it costs to begin is no event's.
first_half() {	# OPTIONS
	local from
	used=0
	for from in 0 $((EVENTS / 2)); do
		port_of more
		"${PSQL[@]}" -o /dev/null -c "$(subscribe more "$from" "$1")"
		at "$EVENTS"
		used=$(cpu more | awk -v before="$used" '{print $1 - before}')
		"${PSQL[@]}" -o /dev/null -c "SELECT atproto.unsubscribe('more')"
		until [ "$("${PSQL[@]}" -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'atproto more'")" = 0 ]; do sleep 0.1; done
	done
	used=$(awk -v used="$used" 'BEGIN {print -used}')
}

machine
ones=() twos=() lives=() live_twos=() duplicates=() slices=()
live=$((RATE * SECONDS_LIVE))
for ((i = 0; i < RUNS; i++)); do
	follow 1 "$EVENTS"
	ones+=("$used")
	follow 2 "$EVENTS"
	twos+=("$used")
	follow 1 "$live" --rate "$RATE"
	lives+=("$used")
	follow 2 "$live" --rate "$RATE"
	live_twos+=("$used")
	follow 1 "$EVENTS"
	first_half ""
	duplicates+=("$used")
	empty
	first_half ", slice => '0/1000000'"
	slices+=("$used")
done
awk -v events="$EVENTS" -v rate="$RATE" -v live="$live" -v one="$(median "${ones[@]}")" -v two="$(median "${twos[@]}")" \
	-v live_one="$(median "${lives[@]}")" -v live_two="$(median "${live_twos[@]}")" -v later="$(median "${duplicates[@]}")" -v slice="$(median "${slices[@]}")" 'BEGIN {
	printf "%d events, CPU time: one source %.2f s, two at once %.2f s: %.2f times\n", events, one, two, two / one
	printf "%d events at %d a second: one %.2f s, two %.2f s: %.2f times\n", live, rate, live_one, live_two, live_two / live_one
	printf "a duplicate: %.2f us; of another slice: %.2f us\n", later * 2e6 / events, slice * 2e6 / events
}'
