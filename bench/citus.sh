#!/bin/bash
# A simulated stream into tables that Citus distributes to two workers, all of it on this
# machine, against plain tables and against the same with statements: CPU time of the consumer,
# which is the coordinator's part, and of all processes of the workers (servers, that is).  Last of each number of
# shards comes the target without the marks of nodes, one process that writes.
#
#   EVENTS=100000        of 10,000 accounts
#   SHARDS="4 8 16"      of each table, on both workers together
#   APPLY="1 2"          processes that write: the subscription's workers
#   RATE=500             events a second, so that batches are small; without it as fast as they are applied
#   RUNS=3               medians
#
# The PostgreSQL of PG_CONFIG must have Citus (test/citus/build), or there is nothing to be measured.
set -euo pipefail
EVENTS=${EVENTS:-100000}
SHARDS=${SHARDS:-4 8 16}
APPLY=${APPLY:-1 2}
RUNS=${RUNS:-3}
RATE=${RATE:-}
PG_CONFIG=${PG_CONFIG:-pg_config}
bin=$("$PG_CONFIG" --bindir)
root=$(cd "$(dirname "$0")/.." && pwd)
if [ ! -e "$("$PG_CONFIG" --sharedir)/extension/citus.control" ]; then
	echo "this PostgreSQL has no Citus"
	exit 0
fi
work=$(mktemp -d /tmp/atpb.XXXXXX)
if [ "$(id -u)" = 0 ]; then
	chown postgres: "$work"
	as() { runuser -u postgres -- "$@"; }
else
	as() { "$@"; }
fi
server_pid=
finish() {
	[ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true
	for node in 0 1 2; do
		as "$bin/pg_ctl" -D "$work/$node" -m immediate -w stop >/dev/null 2>&1 || true
	done
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
cd "$work"

first=$((20000 + RANDOM % 10000))
node_sql() { "$bin/psql" -h "$work" -p $((first + $1)) -U postgres -d postgres -XqAt -v ON_ERROR_STOP=1 "${@:2}"; }
sql() { node_sql 0 "$@"; }
for node in 0 1 2; do
	as "$bin/initdb" -D "$work/$node" -U postgres -A trust -E UTF8 --locale=C.UTF-8 >/dev/null
	as tee -a "$work/$node/postgresql.conf" >/dev/null <<CONF
port = $((first + node))
listen_addresses = '127.0.0.1'
unix_socket_directories = '$work'
shared_preload_libraries = 'citus,atproto'
atproto.databases = '$([ $node = 0 ] && echo postgres)'
citus.node_conninfo = 'sslmode=disable'
citus.enable_statistics_collection = off
max_prepared_transactions = 100
max_worker_processes = 20
shared_buffers = 512MB
max_wal_size = 16GB
checkpoint_timeout = 1h
autovacuum = off
CONF
	as "$bin/pg_ctl" -D "$work/$node" -l "$work/log$node" -w start >/dev/null
	node_sql "$node" -o /dev/null -c 'CREATE EXTENSION citus'
done
sql -o /dev/null -c "SELECT citus_set_coordinator_host('127.0.0.1', $first)" \
	-c "SELECT citus_add_node('127.0.0.1', $((first + 1))), citus_add_node('127.0.0.1', $((first + 2)))" \
	-c 'CREATE EXTENSION atproto'

"$root/test/simulator/simulate" --events "$EVENTS" --accounts 10000 --no-sign --mix identity=0,account=0 >"$work/capture"
"$root/test/server/streamserver" --capture "$work/capture" ${RATE:+--rate "$RATE"} --port-file "$work/port" >"$work/server.log" 2>&1 &
server_pid=$!
until [ -s "$work/port" ]; do
	kill -0 "$server_pid" || { cat "$work/server.log" >&2; exit 1; }
	sleep 0.1
done

# CPU seconds of these processes so far.
cpu() {
	local pid
	for pid; do
		cat "/proc/$pid/stat" 2>/dev/null || true
	done | sed 's/.*) //' | awk -v hz="$(getconf CLK_TCK)" '{s += $12 + $13 + $14 + $15} END {print s / hz}'
}
# A worker's processes, those that have ended included, are its postmaster's and its children.
workers_cpu() {
	local node pids=
	for node in 1 2; do
		local postmaster
		postmaster=$(head -1 "$work/$node/postmaster.pid")
		pids="$pids $postmaster $(pgrep -P "$postmaster" | tr '\n' ' ')"
	done
	cpu $pids
}

# Prints the CPU time of the subscription's processes, the workers', and the time by the clock.
consume() {	# TARGET APPLY
	local before pid pids waited=0 start=$EPOCHREALTIME consumer
	sql -o /dev/null -c "TRUNCATE $1.record, $1.repo"
	before=$(workers_cpu)
	sql -o /dev/null -c "SELECT atproto.subscribe('bench', 'ws://127.0.0.1:$(cat "$work/port")', cursor => 0, proxy => '', target => '$1', workers => $2)"
	until [ "$(sql -c "SELECT min(seq) >= $EVENTS FROM atproto.cursor")" = t ]; do
		waited=$((waited + 1))
		[ $waited -lt 6000 ] || { sql -c 'SELECT * FROM atproto.stat_subscription' >&2; exit 1; }
		sleep 0.1
	done
	pid=$(sql -c "SELECT atproto_internal.consumer_pid('bench')")
	pids=$(sql -c "SELECT pid FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')")
	# shellcheck disable=SC2086
	consumer=$(cpu $pids)
	awk -v c="$consumer" -v w="$(workers_cpu)" -v b="$before" -v s="$start" -v e="$EPOCHREALTIME" \
		'BEGIN {printf "%.2f %.2f %.1f\n", c, w - b, e - s}'
	sql -o /dev/null -c "SELECT atproto.unsubscribe('bench')"
	while [ -d "/proc/$pid" ]; do sleep 0.1; done
}

echo "$EVENTS events, $(nproc) processors for all three servers; medians of $RUNS"
printf '%-28s %12s %14s %12s %10s\n' target 'consumer s' 'events/s/core' 'workers s' 'clock s'
measure() {	# NAME TARGET [APPLY]
	for ((run = 0; run < RUNS; run++)); do
		consume "$2" "${3:-1}"
	done | sort -n | awk -v name="$1" -v n="$EVENTS" '{c[NR] = $1; w[NR] = $2; s[NR] = $3}
		END {m = int((NR + 1) / 2); printf "%-28s %12.2f %14.0f %12.2f %10.1f\n", name, c[m], n / c[m], w[m], s[m]}'
}
make_target() {
	sql -o /dev/null -c "CREATE SCHEMA $1" -c "SELECT atproto.create_tables('$1')" 2>/dev/null
}
make_target plain
measure 'plain' plain
make_target watched
sql -o /dev/null -c 'CREATE FUNCTION watched.nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$' \
	-c 'ALTER TABLE watched.record ADD length int GENERATED ALWAYS AS (octet_length(rkey::text)) STORED' \
	-c 'CREATE TRIGGER nothing AFTER TRUNCATE ON watched.repo FOR EACH STATEMENT EXECUTE FUNCTION watched.nothing()'
measure 'plain, with statements' watched
for shards in $SHARDS; do
	make_target "shards$shards"
	sql -o /dev/null -c "SELECT atproto.distribute('shards$shards', $shards)" 2>/dev/null
	for apply in $APPLY; do
		measure "$shards shards, workers => $apply" "shards$shards" "$apply"
	done
	# what the marks of nodes cost (doc/operate/citus.md): the target without their tables
	sql -o /dev/null -c "DROP TABLE shards$shards.node_mark, shards$shards.node_written"
	measure "$shards shards, no marks" "shards$shards"
done
