#!/bin/bash
# Queries of a view that create_view() made, and of a table with the same columns stored:
# posts of bench/events.sql alone in a table "record", and as many likes in another.  Both must give the same rows.
# Figures are medians of RUNS hot runs, in turn, in milliseconds of the server process's
# time on a processor (from Linux's schedstat).
#
#   bench/views.sh                print the table
#   bench/views.sh --write        also put it into bench/notes
#
# EVENTS (default 1000000, of which some 12 % are posts), RUNS (default 9), PG_CONFIG
# (default pg_config) come from the environment.  The extension must be installed.
set -euo pipefail
EVENTS=${EVENTS:-1000000}
RUNS=${RUNS:-9}
HERE=$(cd "$(dirname "$0")" && pwd)

. "$HERE/server"

start_server <<X
timezone = 'UTC'
wal_level = minimal
max_wal_senders = 0
shared_buffers = 1GB
work_mem = 64MB
X

"${PSQL[@]}" -o /dev/null -c "CREATE EXTENSION atproto" -c "SELECT atproto.create_tables('atproto')" \
	-c "SELECT atproto.create_view('app.bsky.feed.post', schema => 'public', view => 'post_seen')" \
	-c "CREATE SCHEMA likes" -c "SELECT atproto.create_tables('likes')" \
	-c "SELECT atproto.create_view('app.bsky.feed.like', target => 'likes', schema => 'public', view => 'like_seen')"
"${PSQL[@]}" -v events="$EVENTS" -f "$HERE/events.sql" -f "$HERE/took.sql" -f - <<'SQL'
INSERT INTO atproto.record (did, collection, rkey, cid, rev, value)
SELECT did, collection, rkey, cid, rev, value FROM simulated_record WHERE collection = 'app.bsky.feed.post';
INSERT INTO likes.record (did, collection, rkey, cid, rev, value)
SELECT did, collection, rkey, cid, rev, value FROM simulated_record WHERE collection = 'app.bsky.feed.like' LIMIT (SELECT count(*) FROM atproto.record);
CREATE TABLE post_stored AS SELECT * FROM post_seen;
CREATE TABLE like_stored AS SELECT * FROM like_seen;
VACUUM (ANALYZE) atproto.record, likes.record, post_stored, like_stored;

-- the median of each one's runs, in turn
CREATE FUNCTION compare(query text, runs int, OUT seen float8, OUT stored float8) LANGUAGE plpgsql AS $$
DECLARE
	a float8[];
	b float8[];
BEGIN
	FOR i IN 0..runs LOOP
		a := a || took(format(query, 'seen'));
		b := b || took(format(query, 'stored'));
		IF i = 0 THEN a := NULL; b := NULL; END IF; -- warm up
	END LOOP;
	seen := (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM unnest(a) x);
	stored := (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM unnest(b) x);
END $$;
SQL

row() { # WHAT QUERY
	# shellcheck disable=SC2059 # %s says which of the two
	if ! [ "$("${PSQL[@]}" -c "$(printf "$2" seen)")" = "$("${PSQL[@]}" -c "$(printf "$2" stored)")" ]; then
		echo "$1: the results differ" >&2
		exit 1
	fi
	"${PSQL[@]}" -F ' ' -v query="$2" -v runs="$RUNS" -f - <<<"SELECT * FROM compare(:'query', :runs)" |
		awk -v what="$1" '{printf "| %s | %.1f | %.1f | %.2f | at most 2.2 |\n", what, $1, $2, $1 / $2}'
}
{
	row "posts and length of their texts by hour" \
		"SELECT date_trunc('hour', created_at) AS hour, count(*), sum(length(text)) FROM post_%s GROUP BY 1 ORDER BY 1"
	row "posts with a word" "SELECT count(*) FROM post_%s WHERE text ILIKE '%%abc%%'"
	row "posts in a language" "SELECT count(*) FROM post_%s WHERE 'en' = ANY (langs)"
	row "likes by their subject" "SELECT subject_uri, count(*) FROM like_%s GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10"
} >table

{
	echo "## Views"
	echo
	echo "\`EVENTS=$EVENTS RUNS=$RUNS bench/views.sh\`: $(machine), load $(cut -d' ' -f1 /proc/loadavg)." \
		"$("${PSQL[@]}" -c "SELECT count(*) FROM post_stored") posts of \`bench/events.sql\`, and as many likes, each in a [view](../../doc/use/lexicons.md) over \`record\` and in a table that has its columns stored." \
		"Medians of hot runs, in milliseconds of processor time. No parallel query, no JIT."
	echo
	echo "| what | view | stored | ratio | wanted |"
	echo "|---|---|---|---|---|"
	cat table
} >section
cat section
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
