#!/bin/bash
# How the table "record" behaves as it grows, plain and in partitions: what
# inserting and reading cost at each size, what it takes to remove old rows, and
# how far the tables that are updated all the time grow.
#
# The rows are those of bench/events.sql.  Each layout is filled to each size
# (without indexes, which are made then: that takes less time).  There the next
# 100,000 rows are inserted as the consumer does, after a checkpoint, so that
# the log has the most full pages; then it is vacuumed and read.  Figures are of
# the server process's time on a processor (from Linux's schedstat), so that the
# machine's other work counts little.
#
#   bench/scale.sh                  print the tables
#   bench/scale.sh --write          also put them into bench/README.md
#
# STEPS (default "1 5": millions of rows) and PG_CONFIG come from the
# environment.  "1 5 20" takes 25 GB of disk.
set -euo pipefail
STEPS=${STEPS:-1 5}
HERE=$(cd "$(dirname "$0")" && pwd)
FRESH=100000
. "$HERE/server"

start_server <<X
timezone = 'UTC'
max_wal_size = 8GB
shared_buffers = 4GB
work_mem = 64MB
maintenance_work_mem = 1GB
random_page_cost = 1.1
autovacuum_naptime = 1s
X

"${PSQL[@]}" -v events=$((${STEPS##* } * 1000000 + FRESH)) -o /dev/null -c "CREATE EXTENSION atproto" \
	-c "SELECT atproto.create_tables('atproto')" -f "$HERE/events.sql" -f "$HERE/scale.sql" -f - <<'SQL'
CREATE UNLOGGED TABLE stage AS SELECT * FROM simulated_record;
SQL

for layout in plain hash list; do
	"${PSQL[@]}" -o /dev/null -c "CALL make_layout('$layout')"
	there=0
	for step in $STEPS; do
		rows=$((step * 1000000))
		"${PSQL[@]}" -o /dev/null -c "SET search_path = $layout, public" \
			-c "INSERT INTO record (did, collection, rkey, cid, rev, value) SELECT did, collection, rkey, cid, rev, value FROM stage WHERE n > $there AND n <= $rows" \
			-c "CALL make_indexes()" -c "VACUUM (ANALYZE) record" -c "CALL choose_rows($rows, $FRESH)" \
			-c "CHECKPOINT" -c "CALL insert_rows($step, $rows, $FRESH)" -c "VACUUM (ANALYZE) record" -c "CALL read_rows($step)"
		[ $step = ${STEPS##* } ] || "${PSQL[@]}" -c "SET search_path = $layout, public" -c "CALL drop_indexes()"
		there=$((rows + FRESH))
	done
	case $layout in
		plain) remove="DELETE FROM record WHERE collection = 'app.bsky.feed.like' AND rkey < tid_floor('2026-01-01 06:00Z')::recordkey; VACUUM record" ;;
		hash) remove= ;;
		list) remove="DROP TABLE record_like_0" ;;
	esac
	if [ -n "$remove" ]; then
		"${PSQL[@]}" -c "SET search_path = $layout, public" -v remove="$remove" -f "$HERE/scale-remove.sql"
	fi
	"${PSQL[@]}" -o /dev/null -c "SET client_min_messages = warning" -c "DROP SCHEMA $layout CASCADE"
done
"${PSQL[@]}" -o /dev/null -c "DROP TABLE stage" -c "ALTER SYSTEM SET autovacuum = on" -c "SELECT pg_reload_conf()" -f "$HERE/scale-hot.sql"

{
	echo "## Scale"
	echo
	echo "\`STEPS=\"$STEPS\" bench/scale.sh\`: $(machine). \`record\` with the indexes \`record_collection\` and \`record_post_time\` of [doc/queries.md](../doc/queries.md):" \
		"plain, in 8 partitions by hash of the DID, in partitions by collection (likes in four more by the time in their keys)." \
		"Processor time; in brackets, divided by that of the plain table of ${STEPS%% *} million rows. \`shared_buffers = 4GB\`, \`random_page_cost = 1.1\`, full pages in the log, no parallel query."
	echo
	"${PSQL[@]}" -c "SELECT line FROM growth"
	echo
	echo "Removing the likes of the first quarter of the day from ${STEPS##* } million rows:"
	echo
	echo "| | processor time, s | log, MB | table and indexes before and after, MB |"
	echo "|---|---|---|---|"
	"${PSQL[@]}" -c "SELECT line FROM removal "
	echo
	echo "Tables that are updated all the time, with the settings they come with and with the defaults of PostgreSQL; autovacuum looks every second:"
	echo
	echo "| | MB before, after | updates | of them within the page | dead rows at the end | autovacuums |"
	echo "|---|---|---|---|---|---|"
	"${PSQL[@]}" -c "SELECT line FROM hot"
} >section
cat section
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
