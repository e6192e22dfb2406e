#!/bin/bash
# How the tables behave as they grow: what a new row and each question cost at each
# size.  LAYOUTS (default: all but hash, dagcbor, packed and citus), one after the other, each gone before the next:
#
#   plain        record as create_tables() makes it
#   collection   record in partitions by collection, atproto.partition()
#   month        record in partitions by month
#   hash         record in eight partitions by hash of the DID
#   dagcbor      as plain, with values of the type dagcbor
#   links        link, and nothing else
#   citus        record on two workers (PG_CONFIG must have Citus: test/citus/build)
#   tables       all that the consumer can keep of 100,000 events: bytes a row
#   packed       as tables, with values of the type dagcbor
#   hot          tables that are updated all the time: how far they grow
#
# At each of the sizes STEPS (default "1 3": millions of rows) a table is filled anew
# by statements (without its key's index, which is made then; and without log), vacuumed
# and read.  Before it is read, the next 100,000 rows come by INSERT, as the consumer's
# statements do, after a checkpoint, so that the log has the most full pages; then 100,000
# events of the simulated network by the consumer.  Autovacuum is off.  Each size is a network of its own,
# which grows in accounts and not in what one has: 430 records on average.  Collections
# and values are those that the consumer left of other 100,000 simulated events.
# Figures are time on a processor (from Linux's schedstat), so that the machine's other
# work counts little; only "the first time" is by the clock.
#
#   bench/scale.sh                  print the tables
#   bench/scale.sh --write          also put them into bench/notes
#
# PG_CONFIG and MAINTENANCE_WORK_MEM (default 1GB) come from the environment.  With "1 10 100"
# and 12GB a layout takes 55 GB of disk; with less memory the key is sorted there, too.
set -euo pipefail
LAYOUTS=${LAYOUTS:-plain collection month links tables hot}
STEPS=${STEPS:-1 3}
HERE=$(cd "$(dirname "$0")" && pwd)
EVENTS=100000
LAST=${STEPS##* }
PATHS="SET search_path = grown, public"
. "$HERE/server"

finish() {
	[ -z "${stream:-}" ] || kill "$stream" 2>/dev/null || true
	for node in 1 2; do
		as "$BIN/pg_ctl" -D "$W/node$node" -m immediate -w stop >/dev/null 2>&1 || true
	done
	cleanup
}
trap finish EXIT

start() {
	start_server <<-X
		timezone = 'UTC'
		shared_preload_libraries = '$1'
		wal_level = minimal
		max_wal_senders = 0
		max_wal_size = 2GB
		checkpoint_timeout = 1h
		shared_buffers = 4GB
		work_mem = 64MB
		maintenance_work_mem = ${MAINTENANCE_WORK_MEM:-1GB}
		random_page_cost = 1.1
		autovacuum_naptime = 1s
		listen_addresses = '127.0.0.1'
		port = $port
		max_prepared_transactions = 100
		client_min_messages = error
	X
}

# Two workers of Citus.
start_workers() {
	local node
	"${PSQL[@]}" -o /dev/null -c "CREATE EXTENSION citus" -c "SELECT citus_set_coordinator_host('127.0.0.1', $port)"
	for node in 1 2; do
		as "$BIN/initdb" -D "$W/node$node" -U postgres -A trust -N -E UTF8 --locale=C.UTF-8 >/dev/null
		as cp "$W/data/postgresql.conf" "$W/node$node/postgresql.conf"
		as tee -a "$W/node$node/postgresql.conf" >/dev/null <<-X
			port = $((port + node))
			shared_preload_libraries = 'citus'
			shared_buffers = 2GB
		X
		as "$BIN/pg_ctl" -D "$W/node$node" -l "$W/log$node" -w start >/dev/null
		"${PSQL[@]}" -p "$((port + node))" -o /dev/null -c "CREATE EXTENSION citus"
		"${PSQL[@]}" -o /dev/null -c "SELECT citus_add_node('127.0.0.1', $((port + node)))"
	done
}

# A hundred thousand events of a simulated network into a schema.  Prints, divided by the events,
# the consumer's time on a processor in µs, that of Citus' workers, and the bytes of log.
consume() {	# SCHEMA SEED [OPTIONS]
	local pid lsn before now waited=0
	"$HERE/../test/simulator/simulate" --events $EVENTS --accounts $EVENTS --seed "$2" --no-sign \
		--mix identity=0,account=0 >"$W/capture"
	rm -f "$W/port"
	"$HERE/../test/server/streamserver" --capture "$W/capture" --port-file "$W/port" >"$W/stream.log" 2>&1 &
	stream=$!
	until [ -s "$W/port" ]; do
		kill -0 $stream || { cat "$W/stream.log" >&2; exit 1; }
		sleep 0.1
	done
	"${PSQL[@]}" -c CHECKPOINT
	IFS='|' read -r lsn before < <("${PSQL[@]}" -c "SELECT pg_current_wal_lsn(), busy_workers()")
	"${PSQL[@]}" -o /dev/null -c "SELECT atproto.subscribe('bench', 'ws://127.0.0.1:$(cat "$W/port")', cursor => 0, proxy => '', target => '$1'${3:-})"
	until [ "$("${PSQL[@]}" -c "SELECT max(seq) >= $EVENTS FROM atproto.cursor")" = t ]; do
		waited=$((waited + 1))
		[ $waited -lt 3000 ] || { "${PSQL[@]}" -c "SELECT * FROM atproto.stat_subscription" >&2; exit 1; }
		sleep 0.2
	done
	pid=$("${PSQL[@]}" -c "SELECT atproto_internal.consumer_pid('bench')")
	now=$(cut -d' ' -f1 "/proc/$pid/schedstat")
	"${PSQL[@]}" -c "SELECT $now / 1000.0 / $EVENTS, (busy_workers() - $before) * 1000 / $EVENTS, (pg_current_wal_lsn() - '$lsn') / $EVENTS"
	"${PSQL[@]}" -o /dev/null -c "SELECT atproto.unsubscribe('bench')"
	while [ -d "/proc/$pid" ]; do sleep 0.1; done
	kill $stream
	wait $stream || true
	stream=
	rm "$W/capture"
}

measure_records() {
	local step cpu workers log
	for step in $STEPS; do
		"${PSQL[@]}" -o /dev/null -c "$PATHS" -c "CALL fill_records($step)" \
			-c "$PATHS" -c "CALL vacuum_begins()" -c "VACUUM (ANALYZE) record" -c "CALL vacuum_ends($step)" \
			-c "CALL choose_rows($step, $EVENTS)" -c CHECKPOINT -c "CALL insert_rows($step, $EVENTS)" \
			-c "ANALYZE record"
		IFS='|' read -r cpu workers log < <(consume grown "$step")
		"${PSQL[@]}" -o /dev/null -c "$PATHS" -c "CALL consumed($step, $cpu, $workers, $log)" \
			-c "VACUUM (ANALYZE) record" -c "CALL read_records($step)"
	done
	"${PSQL[@]}" -o /dev/null -c "$PATHS" -c "CALL inner_pages()"
	case $layout in
		plain) "${PSQL[@]}" -o /dev/null -c "$PATHS" \
			-c "CALL remove_begins()" -c "DELETE FROM record WHERE rkey < oldest_month()" -c "VACUUM record" -c "CALL remove_ends('DELETE and VACUUM')" ;;
		month) "${PSQL[@]}" -o /dev/null -c "$PATHS" \
			-c "CALL remove_begins()" -c "DROP TABLE record_2023_03" -c "CALL remove_ends('DROP TABLE')" ;;
	esac
}

measure_links() {
	local step
	for step in $STEPS; do
		"${PSQL[@]}" -o /dev/null -c "$PATHS" -c "CALL fill_links($step)" \
			-c "$PATHS" -c "CALL vacuum_begins()" -c "VACUUM (ANALYZE) link" -c "CALL vacuum_ends($step)" \
			-c "CALL choose_links($step, $EVENTS)" -c CHECKPOINT -c "CALL insert_links($step, $EVENTS)" \
			-c "VACUUM (ANALYZE) link" -c "CALL read_links($step)"
	done
	"${PSQL[@]}" -o /dev/null -c "CALL inner_pages()"
}

heading() {
	case $1 in
		plain) echo "one table" ;;
		collection) echo "partitions by collection" ;;
		month) echo "partitions by month" ;;
		hash) echo "partitions by hash" ;;
		dagcbor) echo "values of the type dagcbor" ;;
		links) echo "links" ;;
		citus) echo "Citus" ;;
	esac
}

for layout in $LAYOUTS; do
	load=$(cut -d' ' -f1 /proc/loadavg)
	port=$((20000 + RANDOM % 10000))
	PSQL=("$BIN/psql" -h "$W" -p "$port" -U postgres -X -q -At -v ON_ERROR_STOP=1)
	case $layout in
		citus) start citus,atproto; start_workers ;;
		*) start atproto ;;
	esac
	"${PSQL[@]}" -v events=$((LAST * 1000000)) -v layout="$layout" -o /dev/null \
		-c "CREATE EXTENSION atproto" -c "SELECT atproto.create_tables('atproto')" -f "$HERE/events.sql" -f "$HERE/scale.sql"
	if [ "$layout" = hot ]; then
		"${PSQL[@]}" -o /dev/null -c "ALTER SYSTEM SET autovacuum = on" -c "SELECT pg_reload_conf()" -f "$HERE/scale-hot.sql"
		{
			echo "### Tables that are updated all the time"
			echo
			echo "\`LAYOUTS=hot bench/scale.sh\`: $(machine), load $load. With the settings they come with and with the defaults of PostgreSQL; autovacuum looks every second:"
			echo
			echo "| | MB before, after | updates | of them within the page | dead rows at the end | autovacuums |"
			echo "|---|---|---|---|---|---|"
			"${PSQL[@]}" -c "SELECT line FROM hot"
		} >"$W/section"
	elif [ "$layout" = tables ] || [ "$layout" = packed ]; then
		"${PSQL[@]}" -o /dev/null -c "CREATE SCHEMA grown" -c "SELECT atproto.create_tables('grown', CASE layout() WHEN 'packed' THEN 'dagcbor' END)"
		log=$(consume grown 1 ", events => 'keep', links => 'all', count_collections => true" | cut -d'|' -f3 | cut -d. -f1)
		{
			echo "### Bytes a row$([ "$layout" = tables ] || echo " with dagcbor")"
			echo
			echo "\`LAYOUTS=$layout bench/scale.sh\`: $(machine), load $load. What $EVENTS events of the simulated network leave with \`events => 'keep', links => 'all'\`," \
				"and 100,000 identities. The consumer wrote $log bytes of log for each event, into tables that were empty."
			echo
			echo "| | rows | table, bytes a row | indexes, bytes a row |"
			echo "|---|---|---|---|"
			"${PSQL[@]}" -f "$HERE/scale-tables.sql"
		} >"$W/section"
	else
		if [ "$layout" = links ]; then
			"${PSQL[@]}" -o /dev/null -f "$HERE/scale-links.sql"
			measure_links
		else
			"${PSQL[@]}" -o /dev/null -c "CREATE SCHEMA pool"
			consume pool 1000000 >/dev/null
			"${PSQL[@]}" -o /dev/null -v events=$((LAST * 1000000)) -f "$HERE/scale-records.sql"
			measure_records
		fi
		{
			echo "### Scale: $(heading "$layout")"
			echo
			echo "\`LAYOUTS=$layout STEPS=\"$STEPS\" bench/scale.sh\`: $(machine), load $load before and $(cut -d' ' -f1 /proc/loadavg) after. In brackets, divided by the first column."
			echo
			"${PSQL[@]}" -c "SELECT line FROM growth"
			"${PSQL[@]}" -c "SELECT line FROM removal"
		} >"$W/section"
	fi
	cat "$W/section"
	[ "${1:-}" != --write ] || "$HERE/put-section" "$W/section"
	for node in 1 2; do
		[ ! -e "$W/node$node" ] || as "$BIN/pg_ctl" -D "$W/node$node" -m immediate -w stop >/dev/null
	done
	as "$BIN/pg_ctl" -D "$W/data" -m immediate -w stop >/dev/null
	rm -rf "$W/data" "$W"/node?
done
