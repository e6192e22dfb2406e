#!/bin/bash
# Many repositories on one server: REPOS repositories of RECORDS records come by a backfill of the whole network, LIVE events of
# the same accounts come by the stream, and then everything is done that an operator does with full tables.
#
#   bench/million.sh                  print the results
#   bench/million.sh --write          also put them into bench/notes
#
# The backfill is of hosts (BY=hosts, the default), or of the archive of a Jetstream (BY=archive, faster by far: REPOS * RECORDS events,
# of which a half are repositories one after another), with archive_server.
#
# made_hosts.c answers for HOSTS hosts and makes each repository when it is asked for; make_likes.c makes the events.  The lists of
# repositories come from one host, the repositories from the accounts' hosts, whose identities are known beforehand.  One run:
# the phases follow each other on one server, and each has its time, the memory of each kind of process (anonymous, the most that
# was seen once a second), and each statement that took longer than SLOW ms (pg_stat_statements).
#
# The extension must be installed, test/server built: make bench does that.  PG_CONFIG, CC, PYTHON (with cbor2, for BY=archive), REPOS
# (default 10000), RECORDS (20), LIVE (20000), HOSTS (1000), WORKERS (1), SLOW (50), FSYNC (off where others use the disk, too), REST (60,
# seconds without events), VALUE (type of the records' values, jsonb or dagcbor) and RESTORE (tables that pg_restore brings back; default
# "all") come from the environment.  With PROGRESS=FILE, a line each second of the backfill is left there: seconds, repositories or
# events, CPU time.  A million repositories of 20 records need about 35 GB of disk.
set -euo pipefail
REPOS=${REPOS:-10000}
RECORDS=${RECORDS:-20}
LIVE=${LIVE:-20000}
HOSTS=${HOSTS:-1000}
WORKERS=${WORKERS:-1}
SLOW=${SLOW:-50}
FSYNC=${FSYNC:-on}
REST=${REST:-60}
RESTORE=${RESTORE:-all}
VALUE=${VALUE:-jsonb}
BY=${BY:-hosts}
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)

. "$HERE/server"
. "$HERE/figures"
. "$HERE/hosts_setup"
. "$HERE/archive_setup"

for program in made_hosts make_likes; do
	"${CC:-cc}" -std=gnu11 -O2 -I"$HERE/../src" -I"$HERE/../test" -o "$W/$program" "$HERE/$program.c" "$HERE"/{made,made_repo,made_account,made_frame}.c \
		"$HERE"/../src/core/*.c "$HERE"/../src/core/*/*.c "$HERE"/../test/protocol/*.c -lcbor -lcrypto
done
stop_programs() { kill ${hosts:-} ${archive:-} ${stream:-} ${sampler:-} || true; }
trap 'stop_programs; cleanup' EXIT
if [ "$BY" = archive ]; then
	make_archive $((REPOS * RECORDS)) "$REPOS" 0 0 "$REPOS"
	tip=$archive_tip
	"$W/make_likes" "$REPOS" 1 "$LIVE" 65536 >"$W/likes"
	"${PYTHON:-python3}" -B "$HERE/../test/oracle/jetstream.py" v2 "$W/likes" --first $((tip + 1)) >"$W/archive/stream"
	serve_archive --hold-at $((tip + 1))
	port=0
else
	tip=0
	"$W/make_likes" "$REPOS" "$RECORDS" "$LIVE" >"$W/likes"
	"$W/made_hosts" "$REPOS" "$RECORDS" "$W/hosts_port" &
	hosts=$!
	"$HERE/../test/server/streamserver" --capture "$W/likes" --hold-at 1 --port-file "$W/stream_port" >"$W/stream.log" 2>&1 &
	stream=$!
	until [ -s "$W/hosts_port" ] && [ -s "$W/stream_port" ]; do
		kill -0 "$hosts" && kill -0 "$stream" || { cat "$W/stream.log" >&2; exit 1; }
		sleep 0.1
	done
	port=$(cat "$W/hosts_port")
fi
trap 'stop_programs; cleanup' EXIT

start_server <<X
fsync = $FSYNC
autovacuum = on
shared_preload_libraries = 'atproto, pg_stat_statements'
pg_stat_statements.track = all
shared_buffers = 2GB
maintenance_work_mem = 1GB
wal_level = minimal
max_wal_senders = 0
max_wal_size = 6GB
checkpoint_timeout = 15min
random_page_cost = 1.1
atproto.fetch_allow = '$(seq -f "http://h%g.localhost:$port" -s ', ' 0 $((HOSTS - 1)))'
X

value() { "${PSQL[@]}" -c "$1"; }
run() { "${PSQL[@]}" -o /dev/null -c "$1"; }
cpu() { cpu_seconds <"/proc/$1/stat"; }
now() { date +%s.%N; }
calc() { awk "BEGIN {printf \"%.${2:-1}f\", $1}"; }
pid_of() { value "SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'atproto $1%' ORDER BY pid LIMIT 1"; }

# The memory of each process, once a second: phase, kind of process, kB.
sample() {
	local pid postmaster kind kb
	while sleep 1; do
		postmaster=$(head -1 "$W/data/postmaster.pid" 2>/dev/null || true)
		for pid in $(ps -o pid= --ppid "${postmaster:-none}" 2>/dev/null || true); do
			kind=$({ tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | sed -E 's/^postgres: *//; s/^postgres .*\[local\].*/session/; s/^(atproto [a-z]+( worker)?|parallel worker|autovacuum worker).*/\1/; s/ *$//' || true)
			kb=$(awk '/^RssAnon/ {print $2}' "/proc/$pid/status" 2>/dev/null || true)
			printf '%s\t%s\t%s\n' "$(cat "$W/phase")" "$kind" "${kb:-0}"
		done
	done >>"$W/memory"
}

# What follows belongs to this phase.
phase() {
	echo "$1" >"$W/phase"
	run "SELECT pg_stat_statements_reset()"
	phase_began=$(now)
}

# The end of a phase: a row for the table, and its slow statements.
ended() {	# NOTE
	local seconds
	seconds=$(calc "$(now) - $phase_began")
	echo "| $(cat "$W/phase") | $seconds s | ${1:-} |" >>"$W/phases"
	tail -1 "$W/phases" >&2
	"${PSQL[@]}" >>"$W/statements" <<X
SELECT format('| %s | %s | %s | %s | \`%s\` |', '$(cat "$W/phase")', calls, round(mean_exec_time::numeric, 1), round(max_exec_time::numeric), left(translate(regexp_replace(query, '\s+', ' ', 'g'), '|\`', '/'''), 300))
FROM pg_stat_statements WHERE max_exec_time > $SLOW ORDER BY total_exec_time DESC LIMIT 25;
X
}

sizes() {
	"${PSQL[@]}" <<'X'
SELECT format('| `%s.%s` | %s | %s | %s | %s MB |', n.nspname, c.relname, s.rows, CASE WHEN s.rows > 0 THEN round(pg_table_size(c.oid)::numeric / s.rows) END,
	CASE WHEN s.rows > 0 THEN round(pg_indexes_size(c.oid)::numeric / s.rows) END, round(pg_total_relation_size(c.oid) / 1e6, 1))
FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace,
	LATERAL (SELECT (xpath('/row/c/text()', query_to_xml(format('SELECT count(*) AS c FROM %I.%I', nspname, relname), false, true, '')))[1]::text::numeric AS rows) s
WHERE relkind = 'r' AND nspname IN ('atproto', 'net') AND (s.rows > 100 OR pg_total_relation_size(c.oid) > 200000) ORDER BY pg_total_relation_size(c.oid) DESC;
X
}

# Each index on its own, largest first.
index_sizes() {
	value "SELECT format('| \`%s.%s\` | %s MB |', nspname, relname, round(pg_relation_size(c.oid) / 1e6)) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE relkind = 'i' AND nspname IN ('atproto', 'net') AND pg_relation_size(c.oid) > 1000000 ORDER BY pg_relation_size(c.oid) DESC"
}

# Views of the extension, and what contrib/monitoring asks: those that take longer than SLOW.
slow_views() {
	{
		value "SELECT format('SELECT * FROM atproto.%I', relname) FROM pg_class WHERE relkind = 'v' AND relnamespace = 'atproto'::regnamespace"
		awk '/^[a-z]/ {q = ""} /query: \|/ {on = 1; next} /^  metrics:/ {on = 0; print q} on {gsub(/^ +/, ""); q = q " " $0}' "$HERE/../contrib/monitoring/queries.yaml"
	} >"$W/questions"
	while read -r question; do
		printf '%s\t%s\n' "$(printf '\\o /dev/null\n\\timing on\n%s;\n' "$question" | "${PSQL[@]}" -f - 2>&1 | sed -nE 's/^Time: ([0-9]+).*/\1/p')" "$question"
	done <"$W/questions" | sort -rn | awk -F'\t' -v slow="$SLOW" '$1 + 0 > slow {print "| " $1 " ms | `" substr($2, 1, 200) "` |"}'
}

# Seconds of processor time: manager, consumers, fetcher.
consumers() { for pid in $(value "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'atproto net%'"); do cpu "$pid"; done | awk '{s += $1} END {print s + 0}'; }
processes() {
	local fetcher
	fetcher=$(pid_of fetcher)
	echo "$(cpu "$(pid_of manager)"), $(consumers), $([ -z "$fetcher" ] && echo none || cpu "$fetcher")"
}

streams() { until [ "$(value "SELECT count(*) FROM atproto.stat_subscription WHERE state = 'streaming'")" = 1 ]; do sleep 0.1; done; }

echo start >"$W/phase"
run "CREATE EXTENSION pg_stat_statements"
run "CREATE EXTENSION atproto"
run "CREATE SCHEMA net"
run "SELECT atproto.create_tables('net', value => '$VALUE')"
sample &
sampler=$!

phase "identities"
"${PSQL[@]}" -o /dev/null <<X
CREATE FUNCTION public.account(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS \$\$
	SELECT 'did:plc:' || string_agg(substr('234567abcdefghijklmnopqrstuvwxyz', (n >> 5 * i & 31)::int + 1, 1), '' ORDER BY i) || repeat('2', 19) FROM generate_series(0, 4) i \$\$;
INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at)
	SELECT public.account(n)::did, 'good', decode(repeat('e7', 35), 'hex'), format('http://h%s.localhost:$port', n % $HOSTS), now(), now() FROM generate_series(0, $REPOS - 1) n;
VACUUM ANALYZE atproto.identity;
X
ended "$REPOS rows by INSERT"

# --- backfill ---

: >"$W/views_backfill"
by_hosts() {
	local fetcher before lsn fetched half='' seconds spent
	"${PSQL[@]}" -o /dev/null <<X
SET client_min_messages = warning;
SELECT atproto.subscribe('net', 'ws://127.0.0.1:$(cat "$W/stream_port")', cursor => 0, target => 'net', proxy => '', allow_insecure => true, workers => $WORKERS, links => 'all', count_collections => true,
	backfill => 'network', list_source => 'http://h0.localhost:$port', repo_source => 'pds');
X
	until fetcher=$(pid_of fetcher) && [ -n "$fetcher" ]; do sleep 0.1; done
	before=$(cpu "$fetcher")
	lsn=$(value "SELECT pg_current_wal_lsn()")
	until [ "$(value "SELECT EXISTS (SELECT FROM atproto.enumeration WHERE finished_at IS NOT NULL) AND NOT EXISTS (SELECT FROM atproto.repo_job)")" = t ]; do
		fetched=$(value "SELECT COALESCE(sum(repositories), 0) FROM atproto.repo_total")
		progress "$fetched" "$(cpu "$fetcher")"
		if [ -z "$half" ] && [ "$fetched" -ge $((REPOS / 2)) ]; then
			half="$fetched in $(calc "$(now) - $phase_began") s"
			slow_views >"$W/views_backfill"
		fi
		sleep 1
	done
	seconds=$(calc "$(now) - $phase_began")
	spent=$(calc "$(cpu "$fetcher") - $before" 2)
	records=$(value "SELECT count(*) FROM net.record")
	[ "$records" = $((REPOS * RECORDS)) ] || { value "SELECT * FROM atproto.repo_problem LIMIT 5" >&2; exit 1; }
	ended "$(calc "$REPOS / $seconds" 0) repositories/s, $(calc "$records / $seconds" 0) records/s; CPU time of the fetcher $(calc "$spent * 1000 / $REPOS" 2) ms a repository; $(calc "$(value "SELECT pg_current_wal_lsn() - '$lsn'") / $REPOS" 0) bytes of log a repository; first $half"
}
by_archive() {
	local lsn seconds spent rows=0 half=''
	lsn=$(value "SELECT pg_current_wal_lsn()")
	subscribe_archive net "target => 'net', workers => $WORKERS, links => 'all', count_collections => true"
	until [ "${rows:-0}" -ge "$tip" ]; do
		sleep 1
		rows=$(value "SELECT min(seq) FROM atproto.cursor WHERE subscription = 'net'")
		progress "$rows" "$(consumers)"
		if [ -z "$half" ] && [ "${rows:-0}" -ge $((tip / 2)) ]; then
			half="$rows in $(calc "$(now) - $phase_began") s"
			slow_views >"$W/views_backfill"
		fi
	done
	seconds=$(calc "$(now) - $phase_began")
	spent=$(consumers)
	records=$(value "SELECT count(*) FROM net.record")
	ended "$tip events, $records records: $(calc "$tip / $seconds" 0) events/s; $(calc "$spent * 1e6 / $tip") µs of CPU time and $(calc "$(value "SELECT pg_current_wal_lsn() - '$lsn'") / $tip" 0) bytes of log an event; first $half"
}
progress() {	# DONE CPU
	echo "$(calc "$(now) - $phase_began") $*" >>"$W/progress"
	[ -z "${PROGRESS:-}" ] || cp "$W/progress" "$PROGRESS"
}
phase "backfill"
"by_$BY"
sizes >"$W/sizes"
index_sizes >"$W/indexes"

# --- live ---

phase "live"
before=$(consumers)
lsn=$(value "SELECT pg_current_wal_lsn()")
kill -USR1 "$stream"
until [ "$(value "SELECT COALESCE(min(seq), 0) >= $((tip + LIVE)) FROM atproto.cursor WHERE subscription = 'net'")" = t ]; do sleep 0.2; done
seconds=$(calc "$(now) - $phase_began" 2)
spent=$(calc "$(consumers) - $before" 2)
ended "$(calc "$LIVE / $seconds" 0) events/s; $(calc "$spent * 1e6 / $LIVE") µs of CPU time and $(calc "$(value "SELECT pg_current_wal_lsn() - '$lsn'") / $LIVE" 0) bytes of log an event"
[ "$(value "SELECT count(*) FROM net.record")" = $((records + LIVE)) ] || { value "SELECT * FROM atproto.status" >&2; exit 1; }

phase "at rest"
before=$(processes)
sleep "$REST"
ended "CPU time of manager, consumers, fetcher, in s: $before before, $(processes) after"
phase "views at rest"
slow_views >"$W/views"
ended "all views of the extension and questions of contrib/monitoring, once each"

# --- what operators do ---

phase "check()"
found=$(value "SELECT count(*) FROM atproto.check()")
ended "$found rows"
phase "check(share => 0.01)"
run "SELECT * FROM atproto.check(share => 0.01)"
ended
phase "audit() of 1,000 repositories"
run "SELECT count(*) FROM (SELECT did FROM net.repo LIMIT 1000) r, atproto.audit(did, 'net') a"
ended
phase "audit_all()"
run "CALL atproto.audit_all('net')"
ended "$(value "SELECT string_agg(format('%s %s', n, sync), ', ') FROM (SELECT sync, count(*) n FROM net.repo GROUP BY 1) x")"
for table in net.record net.link net.repo atproto.identity; do
	phase "VACUUM (ANALYZE) $table"
	run "VACUUM (ANALYZE) $table"
	ended
done
phase "restart"
as "$BIN/pg_ctl" -D "$W/data" -l "$W/log" -m fast -w -t 600 restart >/dev/null
streams
ended "until the subscription streams"
phase "count_links()"
run "SELECT atproto.count_links('{app.bsky.feed.like:subject.uri,app.bsky.graph.follow:subject}', 'net')"
ended "$(value "SELECT format('%s counts of %s links, the largest %s; %s MB', count(*), sum(n), max(n), round(pg_total_relation_size('net.link_count') / 1e6)) FROM net.link_count")"
phase "pg_dump -Fd -j 2 -Z 3"
as "$BIN/pg_dump" -h "$W" -U postgres -Fd -j 2 -Z 3 -f "$W/dump" postgres
ended "$(du -sm "$W/dump" | cut -f1) MB"
phase "pg_restore, $RESTORE"
run "CREATE DATABASE again TEMPLATE template0"
again=("$BIN/psql" -h "$W" -U postgres -X -q -At -v ON_ERROR_STOP=1 again)
if [ "$RESTORE" = all ]; then
	as "$BIN/pg_restore" -h "$W" -U postgres -d again -j 2 "$W/dump"
else
	"${again[@]}" -o /dev/null -c "SET client_min_messages = warning" -c "CREATE EXTENSION atproto" -c "CREATE SCHEMA net"
	# shellcheck disable=SC2046,SC2086 # words
	as "$BIN/pg_restore" -h "$W" -U postgres -d again -j 2 -n net $(printf -- '-t %s ' $RESTORE) "$W/dump"
fi
ended "$("${again[@]}" -c "SELECT round(pg_database_size('again') / 1e6)") MB"
rm -rf "$W/dump"
run "DROP DATABASE again WITH (FORCE)"
phase "partition() by collection"
run "SELECT atproto.pause('net')"
until [ "$(value "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'atproto net%'")" = 0 ]; do sleep 0.1; done
run "SELECT atproto.partition('net', 'collection')"
ended "the tables are locked meanwhile"

{
	echo "### Million: $REPOS repositories by $BY, values of $VALUE"
	echo
	echo "\`FSYNC=$FSYNC REPOS=$REPOS RECORDS=$RECORDS LIVE=$LIVE HOSTS=$HOSTS WORKERS=$WORKERS VALUE=$VALUE BY=$BY bench/million.sh\`: $(machine). One run; load of the machine before it: $LOAD, after it: $(cut -d' ' -f1 /proc/loadavg)."
	echo
	echo "| | time | |"
	echo "|---|---|---|"
	cat "$W/phases"
	echo
	echo "After the backfill:"
	echo
	echo "| table | rows | table, bytes a row | indexes, bytes a row | in all |"
	echo "|---|---|---|---|---|"
	cat "$W/sizes"
	echo
	echo "| index | |"
	echo "|---|---|"
	cat "$W/indexes"
	echo
	echo "Anonymous memory, at most, in MB, above 20:"
	echo
	echo "| phase | process | MB |"
	echo "|---|---|---|"
	awk -F'\t' '{k = $1 " | " $2; if ($3 > m[k]) m[k] = $3} END {for (k in m) if (m[k] > 20480) printf "| %s | %d |\n", k, m[k] / 1024}' "$W/memory" | sort
	echo
	echo "Statements of more than $SLOW ms:"
	echo
	echo "| phase | calls | mean ms | longest | |"
	echo "|---|---|---|---|---|"
	cat "$W/statements"
	echo
	echo "Views and questions of contrib/monitoring that take more than $SLOW ms, in the middle of the backfill, then at rest:"
	echo
	echo "| | |"
	echo "|---|---|"
	cat "$W/views_backfill"
	echo "| **at rest** | |"
	cat "$W/views"
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
