#!/bin/bash
# The log of a did:plc directory into empty tables, beside its floor: the signatures.
#
#   bench/plc.sh                  print the results
#   bench/plc.sh --write          also put them into bench/notes
#
# make_plc.c makes OPERATIONS operations of ACCOUNTS accounts, and says the signatures of how many operations a second this machine verifies.
# plc_server serves the log by pages, and spends little time itself. Each run begins with empty tables and a checkpoint, and ends when
# another session, which looks every 5 ms, sees the cursor at the log's end. Figures are medians of RUNS. Memory is the anonymous
# memory of the consumer, at most. Bytes are those of plc_operation with its indexes and of plc_text, divided by the operations.
# plc_check() judges the logs of a hundredth of the accounts, as jsonb.
#
# The log is read by one process, then with two workers beside the process that receives; WORKERS="1 2 3" tries other numbers.  Then
# by one process from the same directory FAR milliseconds away: each answer leaves so much later (plc_server).
#
# The lag: the last LIVE operations come by the stream, RATE a second; latency.sql tells when another session sees each of them.
#
# The extension must be installed: make bench does that.  PG_CONFIG, CC, PYTHON, OPERATIONS, ACCOUNTS, RUNS, WORKERS, FAR, LIVE, RATE
# come from the environment.  With PERF=FILE, the last run is recorded by perf into that file.
set -euo pipefail
OPERATIONS=${OPERATIONS:-100000}
ACCOUNTS=${ACCOUNTS:-50000}
RUNS=${RUNS:-3}
WORKERS=${WORKERS:-1 2}
FAR=${FAR:-50}
LIVE=${LIVE:-2000}
RATE=${RATE:-100}
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)

. "$HERE/server"
. "$HERE/figures"

"${CC:-cc}" -std=gnu11 -O2 -I"$HERE/../src" -I"$HERE/../test" -o "$W/make_plc" "$HERE/make_plc.c" "$HERE"/../src/core/*.c "$HERE"/../src/core/*/*.c \
	-lcbor -lcrypto -lsecp256k1
floor=$("$W/make_plc" "$OPERATIONS" "$ACCOUNTS" "$W/log.jsonl")
"${PYTHON:-python3}" -B "$HERE/plc_server" "$W/log.jsonl" "$W/port" >"$W/directory.log" 2>&1 &
directory=$!
trap 'kill $directory; cleanup' EXIT
until [ -s "$W/port" ]; do
	kill -0 "$directory" || { cat "$W/directory.log" >&2; exit 1; }
	sleep 0.1
done
start_server <<X
shared_preload_libraries = 'atproto'
shared_buffers = 1GB
max_wal_size = 16GB
checkpoint_timeout = 1h
X
"${PSQL[@]}" -o /dev/null -c "CREATE EXTENSION atproto" -c "SELECT atproto.create_tables('atproto')" -f "$HERE/latency.sql"

empty_tables() {
	"${PSQL[@]}" -o /dev/null <<X
SELECT atproto.unsubscribe(name) FROM atproto.subscription;
TRUNCATE atproto.plc_operation, atproto.plc_text, atproto.plc_refused;
CHECKPOINT;
X
}

# read_log WORKERS PATH: sets seconds; cpu and memory (MB, at most of one process) of all processes of the subscription.
read_log() {
	empty_tables
	local out
	out=$("${PSQL[@]}" <<X
SET client_min_messages = warning;
CREATE TABLE IF NOT EXISTS public.began (at timestamptz);
TRUNCATE public.began;
INSERT INTO public.began VALUES (clock_timestamp());
\o /dev/null
SELECT atproto.subscribe('bench', 'ws://127.0.0.1:$(cat "$W/port")$2/export/stream', allow_insecure => true, proxy => '', workers => $1);
\o
DO \$\$
BEGIN
	WHILE NOT EXISTS (SELECT FROM atproto.cursor WHERE subscription = 'bench' HAVING min(seq) >= $OPERATIONS) LOOP
		PERFORM pg_sleep(0.005);
		COMMIT;
	END LOOP;
END \$\$;
SELECT extract(epoch FROM clock_timestamp() - at) FROM public.began;
SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'atproto bench%' ORDER BY application_name;
X
	)
	local pids
	{ read -r seconds; mapfile -t pids; } <<<"$out"
	pid=${pids[0]} cpu=0 memory=0
	for p in "${pids[@]}"; do
		cpu=$(awk "BEGIN {print $cpu + $(cpu_seconds <"/proc/$p/stat")}")
		memory=$(awk -v most="$memory" '/^RssAnon/ {m = $2 / 1024; printf "%.0f", (m > most ? m : most)}' "/proc/$p/status")
	done
}

# One process, each other number of workers, then far away: the table's lines of these are in $W/more.
: >"$W/more"
more() {
	local of=$1 runs=() cpus=()
	for ((i = 0; i < RUNS; i++)); do
		read_log "$2" "$3"
		old=$pid
		runs+=("$seconds") cpus+=("$cpu")
	done
	awk "BEGIN {printf \"| operations verified and stored a second, by the clock, $of | %.0f |\n\", $OPERATIONS / $(median "${runs[@]}")}" >>"$W/more"
	awk "BEGIN {printf \"| ... processor time of all its processes ÷ that of the signatures | %.2f |\n\", $(median "${cpus[@]}") / ($OPERATIONS / $floor)}" >>"$W/more"
	echo "| ... memory of its largest process, MB | $memory |" >>"$W/more"
}
more "from a directory $FAR ms away" 1 "/far/$FAR"
for n in $WORKERS; do
	[ "$n" = 1 ] || more "with $n workers" "$n" ""
done

all_seconds=() all_cpu=()
for ((i = 0; i < RUNS; i++)); do
	if [ -n "${PERF:-}" ] && [ "$i" = $((RUNS - 1)) ]; then
		(
			until pid=$("${PSQL[@]}" -c "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'atproto bench%'") && [ -n "$pid" ] && [ "$pid" != "${old:-}" ]; do sleep 0.05; done
			exec perf record -q -g -F 999 -o "$PERF" -p "$pid"
		) &
		perf=$!
	fi
	read_log 1 ""
	old=$pid
	all_seconds+=("$seconds")
	all_cpu+=("$cpu")
done
[ -z "${perf:-}" ] || { kill -INT "$perf" || true; wait "$perf" || true; }
stored=$("${PSQL[@]}" -c "SELECT count(*) FROM atproto.plc_operation")
[ "$stored" = "$OPERATIONS" ] || { echo "$stored operations were stored, of $OPERATIONS" >&2; exit 1; }
seconds=$(median "${all_seconds[@]}")
cpu=$(median "${all_cpu[@]}")
bytes=$("${PSQL[@]}" -c "SELECT round((pg_total_relation_size('atproto.plc_operation') + pg_total_relation_size('atproto.plc_text')) / $OPERATIONS.0)")
parts=$("${PSQL[@]}" -F ' ' -c "SELECT round(pg_table_size('atproto.plc_operation') / $OPERATIONS.0), round(pg_indexes_size('atproto.plc_operation') / $OPERATIONS.0), round(avg(octet_length(packed))) FROM atproto.plc_operation")
texts=$("${PSQL[@]}" -c "SELECT count(*) FROM atproto.plc_text")

check=$("${PSQL[@]}" <<X
CREATE TABLE public.logs AS SELECT d.did, jsonb_agg(e ORDER BY (e ->> 'seq')::bigint) AS log
	FROM (SELECT did FROM atproto.plc_operation WHERE n = 1 AND hashtext(did::text) % 100 = 0) d, LATERAL atproto.plc_export(d.did) e GROUP BY d.did;
SELECT sum(jsonb_array_length(log)) AS n FROM public.logs \gset
\o /dev/null
SELECT clock_timestamp() AS began \gset
SELECT count(*) FROM public.logs, atproto.plc_check(log) WHERE verdict = 'valid';
SELECT clock_timestamp() AS ended \gset
\o
SELECT round(:n / extract(epoch FROM :'ended'::timestamptz - :'began'::timestamptz));
X
)

empty_tables
"${PSQL[@]}" -o /dev/null -c "SELECT atproto.subscribe('bench', 'ws://127.0.0.1:$(cat "$W/port")/live/$RATE/$LIVE/export/stream', allow_insecure => true, proxy => '')" \
	-c "CALL seen.look('SELECT min(seq) >= $OPERATIONS FROM atproto.cursor')"
# latency() counts from the first operation, the stream begins LIVE before the last
lag=$("${PSQL[@]}" -F ' ' -c "SELECT round(median + late), round(p99 + late), round(most + late) FROM seen.latency($RATE, $OPERATIONS - $LIVE + 1, $OPERATIONS),
	(SELECT ($OPERATIONS - $LIVE) * 1000.0 / $RATE AS late) l")

{
	echo "## Directory"
	echo
	echo "\`OPERATIONS=$OPERATIONS ACCOUNTS=$ACCOUNTS RUNS=$RUNS bench/plc.sh\`: $(machine). Load of the machine before it: $LOAD."
	echo
	echo "| | |"
	echo "|---|---|"
	awk "BEGIN {printf \"| operations verified and stored a second, by the clock | %.0f |\n\", $OPERATIONS / $seconds}"
	awk "BEGIN {printf \"| ... in a second of the consumer's processor time | %.0f |\n\", $OPERATIONS / $cpu}"
	echo "| operations a second whose signatures alone are verified, the floor | $floor |"
	awk "BEGIN {printf \"| the consumer's processor time ÷ that of the signatures | %.2f |\n\", $cpu / ($OPERATIONS / $floor)}"
	echo "| operations judged by plc_check() a second | $check |"
	echo "| bytes an operation, with index and texts | $bytes |"
	echo "| ... of these table, index; the packed operation | $parts |"
	echo "| texts with an id | $texts |"
	echo "| memory of the consumer, MB | $memory |"
	echo "| milliseconds from the stream's sending until another session sees the row, at $RATE a second: median, 99 %, most | $lag |"
	cat "$W/more"
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
