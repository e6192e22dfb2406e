#!/bin/bash
# Instructions that the consumer takes for an event, counted by valgrind's
# callgrind: the same again and again, whatever else the machine does.  It says
# nothing of time: no cache misses, no waits, no kernel; and since valgrind's
# processor has no instructions for SHA-256, hashing is shown apart, and left out.
#
# The extension must be installed, test/server and test/simulator built: bench/run
# does that.  PG_CONFIG, EVENTS, COPIES, WORKERS come from the environment; TRAFFIC,
# pds or network (see stream.sh); KEEP, a directory for the counts of each process,
# for callgrind_annotate.
set -euo pipefail
EVENTS=${EVENTS:-12000}
COPIES=${COPIES:-6}
TRAFFIC=${TRAFFIC:-pds network}
WORKERS=${WORKERS:-1}
root=$(cd "$(dirname "$0")/.." && pwd)
command -v valgrind >/dev/null || { echo "valgrind is not installed: left out"; exit 0; }
. "$root/bench/server"

start_server <<X
shared_preload_libraries = 'atproto'
shared_buffers = 256MB
max_wal_size = 16GB
checkpoint_timeout = 1h
X
sql() { "${PSQL[@]}" "$@"; }
sql -o /dev/null -c "CREATE EXTENSION atproto" -c "SELECT atproto.create_tables('atproto')"
as "$BIN/pg_ctl" -D "$W/data" -w stop >/dev/null
server_pid=
finish() {
	[ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true
	cleanup
}
trap finish EXIT

count() {	# NAME CAPTURE LAST
	rm -f "$W/port" "$W"/counts.*
	"$root/test/server/streamserver" --capture "$2" --port-file "$W/port" >"$W/server.log" 2>&1 &
	server_pid=$!
	until [ -s "$W/port" ]; do sleep 0.1; done
	as valgrind --quiet --tool=callgrind --trace-children=yes --callgrind-out-file="$W/counts.%p" \
		"$BIN/postgres" -D "$W/data" >"$W/log" 2>&1 &
	until sql -c "SELECT" >/dev/null 2>&1; do sleep 0.5; done
	sql -o /dev/null <<SQL
SELECT atproto.unsubscribe(name) FROM atproto.subscription;
TRUNCATE atproto.record, atproto.repo;
SELECT atproto.subscribe('bench', 'ws://127.0.0.1:$(cat "$W/port")', cursor => 0, proxy => '', workers => $WORKERS);
SQL
	until [ "$(sql -c "SELECT COALESCE(min(seq), 0) >= $3 FROM atproto.cursor WHERE subscription = 'bench'")" = t ]; do sleep 0.5; done
	pids=$(sql -c "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'atproto bench%' ORDER BY backend_start")
	as "$BIN/pg_ctl" -D "$W/data" -m fast -w stop >/dev/null
	kill "$server_pid"
	wait "$server_pid" || true
	server_pid=
	for pid in $pids; do
		# the summary is of the time before the process was forked: what callgrind_annotate believes is the sum
		sed -i -E "s/^summary: .*/summary: $(sed -n 's/^totals: //p' "$W/counts.$pid")/" "$W/counts.$pid"
		# the block function of libcrypto has no name: it is what takes most of its instructions
		callgrind_annotate --inclusive=no --threshold=100 "$W/counts.$pid" 2>/dev/null | tr -d , |
			awk -v name="$1" -v events="$3" '
				/PROGRAM TOTALS/ { total = $1 }
				/libcrypto/ && $1 > hash { hash = $1 }
				END { printf "%s: %.0f instructions an event, and %.0f of hashing\n", name, (total - hash) / events, hash / events }'
		[ -z "${KEEP:-}" ] || { mkdir -p "$KEEP"; cp "$W/counts.$pid" "$KEEP/$1.$pid"; }
	done
}

for traffic in $TRAFFIC; do
	case $traffic in
		pds)
			/usr/bin/python3 "$root/bench/multiply.py" "$COPIES" "$root/test/data/pds.frames.gz" >"$W/capture"
			count pds "$W/capture" $((COPIES * 1600))
			;;
		network)
			"$root/test/simulator/simulate" --events "$EVENTS" --accounts 1000 --no-sign --mix identity=0,account=0 --output "$W/capture"
			count network "$W/capture" "$EVENTS"
			;;
		*)
			echo "there is no traffic \"$traffic\"" >&2
			exit 1
			;;
	esac
done
