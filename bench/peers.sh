#!/bin/bash
# The extension beside programs outside the server, in turns, on one capture, one stream server and one PostgreSQL:
#
#   skyware   @skyware/firehose and a batched INSERT
#   sync      @atproto/sync and the same INSERT
#   plain     a program of its own that takes only what the rows need
#
# (bench/peers/README.md.)  Three comparisons:
#
#   pds       the bundled capture, COPIES times over (bench/multiply.py), unverified: the extension at level hash
#   network   EVENTS events of 10,000 accounts of a simulated network, with the sizes and the mix of production traffic, unverified
#   full      the same events, every signature verified with the account's key, which both have beforehand
#
# All write into a table with the columns and the key of atproto.record, rows and cursor in one transaction.  Each run begins with
# empty tables and a checkpoint.  Its time is from the open connection until another session, which looks every 5 ms, sees the
# cursor at the last event; CPU time is that of the consumer's processes, or of Node and of its backend.  After each run
# the rows are compared with those of the extension's first.
#
# The extension must be installed, test/server and test/simulator built: bench/run peers does that.  The packages of
# bench/peers/package.json, Node among them, come through npm (Debian: apt-get install npm), unless bench/peers/node_modules is
# there.  Without them nothing is measured.  --write puts the section into bench/notes.  PG_CONFIG, COPIES, EVENTS, RUNS and TRAFFIC, which comparisons, come from the environment.
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
DECLARE
	began timestamptz := clock_timestamp();
BEGIN
	WHILE ($1) IS DISTINCT FROM $3 LOOP
		IF clock_timestamp() > began + interval '9 minutes' THEN
			RAISE 'the stream did not come to $3';
		END IF;
		COMMIT;
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
	memory=''
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
	cpu=$(echo "$(cpu_seconds <"/proc/$peer_pid/stat") $(cpu_of peer) $(sql -c "SELECT loading FROM peer.cursor")" | awk '{print $1 + $2 - $3}')
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

# A line of the table for each program, in $W/table; what it refused, in $W/refused.
measure() {	# WHAT LEVEL LAST PROGRAM...
	local what=$1 level=$2 last=$3 who i
	local -A time=() used=() differ=() mb=()
	shift 3
	sql -o /dev/null -c "TRUNCATE expected"
	extension "$level" 1 "$last"	# not counted: warms up, and leaves the rows for comparison
	sql -o /dev/null -c "INSERT INTO expected SELECT * FROM atproto.record"
	for ((i = 0; i < RUNS; i++)); do
		for who in 1 2 "$@"; do
			case $who in
				[12]) extension "$level" "$who" "$last" ;;
				sync) peer sync "$last" ${documents:+"$documents"} ;;
				*) peer "$who" "$last" ;;
			esac
			time[$who]+=" $seconds"
			used[$who]+=" $cpu"
			differ[$who]=$differences
			mb[$who]=$memory
			if [[ $who == [12] && $differences != 0 ]]; then
				echo "the extension's own rows differ" >&2
				exit 1
			fi
		done
	done
	for who in "$@"; do
		# shellcheck disable=SC2086 # lists of numbers
		awk -v what="$what, $last events: \`$who\`" -v differ="${differ[$who]}" -v mb="${mb[$who]}" -v cpu="$(median ${used[$who]})" -v one_cpu="$(median ${used[1]})" \
			-v s="$(median ${time[$who]})" -v ss="$(spread ${time[$who]})" -v one="$(median ${time[1]})" -v ones="$(spread ${time[1]})" \
			-v two="$(median ${time[2]})" -v twos="$(spread ${time[2]})" 'BEGIN {
			printf "| %s | %.2f | %.2f | %.3f | %.2f (%s) | %.2f (%s) | %.2f (%s) | %.1f | %.1f | %d | %d |\n",
				what, one_cpu, cpu, one_cpu / cpu, one, ones, two, twos, s, ss, s / one, s / two, mb, differ
		}' >>"$W/table"
		[ ! -s "$W/$who.log" ] || echo "\`$who\` refused $(wc -l <"$W/$who.log") of $what, first: $(head -1 "$W/$who.log")." >>"$W/refused"
	done
}

load=$(cut -d' ' -f1 /proc/loadavg)
touch "$W/refused"
if [[ $TRAFFIC =~ pds ]]; then
	/usr/bin/python3 "$root/bench/multiply.py" "$COPIES" "$root/test/data/pds.frames.gz" >"$W/capture"	# Debian's, which has cbor2
	serve "$W/capture"
	documents=''
	measure "pds, unverified" hash $((COPIES * 1600)) skyware plain sync
fi
if [[ $TRAFFIC =~ network|full ]]; then
	"$root/test/simulator/simulate" --events "$EVENTS" --accounts 10000 --mix identity=0,account=0 --directory "$W/directory" --output "$W/capture"
	serve "$W/capture"
fi
if [[ $TRAFFIC =~ network ]]; then
	documents=''
	measure "network, unverified" hash "$EVENTS" skyware plain sync
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
	measure "network, verified" full "$EVENTS" sync
fi

{
	echo "## Peers"
	echo
	echo "\`COPIES=$COPIES EVENTS=$EVENTS RUNS=$RUNS bench/peers.sh\`: $(machine), load before: $load; \`fsync\` and \`synchronous_commit\` on; Node $("$node" --version)."
	echo "Medians (least to most), in seconds. The ratio is the processor time of the extension, one process, divided by that of the program (Node without loading its libraries, and its backend); the rest is by the clock, and how many times faster the extension is."
	echo "[What the programs are](../peers/README.md), what each checks, and which rows differ."
	echo
	echo "| what | CPU, extension | CPU, program | ratio | extension | 2 workers | program | times | 2 workers, times | program, MB | rows that differ |"
	echo "|---|---|---|---|---|---|---|---|---|---|---|"
	cat "$W/table"
	echo
	cat "$W/refused"
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$root/bench/put-section" "$W/section"
fi
