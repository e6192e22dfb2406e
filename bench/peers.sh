#!/bin/bash
# The extension beside programs outside the server, in turns, on one capture, one stream server and one PostgreSQL:
#
#   skyware   @skyware/firehose and a batched INSERT
#   sync      @atproto/sync and the same INSERT; on unverified traffic with unauthenticatedCommits and unauthenticatedHandles
#   plain     a program of its own that takes only what the rows need, and checks nothing
#
# (bench/peers/*.mjs, one Node process each.)  Three comparisons:
#
#   pds       the bundled capture, COPIES times over (bench/multiply.py), unverified: the extension at level hash
#   network   EVENTS events of 10,000 accounts of a simulated network, with the sizes and the mix of production traffic, unverified
#   full      the same events, every signature verified with the account's key, which both have in memory or in a table beforehand
#
# All write into a table with the columns and the key of atproto.record, rows and cursor in one transaction.  Each run begins with
# empty tables and a checkpoint.  Its time is from the open connection until another session, which looks every 5 ms, sees the
# cursor at the last event; CPU time is that of the consumer's processes, or of Node and of its backend.  After each run
# the rows are compared with those of the extension's first.
#
# The extension must be installed, test/server and test/simulator built: bench/run peers does that.  The packages of
# bench/peers/package.json, Node among them, come through npm (Debian: apt-get install npm), unless bench/peers/node_modules is
# there.  Without them nothing is measured.  PG_CONFIG, COPIES, EVENTS, RUNS and TRAFFIC, which comparisons, come from the environment.
set -euo pipefail
COPIES=${COPIES:-31}
EVENTS=${EVENTS:-10000}
RUNS=${RUNS:-3}
TRAFFIC=${TRAFFIC:-pds network full}
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/bench/server"
. "$root/bench/figures"

leave_out() {
	echo "left out: $*"
	exit 0
}
if [ -d "$root/bench/peers/node_modules" ]; then
	programs=$root/bench/peers
else
	command -v npm >/dev/null || leave_out "there is no npm (Debian: apt-get install npm)"
	programs=$W/peers
	mkdir "$programs"
	cp "$root"/bench/peers/* "$programs"
	(cd "$programs" && npm install --no-audit --no-fund --no-package-lock --prefer-offline >"$W/npm.log" 2>&1) ||
		leave_out "npm install failed: $(tail -3 "$W/npm.log")"
fi
node=$programs/node_modules/node/bin/node
[ -x "$node" ] || leave_out "npm has not installed $node"

start_server <<X
fsync = on
shared_preload_libraries = 'atproto'
shared_buffers = 1GB
max_wal_size = 16GB
checkpoint_timeout = 1h
X
sql() { "${PSQL[@]}" "$@"; }
sql -o /dev/null <<SQL
CREATE EXTENSION atproto;
SELECT atproto.create_tables('atproto');
CREATE SCHEMA peer;
CREATE TABLE peer.record (LIKE atproto.record INCLUDING ALL);
CREATE TABLE peer.cursor (seq bigint NOT NULL, connected_at timestamptz, loading real);
CREATE TABLE expected (LIKE atproto.record);
SQL

server_pid='' peer_pid=''
finish() {
	for pid in $server_pid $peer_pid; do
		kill "$pid" 2>/dev/null || true
	done
	cleanup
}
trap finish EXIT

serve() {	# CAPTURE
	[ -z "$server_pid" ] || { kill "$server_pid"; wait "$server_pid" || true; }
	rm -f "$W/port"
	"$root/test/server/streamserver" --capture "$1" --port-file "$W/port" >"$W/server.log" 2>&1 &
	server_pid=$!
	until [ -s "$W/port" ]; do
		kill -0 "$server_pid" || { cat "$W/server.log" >&2; exit 1; }
		sleep 0.1
	done
	url=ws://127.0.0.1:$(cat "$W/port")
}

# Sets seconds: from the connection until the cursor is seen at the last event.
until_seen() {	# QUERY OF THE CURSOR, QUERY OF THE CONNECTION, LAST
	seconds=$(sql <<SQL
CREATE TEMPORARY TABLE t AS SELECT now() AS connected, now() AS ended;
DO \$\$
BEGIN
	WHILE ($1) IS DISTINCT FROM $3 LOOP
		IF clock_timestamp() > now() + interval '9 minutes' THEN
			RAISE 'the stream did not come to $3';
		END IF;
		PERFORM pg_sleep(0.005);
	END LOOP;
	UPDATE t SET ended = clock_timestamp(), connected = ($2);
END
\$\$;
SELECT extract(epoch FROM ended - connected) FROM t;
SQL
	)
}

# CPU time of the server's processes of this application, in seconds.
cpu_of() {	# PATTERN
	for pid in $(sql -c "SELECT pid FROM pg_stat_activity WHERE application_name LIKE '$1'"); do
		cpu_seconds <"/proc/$pid/stat"
	done | awk '{s += $1} END {print s}'
}

extension() {	# LEVEL WORKERS LAST
	sql -o /dev/null <<SQL
SELECT atproto.unsubscribe(name) FROM atproto.subscription;
TRUNCATE atproto.record, atproto.repo;
CHECKPOINT;
SELECT atproto.subscribe('bench', '$url', cursor => 0, proxy => '', workers => $2, verify => '$1');
SQL
	until_seen "SELECT min(seq) FROM atproto.cursor WHERE subscription = 'bench'" "SELECT connected_at FROM atproto.stat_subscription" "$3"
	cpu=$(cpu_of 'atproto bench%')
	compare atproto
}

peer() {	# SCRIPT LAST [ARGUMENT]...
	local script=$1 last=$2
	shift 2
	sql -o /dev/null <<SQL
TRUNCATE peer.record, peer.cursor;
INSERT INTO peer.cursor VALUES (0);
CHECKPOINT;
SQL
	NODE_ENV=production PGHOST=$W PGAPPNAME=peer "$node" "$programs/$script.mjs" "$url" "$@" 2>"$W/$script.log" &
	peer_pid=$!
	until_seen "SELECT seq FROM peer.cursor" "SELECT connected_at FROM peer.cursor" "$last"
	cpu="$(cpu_seconds <"/proc/$peer_pid/stat") $(cpu_of peer) $(sql -c "SELECT loading FROM peer.cursor")"
	memory=$(awk '/^VmHWM/ {printf "%.0f", $2 / 1024}' "/proc/$peer_pid/status")
	kill "$peer_pid"
	wait "$peer_pid" || true
	peer_pid=
	compare peer
}

# Sets differences: how many rows are not those of the extension's first run.  indexed_at is the time of a transaction.
compare() {	# SCHEMA
	local columns='did, collection, rkey, cid, rev, value, raw'
	differences=$(sql -c "SELECT count(*) FROM ((SELECT $columns FROM expected EXCEPT ALL SELECT $columns FROM $1.record)
		UNION ALL (SELECT $columns FROM $1.record EXCEPT ALL SELECT $columns FROM expected)) d")
}

measure() {	# NAME LEVEL LAST WHO...
	local name=$1 level=$2 last=$3 who rows i
	local -A time=() used=() differ=() most=()
	shift 3
	sql -o /dev/null -c "TRUNCATE expected"
	extension "$level" 1 "$last"	# not counted: warms up, and leaves the rows for comparison
	sql -o /dev/null -c "INSERT INTO expected SELECT * FROM atproto.record"
	rows=$(sql -c "SELECT count(*) FROM expected")
	operations=$(sql -c "SELECT sum(record_ops) FROM atproto.cursor")
	for ((i = 0; i < RUNS; i++)); do
		for who in "$@"; do
			case $who in
				[12]) extension "$level" "$who" "$last" ;;
				sync) peer sync "$last" ${documents:+"$documents"} ;;
				*) peer "$who" "$last" ;;
			esac
			time[$who]+=" $seconds"
			used[$who]+=" $(awk '{print $1 + $2 - $3}' <<<"$cpu")"
			differ[$who]=$differences
			[[ $who == [12] ]] || most[$who]="in the last run Node $(awk '{printf "%.2f s, its backend %.2f s", $1 - $3, $2}' <<<"$cpu"), $memory MB"
		done
	done
	echo "$name: $last events, $operations record operations, $rows rows at the end"
	for who in "$@"; do
		# shellcheck disable=SC2086 # lists of numbers
		awk -v who="$who" -v level="$level" -v events="$last" -v operations="$operations" -v differ="${differ[$who]}" -v most="${most[$who]:-}" \
			-v s="$(median ${time[$who]})" -v ss="$(spread ${time[$who]})" -v cpu="$(median ${used[$who]})" \
			-v one="$(median ${time[1]})" -v two="$(median ${time[2]})" -v one_cpu="$(median ${used[1]})" 'BEGIN {
			printf "  %-12s %7.2f s (%s), CPU %.2f s: %d events/s, %d operations/s; ",
				who == 1 ? "at " level : who == 2 ? "2 workers" : who, s, ss, cpu, events / s, operations / s
			print differ ? differ " rows differ" : "the same rows"
			if (most) {
				print "    " most
				printf "    the extension is %.1f times as fast, with 2 workers %.1f times; by CPU time %.1f times\n", s / one, s / two, cpu / one_cpu
			}
		}'
		[ ! -s "$W/$who.log" ] || echo "    refused by it in the last run: $(wc -l <"$W/$who.log"), the first: $(head -1 "$W/$who.log")"
	done
}

machine
echo "# fsync = $(sql -c "SHOW fsync"), synchronous_commit = $(sql -c "SHOW synchronous_commit"); Node $("$node" --version);" \
	"medians of $RUNS (least to most); load before: $(cut -d' ' -f1 /proc/loadavg)"
if [[ $TRAFFIC =~ pds ]]; then
	/usr/bin/python3 "$root/bench/multiply.py" "$COPIES" "$root/test/data/pds.frames.gz" >"$W/capture"	# Debian's, which has cbor2
	serve "$W/capture"
	documents=''
	measure pds hash $((COPIES * 1600)) 1 2 skyware plain sync
fi
if [[ $TRAFFIC =~ network|full ]]; then
	"$root/test/simulator/simulate" --events "$EVENTS" --accounts 10000 --mix identity=0,account=0 --directory "$W/directory" --output "$W/capture"
	serve "$W/capture"
fi
if [[ $TRAFFIC =~ network ]]; then
	documents=''
	measure network hash "$EVENTS" 1 2 skyware plain sync
fi
if [[ $TRAFFIC =~ full ]]; then
	sql -o /dev/null <<SQL
CREATE TEMPORARY TABLE k (did did, seq bigint, key text, secret text, pds text, handle text);
\copy k FROM '$W/directory/keys'
INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at)
	SELECT did, 'good', decode(key, 'hex'), pds, now(), now() FROM k;
ANALYZE atproto.identity;
SQL
	documents=$W/directory/documents
	measure full full "$EVENTS" 1 2 sync
fi
