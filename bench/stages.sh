#!/bin/bash
# What each stage costs when a subscription has workers, and how far more processors would take it: a simulated
# network's events (test/simulator, of 10,000 accounts), with and without TLS.
#
# The process that receives does TCP, TLS, WebSocket, and the head of each message; the workers do the rest.  CPU
# time of both, from a process's start on, by an event; medians of RUNS, which take turns.  Then, on paper: with P
# processors for these processes alone, no more events can come than one receiving process takes, nor than P
# processors have time for; what locks, the log, memory and the sender cost beyond that is not in it.
#
#   bench/stages.sh            print the results
#   bench/stages.sh --write    also put them into bench/notes
#
# The extension must be installed, test/server and test/simulator built: make bench does that.  PG_CONFIG, EVENTS,
# RUNS, WORKERS, SEED come from the environment.
set -euo pipefail
EVENTS=${EVENTS:-200000}
RUNS=${RUNS:-3}
WORKERS=${WORKERS:-1 2 3}
SEED=${SEED:-1}
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/server"
. "$HERE/figures"

start_server <<X
shared_preload_libraries = 'atproto'
shared_buffers = 1GB
max_wal_size = 16GB
checkpoint_timeout = 1h
X
"${PSQL[@]}" -o /dev/null -c "CREATE EXTENSION atproto" -c "SELECT atproto.create_tables('atproto')"
LOAD=$(cut -d' ' -f1 /proc/loadavg)
"$HERE/../test/simulator/simulate" --seed "$SEED" --events "$EVENTS" --accounts 10000 --mix identity=0,account=0 --output "$W/capture"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$W/key" -out "$W/cert" -days 2 \
	-subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
chmod a+r "$W/cert"
servers=
trap 'kill $servers 2>/dev/null || true; cleanup' EXIT
for way in ws wss; do
	tls=()
	[ "$way" = ws ] || tls=(--tls "$W/cert" "$W/key")
	"$HERE/../test/server/streamserver" --capture "$W/capture" "${tls[@]}" --port-file "$W/$way" >"$W/$way.log" 2>&1 &
	servers+=" $!"
	until [ -s "$W/$way" ]; do
		kill -0 $! || { cat "$W/$way.log" >&2; exit 1; }
		sleep 0.1
	done
done

cpu_of() {	# PATTERN
	for pid in $("${PSQL[@]}" -c "SELECT pid FROM pg_stat_activity WHERE application_name LIKE '$1'"); do
		cpu_seconds <"/proc/$pid/stat"
	done | awk '{s += $1} END {print s + 0}'
}

# A line of "receiving others", in seconds, into $W/WAY.WORKERS.
run() {	# WAY WORKERS
	local ca='' receiving all
	[ "$1" = ws ] || ca=", ca_file => '$W/cert'"
	"${PSQL[@]}" -o /dev/null <<SQL
SELECT atproto.unsubscribe(name) FROM atproto.subscription;
TRUNCATE atproto.record, atproto.repo;
CHECKPOINT;
SELECT atproto.subscribe('bench', '$1://localhost:$(cat "$W/$1")', cursor => 0, proxy => '', workers => $2$ca);
DO \$\$
BEGIN
	FOR i IN 1 .. 60000 LOOP
		EXIT WHEN (SELECT min(seq) FROM atproto.cursor WHERE subscription = 'bench') = $EVENTS;
		COMMIT;
		PERFORM pg_sleep(0.01);
	END LOOP;
	IF (SELECT min(seq) FROM atproto.cursor WHERE subscription = 'bench') <> $EVENTS OR (SELECT drops FROM atproto.stat_subscription) <> '{}' THEN
		RAISE 'the stream did not come to its end in one connection';
	END IF;
END
\$\$;
SQL
	receiving=$(cpu_of 'atproto bench')
	all=$(cpu_of 'atproto bench%')
	awk "BEGIN {print $receiving, $all - $receiving}" >>"$W/$1.$2"
}

column() {	# WAY WORKERS N: the median, in microseconds an event
	# shellcheck disable=SC2046 # numbers
	median $(awk -v n="$3" -v events="$EVENTS" '{printf "%.2f ", $n * 1e6 / events}' "$W/$1.$2")
}

for ((i = 0; i < RUNS; i++)); do
	for workers in $WORKERS; do
		for way in ws wss; do
			run "$way" "$workers"
		done
	done
done

{
	echo "## Stages"
	echo
	echo "\`EVENTS=$EVENTS RUNS=$RUNS bench/stages.sh\`: $(machine); load of the machine before it: $LOAD. Microseconds of CPU time for an event of a simulated network ($(($(stat -c %s "$W/capture") / EVENTS)) bytes), from a process's start on."
	echo
	echo "| | the process that receives | and the workers together |"
	echo "|---|---|---|"
	for workers in $WORKERS; do
		for way in ws wss; do
			name="$workers workers"
			[ "$workers" != 1 ] || name="one process does it all"
			echo "| $name, $([ "$way" = ws ] && echo plain || echo TLS) | $(column "$way" "$workers" 1) | $([ "$workers" = 1 ] || column "$way" "$workers" 2) |"
		done
	done
	last=${WORKERS##* }
	echo
	echo "On paper, from the costs with $last workers: the most events a second that P processors have time for, and that one process can receive; locks, the log, memory and the sender are not in it."
	echo
	echo "| | 4 | 8 | 16 | receiving alone |"
	echo "|---|---|---|---|---|"
	for way in ws wss; do
		awk -v way="$([ "$way" = ws ] && echo plain || echo TLS)" -v r="$(column "$way" "$last" 1)" -v a="$(column "$way" "$last" 2)" 'BEGIN {
			printf "| %s |", way
			for (p = 4; p <= 16; p *= 2) {
				events = p / (r + a)
				if (events > 1 / r)
					events = 1 / r
				printf " %d,000 |", events * 1000
			}
			printf " %d,000 |\n", 1000 / r
		}'
	done
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
