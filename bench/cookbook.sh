#!/bin/bash
# What the recipes of doc/use/cookbook.md cost the consumer: the same events of a simulated network,
# through a WebSocket into committed rows, with the indexes, triggers or settings of each recipe.
# Figures are the CPU time of the consumer's processes, divided by that of tables without any.
# Each recipe has a database of its own; their runs take turns; medians of RUNS.
#
#   bench/cookbook.sh               print the results
#   bench/cookbook.sh --write       also put them into bench/notes
#
# EVENTS (default 100000), RUNS (default 3), WORKERS (default 1), RECIPES (default: those below), PG_CONFIG come
# from the environment.  The extension must be installed, test/server and test/simulator built.
set -euo pipefail
EVENTS=${EVENTS:-100000}
RUNS=${RUNS:-3}
WORKERS=${WORKERS:-1}
RECIPES=${RECIPES:-none links time likes words received together}
HERE=$(cd "$(dirname "$0")" && pwd)
PAGE=$HERE/../doc/use/cookbook.md
LOAD=$(cut -d' ' -f1 /proc/loadavg)
. "$HERE/figures"
. "$HERE/server"

start_server <<X
shared_preload_libraries = 'atproto'
atproto.databases = '${RECIPES// /,}'
max_worker_processes = 60
shared_buffers = 2GB
max_wal_size = 16GB
X
"$HERE/../test/simulator/simulate" --events "$EVENTS" --accounts 10000 --mix account=0 --output "$W/capture"
"$HERE/../test/server/streamserver" --capture "$W/capture" --port-file "$W/port" >"$W/server.log" 2>&1 &
server=$!
trap 'kill $server; cleanup' EXIT
until [ -s "$W/port" ]; do sleep 0.1; done

blocks() { # HEADING: the SQL of this section
	awk -v heading="$1" '/^## / {here = (substr($0, 4) == heading)} /^```/ {sql = ($0 == "```sql"); next} sql && here' "$PAGE"
}
recipe() { # NAME
	case $1 in
		time) blocks 'Preparation' | grep '^CREATE INDEX' ;;
		likes) blocks 'A feed with like counts' ;;
		words) blocks 'Full-text search' | sed '/;$/q' ;;
		received) sed -n 's/.*`\(CREATE INDEX[^`]*brin[^`]*\)`.*/\1;/p' "$PAGE" ;;
		together) for name in time likes words received; do recipe "$name"; done ;;
	esac
}
for name in $RECIPES; do
	"${PSQL[@]}" -o /dev/null -c "CREATE DATABASE $name"
	{
		echo "CREATE EXTENSION atproto; SELECT atproto.create_tables('atproto');"
		blocks 'Preparation' | grep create_view
		recipe "$name"
	} | "${PSQL[@]}" -o /dev/null -d "$name" -f -
done

run() { # NAME: sets cpu
	local links=none likes=
	case $1 in links | together) links=all ;; esac
	case $1 in likes | together) likes=", post_likes" ;; esac
	"${PSQL[@]}" -o /dev/null -d "$1" <<-X
		TRUNCATE atproto.record, atproto.repo, atproto.link, atproto.link_source $likes;
		CHECKPOINT;
		SELECT atproto.subscribe('bench', 'ws://127.0.0.1:$(cat "$W/port")', cursor => 0, proxy => '', links => '$links', workers => $WORKERS);
	X
	until [ "$("${PSQL[@]}" -d "$1" -c "SELECT seq FROM atproto.stat_subscription")" = "$EVENTS" ]; do sleep 0.2; done
	cpu=$(for pid in $("${PSQL[@]}" -d "$1" -c "SELECT pid FROM pg_stat_activity WHERE datname = '$1' AND application_name LIKE 'atproto bench%'"); do
		cpu_seconds <"/proc/$pid/stat"
	done | awk '{s += $1} END {print s}')
	"${PSQL[@]}" -o /dev/null -d "$1" -c "SELECT atproto.unsubscribe('bench')"
	until [ "$("${PSQL[@]}" -c "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'atproto bench%'")" = 0 ]; do sleep 0.1; done
}
for ((i = 0; i <= RUNS; i++)); do
	for name in $RECIPES; do
		run "$name"
		[ "$i" = 0 ] || echo "$cpu" >>"$W/$name"	# the first is to warm up
	done
done

what() {
	case $1 in
		none) echo "no recipe" ;;
		links) echo "\`links => 'all'\`" ;;
		time) echo "the index \`record_post_time\`" ;;
		likes) echo "the triggers of like counts" ;;
		words) echo "the index of words" ;;
		received) echo "the BRIN index on \`indexed_at\`" ;;
		together) echo "all of these" ;;
	esac
}
none=$(median $(cat "$W/none"))
{
	echo "## Cookbook"
	echo
	echo "\`EVENTS=$EVENTS RUNS=$RUNS WORKERS=$WORKERS bench/cookbook.sh\`: $(machine). What the recipes of [doc/use/cookbook.md](../../doc/use/cookbook.md) cost the consumer: CPU time of its processes for the same events of a simulated network, and" \
		"how many times that of tables without any recipe. Medians of runs in turns; load of the machine before: $LOAD."
	echo
	echo "| with | CPU time an event, least to most | times |"
	echo "|---|---|---|"
	for name in $RECIPES; do
		awk -v what="$(what "$name")" -v n="$EVENTS" -v m="$(median $(cat "$W/$name"))" -v none="$none" -v s="$(spread $(cat "$W/$name"))" \
			'BEGIN {split(s, r, " to "); printf "| %s | %.1f µs, %.1f to %.1f | %.2f |\n", what, m / n * 1e6, r[1] / n * 1e6, r[2] / n * 1e6, m / none}'
	done
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
