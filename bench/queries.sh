#!/bin/bash
# The same five questions that JSONBench asks of events of the network: of the
# table "record" with the indexes and statements of doc/use/queries.md, and of a
# table as JSONBench has it for PostgreSQL, one jsonb document per event with one
# index on expressions (bench/queries.sql).  Its rules forbid columns as those of
# "record", so that this is not that benchmark.  Both tables have the same events,
# in the same order; indexes are made before the rows come.  Every query must
# give the same rows on both.  Figures are medians of RUNS hot runs, in
# milliseconds of the server process's time on a processor (from Linux's schedstat).
#
# Then every other statement of doc/use/queries.md is run, to see that it is right.
#
#   bench/queries.sh                print the table
#   bench/queries.sh --write        also put it into bench/notes
#
# EVENTS (default 1000000), RUNS (default 5), PG_CONFIG (default pg_config) come
# from the environment.  The extension must be installed.
set -euo pipefail
EVENTS=${EVENTS:-1000000}
RUNS=${RUNS:-5}
HERE=$(cd "$(dirname "$0")" && pwd)
DOC=$HERE/../doc/use/queries.md

. "$HERE/server"

start_server <<X
timezone = 'UTC'
wal_level = minimal
max_wal_senders = 0
max_wal_size = 16GB
shared_buffers = 2GB
work_mem = 64MB
random_page_cost = 1.1
X

statement() { # FILE N: the statement that begins with "-- QN:"
	awk -v begin="-- Q$2:" 'index($0, begin) == 1 {on = 1} on {print} on && /;$/ {exit}' "$1"
}
blocks() { # [HEADING]: the SQL of the document, or of its section
	awk -v heading="${1:-}" '/^## / {here = (substr($0, 4) == heading)}
		/^```/ {sql = ($0 == "```sql"); next} sql && (here || heading == "")' "$DOC"
}

"${PSQL[@]}" -o /dev/null -c "CREATE EXTENSION atproto" -c "SELECT atproto.create_tables('atproto')"
blocks Indexes | "${PSQL[@]}" -f -
"${PSQL[@]}" -v events="$EVENTS" -f "$HERE/events.sql" -f "$HERE/took.sql" -f - <<'SQL'
INSERT INTO atproto.record (did, collection, rkey, cid, rev, value) SELECT did, collection, rkey, cid, rev, value FROM simulated_record;

CREATE TABLE bluesky (data jsonb COMPRESSION lz4 NOT NULL);
CREATE INDEX bluesky_index ON bluesky ((data->>'kind'), (data->'commit'->>'operation'), (data->'commit'->>'collection'),
	(data->>'did'), (to_timestamp((data->>'time_us')::bigint / 1000000.0)));
INSERT INTO bluesky
SELECT jsonb_build_object('did', did, 'time_us', tid_micros(rev), 'kind', 'commit', 'commit', jsonb_build_object(
	'rev', rev, 'operation', 'create', 'collection', collection, 'rkey', rkey, 'record', value, 'cid', cid))
FROM atproto.record ORDER BY rev;
VACUUM (ANALYZE) atproto.record, bluesky;
CHECKPOINT;
SQL

row() { # WHAT OURS THEIRS WANTED
	awk -v what="$1" -v a="$2" -v b="$3" -v wanted="$4" 'BEGIN {printf "| %s | %s | %s | %.3g | %s |\n", what, digits(a), digits(b), a / b, wanted}
		function digits(x) {return sprintf(x < 10 ? "%.3f" : "%.1f", x)}'
}
{
	for q in 1 2 3 4 5; do
		statement "$DOC" $q >ours
		statement "$HERE/queries.sql" $q >theirs
		# a number's trailing zeros are no difference
		"${PSQL[@]}" -f ours | sed -E 's/(\.[0-9]*[1-9])0+$/\1/' >ours.rows
		"${PSQL[@]}" -f theirs | sed -E 's/(\.[0-9]*[1-9])0+$/\1/' >theirs.rows
		if ! [ -s ours.rows ] || ! diff ours.rows theirs.rows >&2; then
			echo "Q$q: the results differ" >&2
			exit 1
		fi
		read -r a b <<<"$("${PSQL[@]}" -F ' ' -v runs="$RUNS" -v ours="$(cat ours)" -v theirs="$(cat theirs)" -f - <<'SQL'
-- a statement as often as it takes to be measurable: the kernel counts in ticks
CREATE FUNCTION pg_temp.took_often(statement text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	started float8 := busy();
	passed float8 := 0;
	n int := 0;
BEGIN
	WHILE passed < 40 LOOP
		EXECUTE statement;
		n := n + 1;
		passed := busy() - started;
	END LOOP;
	RETURN passed / n;
END $$;
-- the median of each statement's runs, in turn
CREATE FUNCTION pg_temp.compare(ours text, theirs text, runs int, OUT a float8, OUT b float8) LANGUAGE plpgsql AS $$
DECLARE
	took float8[];
	other float8[];
BEGIN
	FOR i IN 0..runs LOOP
		took := took || pg_temp.took_often(ours);
		other := other || pg_temp.took_often(theirs);
		IF i = 0 THEN took := NULL; other := NULL; END IF; -- warm up
	END LOOP;
	a := (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM unnest(took) x);
	b := (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM unnest(other) x);
END $$;
SELECT * FROM pg_temp.compare(:'ours', :'theirs', :runs);
SQL
		)"
		row "$(sed -n '1s/^-- //p' ours)" "$a" "$b" ""
		echo "$a $b" >>times
	done
	read -r a b <<<"$(awk '{x += log($1); y += log($2)} END {print exp(x / NR), exp(y / NR)}' times)"
	row "geometric mean of the five" "$a" "$b" "at most 0.2"
	# Q4 reads three entries of an index, whatever the size
	read -r a b <<<"$(awk 'NR != 4 {x += log($1); y += log($2); n++} END {print exp(x / n), exp(y / n)}' times)"
	row "geometric mean without Q4" "$a" "$b" ""
	size() { "${PSQL[@]}" -c "SELECT pg_total_relation_size('$1') / 1e6"; }
	row "table and indexes, MB" "$(size atproto.record)" "$(size bluesky)" "at most 0.7"
} >table

blocks | grep -v '^\(ALTER TABLE\|CREATE INDEX record_\(collection\|post\)\)' | "${PSQL[@]}" -o /dev/null -f -

{
	echo "## Queries"
	echo
	echo "\`EVENTS=$EVENTS RUNS=$RUNS bench/queries.sh\`: $(machine). The same five questions that JSONBench asks, of \`record\` with the indexes and statements of [doc/use/queries.md](../../doc/use/queries.md)," \
		"compared with its own layout for PostgreSQL: one jsonb document per event, and an index on five expressions. The same $EVENTS events" \
		"(\`bench/events.sql\`) in both, the same rows as results. Medians of hot runs, in milliseconds of processor time; the ratio is the extension's figure divided" \
		"by the other one. For both: \`shared_buffers = 2GB\`, \`work_mem = 64MB\`, \`random_page_cost = 1.1\`, no parallel query, no JIT; indexes made first, then the rows, then \`VACUUM (ANALYZE)\`."
	echo
	echo "| what | extension | JSON documents | ratio | wanted |"
	echo "|---|---|---|---|---|"
	cat table
} >section
cat section
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
