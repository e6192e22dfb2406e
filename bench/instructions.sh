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
PG_CONFIG=${PG_CONFIG:-pg_config}
bin=$("$PG_CONFIG" --bindir)
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d /tmp/atpb.XXXXXX)
command -v valgrind >/dev/null || { echo "valgrind is not installed: left out"; exit 0; }

if [ "$(id -u)" = 0 ]; then
	chown postgres: "$work"
	as() { runuser -u postgres -- "$@"; }
else
	as() { "$@"; }
fi
server_pid=
finish() {
	[ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true
	as "$bin/pg_ctl" -D "$work/data" -m immediate -w stop >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
cd "$work"

as "$bin/initdb" -D "$work/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 >/dev/null
as tee -a "$work/data/postgresql.conf" >/dev/null <<CONF
listen_addresses = ''
unix_socket_directories = '$work'
shared_preload_libraries = 'atproto'
shared_buffers = 256MB
max_wal_size = 16GB
checkpoint_timeout = 1h
autovacuum = off
fsync = off
jit = off
CONF
sql() { "$bin/psql" -h "$work" -U postgres -XqAt -v ON_ERROR_STOP=1 "$@"; }
as "$bin/pg_ctl" -D "$work/data" -l "$work/log" -w start >/dev/null
sql -o /dev/null -c "CREATE EXTENSION atproto" -c "SELECT atproto.create_tables('atproto')"
as "$bin/pg_ctl" -D "$work/data" -l "$work/log" -w stop >/dev/null

count() {	# NAME CAPTURE LAST
	rm -f "$work/port" "$work"/counts.*
	"$root/test/server/streamserver" --capture "$2" --port-file "$work/port" >"$work/server.log" 2>&1 &
	server_pid=$!
	until [ -s "$work/port" ]; do sleep 0.1; done
	as valgrind --quiet --tool=callgrind --trace-children=yes --callgrind-out-file="$work/counts.%p" \
		"$bin/postgres" -D "$work/data" >"$work/log" 2>&1 &
	until sql -c "SELECT" >/dev/null 2>&1; do sleep 0.5; done
	sql -o /dev/null <<SQL
SELECT atproto.unsubscribe(name) FROM atproto.subscription;
TRUNCATE atproto.record, atproto.repo;
SELECT atproto.subscribe('bench', 'ws://127.0.0.1:$(cat "$work/port")', cursor => 0, proxy => '', workers => $WORKERS);
SQL
	until [ "$(sql -c "SELECT COALESCE(min(seq), 0) >= $3 FROM atproto.cursor WHERE subscription = 'bench'")" = t ]; do sleep 0.5; done
	pids=$(sql -c "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'atproto bench%' ORDER BY backend_start")
	as "$bin/pg_ctl" -D "$work/data" -m fast -w stop >/dev/null
	kill "$server_pid"
	wait "$server_pid" || true
	server_pid=
	for pid in $pids; do
		# the summary is of the time before the process was forked: what callgrind_annotate believes is the sum
		sed -i -E "s/^summary: .*/summary: $(sed -n 's/^totals: //p' "$work/counts.$pid")/" "$work/counts.$pid"
		# the block function of libcrypto has no name: it is what takes most of its instructions
		callgrind_annotate --inclusive=no --threshold=100 "$work/counts.$pid" 2>/dev/null | tr -d , |
			awk -v name="$1" -v events="$3" '
				/PROGRAM TOTALS/ { total = $1 }
				/libcrypto/ && $1 > hash { hash = $1 }
				END { printf "%s: %.0f instructions an event, and %.0f of hashing\n", name, (total - hash) / events, hash / events }'
		[ -z "${KEEP:-}" ] || { mkdir -p "$KEEP"; cp "$work/counts.$pid" "$KEEP/$1.$pid"; }
	done
}

for traffic in $TRAFFIC; do
	case $traffic in
		pds)
			/usr/bin/python3 "$root/bench/multiply.py" "$COPIES" "$root/test/data/pds.frames.gz" >"$work/capture"
			count pds "$work/capture" $((COPIES * 1600))
			;;
		network)
			"$root/test/simulator/simulate" --events "$EVENTS" --accounts 1000 --no-sign --mix identity=0,account=0 --output "$work/capture"
			count network "$work/capture" "$EVENTS"
			;;
		*)
			echo "there is no traffic \"$traffic\"" >&2
			exit 1
			;;
	esac
done
