#!/bin/bash
# A Jetstream's archive into empty tables until the stream is followed, beside COPY of the same rows.
#
#   all          EVENTS events of ACCOUNTS accounts, with WORKERS processes each
#   collection   only COLLECTION's records of the same archive
#
#   bench/history.sh                  print the results
#   bench/history.sh --write          also put them into bench/notes
#
# make_archive.c makes the archive, archive_server serves its files, which the kernel has in memory. The stream after it has one event.
# Each run begins with empty tables and a checkpoint; runs of all kinds take turns; figures are medians of RUNS. The time of
# all begins with the row of atproto.history, and ends when another session, which looks every 5 ms, sees the position at the
# archive's end; the seam is the time from there to the stream's event. COLLECTION's time begins with subscribe(), and ends
# with the stream's event. COPY's time is psql's for one \copy of the rows of record that the first run has left, in text format.
# Memory is the anonymous memory of a process, at most. Bytes are compared with the lengths of the blocks that the server has planned.
#
# The extension must be installed, test/server built: make bench does that.  PG_CONFIG, CC, PYTHON (any python3), EVENTS, ACCOUNTS, RUNS,
# WORKERS (default 1), COLLECTION, and FSYNC (off where others use the disk, too) come from the environment.  With PERF=FILE, one
# more run of all is recorded by perf into that file.
set -euo pipefail
EVENTS=${EVENTS:-20000}
ACCOUNTS=${ACCOUNTS:-2000}
RUNS=${RUNS:-3}
WORKERS=${WORKERS:-1}
COLLECTION=${COLLECTION:-app.bsky.feed.like}
FSYNC=${FSYNC:-on}
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)

. "$HERE/server"
. "$HERE/figures"
. "$HERE/hosts_setup"
. "$HERE/archive_setup"

make_archive "$EVENTS" "$ACCOUNTS" 0 0
serve_archive
start_server <<X
fsync = $FSYNC
shared_preload_libraries = 'atproto'
shared_buffers = 1GB
max_wal_size = 16GB
checkpoint_timeout = 1h
X
"${PSQL[@]}" -o /dev/null -c "CREATE EXTENSION atproto" -c "SELECT atproto.create_tables('atproto')" -c "CREATE SCHEMA copied" -c "SELECT atproto.create_tables('copied')"

pids() { "${PSQL[@]}" -c "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'atproto bench%'"; }

# The most anonymous memory of one process of the subscription, in MB, until the file is there.
watch_memory() {	# FILE
	local pid kb max=0
	until [ -e "$1" ]; do
		for pid in $(pids); do
			kb=$(awk '/^RssAnon/ {print $2}' "/proc/$pid/status" 2>/dev/null || true)
			[ "${kb:-0}" -le "$max" ] || max=$kb
		done
		sleep 0.2
	done
	awk "BEGIN {printf \"%.0f\", $max / 1024}" >"$1.mb"
}

# Sets seconds, live (from subscribe() to the stream's event), seam, cpu, server_cpu, planned, sent, and rows: what the reader has taken.
read_archive() {	# WORKERS [OPTION OF subscribe()]
	local before
	"${PSQL[@]}" -o /dev/null <<X
SELECT atproto.unsubscribe(name) FROM atproto.subscription;
TRUNCATE atproto.record, atproto.repo;
CHECKPOINT;
X
	archive_figures >/dev/null
	before=$(cpu_seconds <"/proc/$archive/stat")
	subscribe_archive bench "workers => $1${2:-}"
	read -r seconds live seam < <(archive_times bench)
	read -r planned sent _ < <(archive_figures)
	server_cpu=$(awk "BEGIN {print $(cpu_seconds <"/proc/$archive/stat") - $before}")
	cpu=$(for pid in $(pids); do cpu_seconds <"/proc/$pid/stat"; done | awk '{s += $1} END {print s}')
	rows=$("${PSQL[@]}" -c "SELECT rows FROM atproto.history WHERE subscription = 'bench'")
}

# Sets seconds and cpu: COPY of the rows in the file.
copy() {
	local out
	"${PSQL[@]}" -o /dev/null -c "TRUNCATE copied.record" -c "CHECKPOINT"
	out=$("${PSQL[@]}" -f - <<X
SELECT pg_backend_pid() AS pid \\gset
\\setenv PID :pid
\\timing on
\\copy copied.record FROM '$W/rows'
\\timing off
\\! cat /proc/\$PID/stat
X
	)
	seconds=$(sed -nE 's/^Time: ([0-9.]+) ms.*/\1/p' <<<"$out" | awk '{print $1 / 1000}')
	cpu=$(grep -v ^Time <<<"$out" | cpu_seconds)
}

# not counted: warms up, and leaves the rows for COPY
watch_memory "$W/all" &
watching=$!
read_archive 1
touch "$W/all"
wait "$watching"
all_rows=$rows
records=$("${PSQL[@]}" -c "SELECT count(*) FROM atproto.record")
"${PSQL[@]}" -c "\\copy (SELECT * FROM atproto.record) TO '$W/rows'"
copy

declare -A all_s=() all_cpu=() seams=()
copy_s=() copy_cpu=() some_s=() some_cpu=() served=() ratios=() some_ratios=()
for ((i = 0; i < RUNS; i++)); do
	for workers in $WORKERS; do
		read_archive "$workers"
		all_s[$workers]+=" $seconds"
		all_cpu[$workers]+=" $cpu"
		seams[$workers]+=" $seam"
		served+=("$server_cpu")
		ratios+=("$(awk "BEGIN {printf \"%.3f\", $sent / $planned}")")
		different=$("${PSQL[@]}" -c "SELECT count(*) FROM (SELECT did, collection, rkey, cid, rev, value FROM copied.record EXCEPT ALL SELECT did, collection, rkey, cid, rev, value FROM atproto.record) d")
		[ "$different" = 0 ] || { echo "the tables differ in $different rows" >&2; exit 1; }
	done
	copy
	copy_s+=("$seconds")
	copy_cpu+=("$cpu")
	read_archive 1 ", collections => '{$COLLECTION}'"
	some_s+=("$live")
	some_cpu+=("$cpu")
	some_ratios+=("$(awk "BEGIN {printf \"%.3f\", $sent / $planned}")")
	some_planned=$planned
	some_rows=$("${PSQL[@]}" -c "SELECT count(*) FROM atproto.record")
done

if [ -n "${PERF:-}" ]; then
	old=$(pids | paste -sd'|')
	(
		until pid=$(pids | grep -vxE "${old:-none}" | head -1) && [ -n "$pid" ]; do sleep 0.05; done
		exec perf record -q --call-graph dwarf,16384 -F 999 -o "$PERF" -p "$pid"
	) &
	perf=$!
	read_archive 1
	kill -INT "$perf" || true
	wait "$perf" || true
fi

line() { awk "BEGIN {$1}"; }
{
	echo "## History"
	echo
	echo "\`FSYNC=$FSYNC EVENTS=$EVENTS ACCOUNTS=$ACCOUNTS RUNS=$RUNS WORKERS=\"$WORKERS\" COLLECTION=$COLLECTION bench/history.sh\`: $(machine). Medians of one run (least to most); load of the machine before it: $LOAD."
	echo "An archive of $all_rows rows, a half of them repositories one after another, in blocks of 4,096 rows: $(du -cm "$W"/archive/*.jss | tail -1 | cut -f1) MB. It leaves $records records of $ACCOUNTS accounts. The archive's server, consumer and PostgreSQL share the processors."
	echo
	echo "| | rows | seconds | rows/s | rate, divided by that of COPY | CPU time a row | COPY's CPU time a row, divided by it |"
	echo "|---|---|---|---|---|---|---|"
	copy_rate=$(line "print $records / $(median "${copy_s[@]}")")
	copy_us=$(line "print $(median "${copy_cpu[@]}") * 1e6 / $records")
	line "printf \"| COPY | %d | %.2f (%s) | %d | | %.2f µs | |\n\", $records, $(median "${copy_s[@]}"), \"$(spread "${copy_s[@]}")\", $copy_rate, $copy_us"
	for workers in $WORKERS; do
		# shellcheck disable=SC2086 # lists of numbers
		line "s = $(median ${all_s[$workers]}); c = $(median ${all_cpu[$workers]}) * 1e6 / $all_rows; printf \"| archive, processes: $workers | %d | %.2f (%s) | %d | %.2f | %.2f µs | %.2f |\n\", $all_rows, s, \"$(spread ${all_s[$workers]})\", $all_rows / s, $all_rows / s / $copy_rate, c, $copy_us / c"
	done
	line "s = $(median "${some_s[@]}"); c = $(median "${some_cpu[@]}") * 1e6 / $some_rows; printf \"| \`$COLLECTION\`, from subscribe() on | %d | %.2f (%s) | %d | %.2f | %.2f µs | %.2f |\n\", $some_rows, s, \"$(spread "${some_s[@]}")\", $some_rows / s, $some_rows / s / $copy_rate, c, $copy_us / c"
	echo
	line "printf \"At this rate a million records of the collection take %.1f s; %.1f MB were planned for these.\n\", $(median "${some_s[@]}") * 1e6 / $some_rows, $some_planned / 1e6"
	# shellcheck disable=SC2086 # a list of numbers
	line "printf \"Bytes sent, divided by those of the planned blocks: %s; of the collection: %s. From the archive's end to the stream's event: %s s. Memory: %s MB. CPU time of the archive's server: %s s a run.\n\", \"$(median "${ratios[@]}")\", \"$(median "${some_ratios[@]}")\", \"$(median ${seams[${WORKERS%% *}]})\", \"$(cat "$W/all.mb")\", \"$(median "${served[@]}")\""
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
