#!/bin/bash
# From a capture through a WebSocket into committed rows, against COPY of the
# same rows.  Three captures:
#
#   pds     the bundled one, COPIES times over (bench/multiply.py): small and
#           large commits, updates, deletions, accounts, invalid Unicode
#   posts   POSTS synthetic commits of one post each, framed and sized as
#           production traffic (test/oracle/synth.py)
#   network EVENTS events of 10,000 accounts of a simulated network, with the sizes
#           and the mix of production traffic (test/simulator), but no news of accounts:
#           these would need a directory
#   p256    the same, with keys of P-256 instead of k256
#   jetstream  the network's operations as texts of Jetstream's second version (test/oracle/jetstream.py), at level
#           hash; then 500 of them a second, compressed and not, for the bytes and the CPU time that they take
#
# Each run begins with empty tables and a checkpoint; runs of both kinds take
# turns; figures are medians of RUNS.  The consumer's time is from its open
# connection until its last transaction is seen by another session, which looks
# every 5 ms, in a transaction each: while one is open, no version of a row goes that
# is younger, and the rows of repo, which are updated all the time, leave their pages.
# COPY's is psql's for one \copy of a file with the rows that the consumer left, in text
# format, into a table with the same columns and key.  CPU time is that of the consumer's
# processes, and of the backend that copies: it says more than the time by the clock when
# the machine is not idle.  The log is what both wrote of it, for each event.
#
# The extension must be installed, test/server and test/simulator built: make
# bench does that.  PG_CONFIG, COPIES, POSTS, EVENTS, RUNS come from the environment;
# WORKERS, the numbers of workers (1/hash, 2/full: at that level of verification instead of chain; at
# full, which only network and p256 can be, the keys are in atproto.identity beforehand; 1/mirror: at full, atproto.identity is
# empty, and the keys are in a followed log of a directory, compared with 1/full, which has to be in the list; 1/followed: as
# 1/mirror, but the keys are in atproto.identity, too, as soon after an account's first event; 1/links: with links => 'all' at chain,
# compared with 1, which has to be in the list; 1/counts: with links => 'all', and counts of likes, reposts, answers and follows,
# compared with 1/links, which has to be in the list (2/links with 2, 2/counts with 2/links); 1/validate: with validate => 'flag', compared with 1; 1/dagcbor: into tables
# whose values have the type dagcbor, compared with 1);
# TRAFFIC, which captures; PARTITION, collection or month: the tables are in such partitions, COPY's, too; and
# TRIGGER, which record and COPY's table have: row, for each new row, that does nothing; feed, that inserts each
# post into another table; statement, that counts the new rows by collection.
set -euo pipefail
COPIES=${COPIES:-62}
POSTS=${POSTS:-100000}
EVENTS=${EVENTS:-200000}
TRAFFIC=${TRAFFIC:-pds posts network p256 jetstream}
RUNS=${RUNS:-3}
WORKERS=${WORKERS:-1 2 3 1/hash 1/links 1/validate 1/full 2/full}
PG_CONFIG=${PG_CONFIG:-pg_config}
bin=$("$PG_CONFIG" --bindir)
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/bench/figures"
python=/usr/bin/python3		# Debian's, which has cbor2
work=$(mktemp -d /tmp/atpb.XXXXXX)

if [ "$(id -u)" = 0 ]; then
	chown postgres: "$work"
	as() { runuser -u postgres -- "$@"; }
else
	as() { "$@"; }
fi
server_pid=
directory_pid=
finish() {
	[ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true
	[ -z "$directory_pid" ] || kill "$directory_pid" 2>/dev/null || true
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
shared_buffers = 1GB
max_wal_size = 16GB
checkpoint_timeout = 1h
autovacuum = off
CONF
as "$bin/pg_ctl" -D "$work/data" -l "$work/log" -w start >/dev/null
sql() { "$bin/psql" -h "$work" -U postgres -XqAt -v ON_ERROR_STOP=1 "$@"; }
sql -o /dev/null -c "CREATE EXTENSION atproto" -c "SELECT atproto.create_tables('atproto')"
sql -o /dev/null -c "CREATE SCHEMA copied" -c "SELECT atproto.create_tables('copied')"
sql -o /dev/null -c "CREATE SCHEMA packed" -c "SELECT atproto.create_tables('packed', value => 'dagcbor')"
sql -o /dev/null <<'SQL'
CREATE TABLE feed (did did, rkey recordkey, indexed_at timestamptz);
CREATE TABLE counted (collection nsid PRIMARY KEY, n bigint);
CREATE FUNCTION fire_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE FUNCTION fire_feed() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	IF new.collection = 'app.bsky.feed.post' THEN
		INSERT INTO feed VALUES (new.did, new.rkey, new.indexed_at);
	END IF;
	RETURN NULL;
END $$;
CREATE FUNCTION fire_statement() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	INSERT INTO counted AS c SELECT collection, count(*) FROM rows GROUP BY 1
		ON CONFLICT (collection) DO UPDATE SET n = c.n + excluded.n;
	RETURN NULL;
END $$;
SQL
for schema in atproto copied packed; do
	[ -z "${PARTITION:-}" ] || sql -o /dev/null -c "SELECT atproto.partition('$schema', '$PARTITION')"
	case ${TRIGGER:-} in
		'') ;;
		row | feed) sql -c "CREATE TRIGGER fire AFTER INSERT ON $schema.record FOR EACH ROW EXECUTE FUNCTION fire_$TRIGGER()" ;;
		statement) sql -c "CREATE TRIGGER fire AFTER INSERT ON $schema.record REFERENCING NEW TABLE AS rows
			FOR EACH STATEMENT EXECUTE FUNCTION fire_statement()" ;;
		*)
			echo "there is no trigger \"$TRIGGER\"" >&2
			exit 1
			;;
	esac
done

path=	# of the URL, where it is not subscribeRepos
start_server() {	# CAPTURE [OPTION]...
	rm -f "$work/port"
	"$root/test/server/streamserver" --capture "$@" --port-file "$work/port" >"$work/server.log" 2>&1 &
	server_pid=$!
	until [ -s "$work/port" ]; do
		kill -0 "$server_pid" || { cat "$work/server.log" >&2; exit 1; }
		sleep 0.1
	done
	port=$(cat "$work/port")
}

# Every account's key is known, as if it had been looked up just now.
known() {
	sql -o /dev/null <<SQL
CREATE TEMPORARY TABLE k (did did, seq bigint, key text, secret text, pds text, handle text);
\copy k FROM '$work/directory/keys'
TRUNCATE atproto.identity;
INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at)
	SELECT did, 'good', decode(key, 'hex'), pds, now(), now() FROM k;
ANALYZE atproto.identity;
SQL
}

# A subscription keeps the log of a directory, with the accounts' keys, whose fetcher writes atproto.identity.  The simulator's
# accounts have no log of their own, so that the accounts of the log that make_plc.c has made get their names.
mirror() {
	local n
	if [ -n "$directory_pid" ]; then
		sql -o /dev/null -c "TRUNCATE atproto.identity, atproto.identity_request"
		return
	fi
	n=$(wc -l <"$work/directory/keys")
	"${CC:-cc}" -std=gnu11 -O2 -I"$root/src" -I"$root/test" -o "$work/make_plc" "$root/bench/make_plc.c" "$root"/src/core/*.c "$root"/src/core/*/*.c \
		-lcbor -lcrypto -lsecp256k1
	"$work/make_plc" "$n" "$n" "$work/log.jsonl" "$work/directory/keys" >/dev/null
	"${PYTHON:-python3}" -B "$root/bench/plc_server" "$work/log.jsonl" "$work/directory_port" >"$work/directory.log" 2>&1 &
	directory_pid=$!
	until [ -s "$work/directory_port" ]; do
		kill -0 "$directory_pid" || { cat "$work/directory.log" >&2; exit 1; }
		sleep 0.1
	done
	sql -o /dev/null <<SQL
CREATE SCHEMA plc;
SELECT atproto.subscribe('plc', 'ws://127.0.0.1:$(cat "$work/directory_port")/export/stream', target => 'plc', allow_insecure => true, proxy => '', identities => true);
DO \$\$
BEGIN
	WHILE NOT EXISTS (SELECT FROM atproto.cursor WHERE subscription = 'plc' AND seq >= $n) LOOP
		PERFORM pg_sleep(0.1);
		COMMIT;
	END LOOP;
END \$\$;
CREATE TEMPORARY TABLE k (did did, seq bigint, key text, secret text, pds text, handle text, n bigint GENERATED ALWAYS AS IDENTITY);
\copy k (did, seq, key, secret, pds, handle) FROM '$work/directory/keys'
UPDATE plc.plc_operation o SET did = k.did FROM k WHERE k.n = o.seq;
ANALYZE plc.plc_operation;
DO \$\$
BEGIN
	WHILE NOT EXISTS (SELECT FROM atproto.stat_directory WHERE fresh AND believed) LOOP
		PERFORM pg_sleep(0.1);
		COMMIT;
	END LOOP;
END \$\$;
TRUNCATE atproto.identity, atproto.identity_request;
SQL
}

# The next traffic has other accounts.
end_mirror() {
	[ -n "$directory_pid" ] || return 0
	sql -o /dev/null -c "SELECT atproto.unsubscribe('plc')" -c "DROP SCHEMA plc CASCADE"
	kill "$directory_pid"
	wait "$directory_pid" || true
	directory_pid=
	rm "$work/directory_port"
}

# Bytes that were ever written to the log.
log_bytes() { sql -c "SELECT pg_current_wal_insert_lsn() - '0/0'"; }

# Sets seconds, from the connection to the last commit, cpu, and log.
consume() {	# LAST
	local level=chain links=none validate=none counted={}
	target=atproto
	case $workers in
		*/links) links=all ;;
		*/counts) links=all counted={app.bsky.feed.like:subject.uri,app.bsky.feed.repost:subject.uri,app.bsky.feed.post:reply.parent.uri,app.bsky.graph.follow:subject} ;;
		*/validate) validate=flag ;;
		*/dagcbor) target=packed ;;
		*/mirror | */followed) level=full ;;
		*/*) level=${workers#*/} ;;
	esac
	[ -z "$path" ] || level="hash"	# a chain is not in it
	case $workers in
		*/full) known ;;
		*/mirror) mirror ;;
		*/followed)
			mirror
			known
			;;
	esac
	sql -o /dev/null <<SQL
SELECT atproto.unsubscribe(name) FROM atproto.subscription WHERE name = 'bench';
TRUNCATE $target.record, $target.repo, $target.link, feed, counted;
SELECT atproto.count_links('$counted');
CHECKPOINT;
SQL
	log=$(log_bytes)
	sql -o /dev/null <<SQL
SELECT atproto.subscribe('bench', 'ws://127.0.0.1:$port$path', cursor => 0, proxy => '', workers => ${workers%/*}, verify => '$level', links => '$links', validate => '$validate', target => '$target');
SQL
	seconds=$(sql -f - <<SQL
CREATE TEMPORARY TABLE t AS SELECT now() AS connected, now() AS ended;
DO \$\$
DECLARE
	last bigint;
BEGIN
	FOR i IN 1 .. 120000 LOOP
		SELECT min(seq) INTO last FROM atproto.cursor WHERE subscription = 'bench';
		EXIT WHEN last >= $1;
		COMMIT;
		PERFORM pg_sleep(0.005);
	END LOOP;
	IF last IS DISTINCT FROM $1 THEN
		RAISE 'the stream ended at % instead of $1', last;
	END IF;
	UPDATE t SET ended = clock_timestamp(),
		connected = (SELECT connected_at FROM atproto.stat_subscription WHERE name = 'bench');
END
\$\$;
SELECT extract(epoch FROM ended - connected) FROM t;
SQL
	)
	log=$(($(log_bytes) - log))
	cpu=$(for pid in $(sql -c "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'atproto bench%'"); do
		cpu_seconds <"/proc/$pid/stat"
	done | awk '{s += $1} END {print s}')
}

# Sets seconds, cpu and log: COPY of the rows in the file.
copy() {
	local out
	sql -o /dev/null -c "TRUNCATE copied.record, feed, counted" -c "CHECKPOINT"
	log=$(log_bytes)
	out=$(sql -f - <<SQL
SELECT pg_backend_pid() AS pid \\gset
\\setenv PID :pid
\\timing on
\\copy copied.record FROM '$work/rows'
\\timing off
\\! cat /proc/\$PID/stat
SQL
	)
	log=$(($(log_bytes) - log))
	seconds=$(sed -nE 's/^Time: ([0-9.]+) ms.*/\1/p' <<<"$out" | awk '{print $1 / 1000}')
	cpu=$(grep -v ^Time <<<"$out" | cpu_seconds)
}

# The largest private memory of a process of the consumer during one run more, in MB.  (Not
# Private_* of smaps: that has shared buffers that no other process maps, too.)
memory() {	# LAST
	local pid kb max=0
	consume "$1" &
	while kill -0 $! 2>/dev/null; do
		for pid in $(sql -c "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'atproto bench%'"); do
			kb=$(awk '/^RssAnon/ {print $2}' "/proc/$pid/status" 2>/dev/null || true)
			kb=${kb:-0}
			[ "$kb" -le "$max" ] || max=$kb
		done
		sleep 0.1
	done
	wait $!
	awk "BEGIN {printf \"%.1f\", $max / 1024}"
}

bench() {	# NAME CAPTURE LAST
	local last=$3 ops rows links link_bytes counts count_bytes faults copied=() copy_cpu=() copy_log=() list=$WORKERS
	local columns=()
	local -A consumed=() consumer_cpu=() consumer_log=() row_bytes=()
	# only the simulator says whose keys these are
	# shellcheck disable=SC2086 # a list
	case $1 in pds | posts | jetstream) list=$(printf '%s\n' $WORKERS | grep -Ev 'full|mirror|followed' | paste -sd' ') ;; esac
	start_server "$2"
	workers=1
	consume "$last"		# not counted: warms up, and leaves the rows for COPY
	ops=$(sql -c "SELECT sum(record_ops) FROM atproto.cursor")
	rows=$(sql -c "SELECT count(*) FROM atproto.record")
	sql -o /dev/null -c "\\copy (SELECT * FROM atproto.record) TO '$work/rows'"
	copy
	for ((i = 0; i < RUNS; i++)); do
		for workers in $list; do
			consume "$last"
			consumed[$workers]+=" $seconds"
			consumer_cpu[$workers]+=" $cpu"
			consumer_log[$workers]+=" $log"
			if [ "${workers#*/}" = links ]; then
				links=$(sql -c "SELECT count(*) FROM atproto.link")
				link_bytes=$(sql -c "SELECT pg_total_relation_size('atproto.link')")
				if [ "$(sql -c "SELECT count(*) FROM atproto.link_problems()")" != 0 ]; then
					echo "the links are not those of the records" >&2
					exit 1
				fi
			fi
			if [ "${workers#*/}" = counts ]; then
				counts=$(sql -c "SELECT count(*) FROM atproto.link_count")
				count_bytes=$(sql -c "SELECT pg_total_relation_size('atproto.link_count')")
				if [ "$(sql -c "SELECT sum(n) FROM atproto.link_count")" != "$(sql -c "SELECT count(*) FROM atproto.link JOIN atproto.link_source ON id = source WHERE counted")" ]; then
					echo "the counts are not those of the links" >&2
					exit 1
				fi
			fi
			[ "${workers#*/}" != validate ] || faults=$(sql -c "SELECT count(fault) FROM atproto.record")
			# indexed_at is the time of the transaction: COPY's rows have that of the first run
			case $workers in
				*/dagcbor) columns=("coalesce(raw, jsonb_to_dagcbor(value))" "value::bytea") ;;
				*) columns=("value, raw" "value, raw") ;;
			esac
			different=$(sql -c "SELECT count(*) FROM (SELECT did, collection, rkey, cid, rev, ${columns[0]} FROM copied.record
				EXCEPT ALL SELECT did, collection, rkey, cid, rev, ${columns[1]} FROM $target.record) d")
			row_bytes[$workers]=$(sql -c "SELECT pg_total_relation_size('$target.record') / $rows")
			if [ "$different" != 0 ] || [ "$(sql -c "SELECT count(*) FROM $target.record")" != "$rows" ]; then
				echo "the tables differ" >&2
				exit 1
			fi
		done
		copy
		copied+=("$seconds")
		copy_cpu+=("$cpu")
		copy_log+=("$log")
	done
	awk -v name="$1" -v events="$last" -v ops="$ops" -v rows="$rows" -v bytes="$(stat -c %s "$2")" \
		-v c="$(median "${copied[@]}")" -v cs="$(spread "${copied[@]}")" -v ccpu="$(median "${copy_cpu[@]}")" 'BEGIN {
		printf "%s: %d events (%.0f MB), %d record operations, %d rows at the end\n", name, events, bytes / 1e6, ops, rows
		printf "  COPY       %6.2f s (%s), CPU %.2f s   %d rows/s\n", c, cs, ccpu, rows / c
	}'
	for workers in $list; do
		# shellcheck disable=SC2086 # lists of numbers
		awk -v workers="$workers" -v events="$last" -v ops="$ops" -v rows="$rows" \
			-v c="$(median "${copied[@]}")" -v ccpu="$(median "${copy_cpu[@]}")" \
			-v s="$(median ${consumed[$workers]})" -v ss="$(spread ${consumed[$workers]})" \
			-v cpu="$(median ${consumer_cpu[$workers]})" \
			-v written="$(median ${consumer_log[$workers]})" -v copy_written="$(median "${copy_log[@]}")" -v mb="$(memory "$last")" 'BEGIN {
			who = workers == 1 ? "consumer" : workers == "1/links" ? "with links" : workers == "1/counts" ? "counting" : workers == "1/validate" ? "validating" : workers == "1/dagcbor" ? "dagcbor" : workers ~ /^1\// ? "at " substr(workers, 3) : workers ~ /\// ? substr(workers, 1, 1) " at " substr(workers, 3) : workers " workers"
			printf "  %-10s %6.2f s (%s), CPU %.2f s   %d events/s, %d operations/s, %d rows/s\n",
				who, s, ss, cpu, events / s, ops / s, rows / s
			printf "    private memory of a process at most: %s MB; log: %.0f bytes an event, COPY: %.0f\n", mb, written / events, copy_written / events
			printf "    rows/s of %s divided by those of COPY: %.2f; by CPU time: %.2f\n",
				workers == 1 ? "the consumer" : who, c / s, ccpu / cpu
		}'
		if [ "${workers#*/}" = links ]; then
			# shellcheck disable=SC2086 # lists of numbers
			awk -v links="$links" -v bytes="$link_bytes" -v cpu="$(median ${consumer_cpu[$workers]})" -v without="$(median ${consumer_cpu[${workers%/*}]})" \
				-v s="$(median ${consumed[$workers]})" -v swithout="$(median ${consumed[${workers%/*}]})" 'BEGIN {
				printf "    rate with links divided by that without: %.2f; by CPU time: %.2f\n", swithout / s, without / cpu
				printf "    %d links: %.2f us of CPU time and %.0f bytes each\n", links, (cpu - without) * 1e6 / links, bytes / links
			}'
		elif [ "${workers#*/}" = counts ]; then
			# shellcheck disable=SC2086 # lists of numbers
			awk -v counts="$counts" -v bytes="$count_bytes" -v cpu="$(median ${consumer_cpu[$workers]})" -v without="$(median ${consumer_cpu[${workers%/*}/links]})" \
				-v events="$last" -v s="$(median ${consumed[$workers]})" -v swithout="$(median ${consumed[${workers%/*}/links]})" 'BEGIN {
				printf "    rate with counts divided by that with links alone: %.2f; by CPU time: %.2f\n", swithout / s, without / cpu
				printf "    %d counts: %.2f us of CPU time an event, %.0f bytes each\n", counts, (cpu - without) * 1e6 / events, bytes / counts
			}'
		elif [ "${workers#*/}" = mirror ] || [ "${workers#*/}" = followed ]; then
			# shellcheck disable=SC2086 # lists of numbers
			awk -v cpu="$(median ${consumer_cpu[$workers]})" -v with="$(median ${consumer_cpu[1/full]})" \
				-v s="$(median ${consumed[$workers]})" -v swith="$(median ${consumed[1/full]})" 'BEGIN {
				printf "    rate with the log divided by that with known keys: %.2f; by CPU time: %.2f\n", swith / s, with / cpu
			}'
		elif [ "${workers#*/}" = dagcbor ]; then
			# shellcheck disable=SC2086 # lists of numbers
			awk -v bytes="${row_bytes[$workers]}" -v jsonb="${row_bytes[1]}" -v cpu="$(median ${consumer_cpu[$workers]})" -v without="$(median ${consumer_cpu[1]})" \
				-v s="$(median ${consumed[$workers]})" -v swithout="$(median ${consumed[1]})" 'BEGIN {
				printf "    rate with dagcbor divided by that with jsonb: %.2f; by CPU time: %.2f; %d bytes a row with its indexes, with jsonb %d: %.2f\n",
					swithout / s, without / cpu, bytes, jsonb, bytes / jsonb
			}'
		elif [ "${workers#*/}" = validate ]; then
			# shellcheck disable=SC2086 # lists of numbers
			awk -v faults="$faults" -v rows="$rows" -v cpu="$(median ${consumer_cpu[$workers]})" -v without="$(median ${consumer_cpu[1]})" \
				-v s="$(median ${consumed[$workers]})" -v swithout="$(median ${consumed[1]})" 'BEGIN {
				printf "    rate with validate divided by that without: %.2f; by CPU time: %.2f; %d of %d records have faults\n",
					swithout / s, without / cpu, faults, rows
			}'
		fi
	done
	end_mirror
	stop_server
}

# 500 events a second, for SECONDS_LIVE: what a full live network was.  CPU time of the consumer's processes, and bytes on the wire.
live() {	# CAPTURE WHAT [OPTION OF THE SERVER]...
	local capture=$1 what=$2 seconds=${SECONDS_LIVE:-30} before after
	shift 2
	start_server "$capture" --rate 500 "$@"
	sql -o /dev/null <<SQL
SELECT atproto.unsubscribe(name) FROM atproto.subscription;
TRUNCATE atproto.record, atproto.repo, atproto.link;
SELECT atproto.subscribe('bench', 'ws://127.0.0.1:$port$path', cursor => 0, proxy => '', verify => 'hash');
SELECT atproto.set_zstd_dictionary('bench', pg_read_binary_file('$work/dictionary')) WHERE $# > 0;
SQL
	until [ "$(sql -c "SELECT coalesce(sum(events), 0) >= 1000 FROM atproto.cursor WHERE subscription = 'bench'")" = t ]; do sleep 0.1; done
	before=$(live_figures)
	sleep "$seconds"
	after=$(live_figures)
	awk -v what="$what" -v a="$before" -v b="$after" 'BEGIN {
		split(a, x); split(b, y); s = y[1] - x[1]
		printf "  %s: %.0f events/s, %.2f %% of a processor, %.0f bytes an event, %.3f MB/s\n",
			what, (y[2] - x[2]) / s, (y[4] - x[4]) / s * 100, (y[3] - x[3]) / (y[2] - x[2]), (y[3] - x[3]) / s / 1e6
	}'
	stop_server
}

# time, events, bytes received, CPU time
live_figures() {
	sql -F' ' -c "SELECT extract(epoch FROM clock_timestamp()), received, bytes FROM atproto.stat_subscription" | tr '\n' ' '
	for pid in $(sql -c "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'atproto bench%'"); do
		cpu_seconds <"/proc/$pid/stat"
	done | awk '{s += $1} END {print s}'
}

stop_server() {
	kill "$server_pid"
	wait "$server_pid" || true
	server_pid=
}

echo "# fsync = $(sql -c "SHOW fsync"), synchronous_commit = $(sql -c "SHOW synchronous_commit")," \
	"shared_buffers = $(sql -c "SHOW shared_buffers"), autovacuum = $(sql -c "SHOW autovacuum"); medians of $RUNS (least to most)"
for traffic in $TRAFFIC; do
	case $traffic in
		pds)
			"$python" "$root/bench/multiply.py" "$COPIES" "$root/test/data/pds.frames.gz" >"$work/capture"
			bench pds "$work/capture" $((COPIES * 1600))
			;;
		posts)
			"$python" "$root/test/oracle/synth.py" posts "$POSTS" >"$work/capture"
			bench posts "$work/capture" "$POSTS"
			;;
		network | p256)
			percent=0
			[ "$traffic" = network ] || percent=100
			"$root/test/simulator/simulate" --events "$EVENTS" --accounts 10000 --p256 $percent --mix identity=0,account=0 \
				--directory "$work/directory" --output "$work/capture"
			bench "$traffic" "$work/capture" "$EVENTS"
			;;
		jetstream)
			"$root/test/simulator/simulate" --events "$EVENTS" --accounts 10000 --history 0 --no-sign --mix identity=0,account=0 --output "$work/capture"
			"$python" "$root/test/oracle/jetstream.py" v2 "$work/capture" >"$work/texts"
			path=/xrpc/network.bsky.jetstream.subscribeEvents
			bench jetstream "$work/texts" "$(tail -c 4096 "$work/texts" | grep -ao '"seq":[0-9]*' | tail -1 | cut -d: -f2)"
			"$root/test/server/traindict" "$work/texts" 65536 >"$work/dictionary"
			chmod a+r "$work/dictionary"
			live "$work/texts" "500 a second"
			live "$work/texts" "500 a second, zstd" --zstd-dictionary "$work/dictionary"
			path=
			;;
		*)
			echo "there is no traffic \"$traffic\"" >&2
			exit 1
			;;
	esac
done
