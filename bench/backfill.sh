#!/bin/bash
# Backfills by the fetcher, from the network of the tests (test/network) on this machine:
#
#   many     REPOS repositories of 430 records, the network's mean, of HOSTS hosts
#   large    one repository of LARGE records, and 1,000 of the small ones, beside a live stream of
#            RATE events a second
#   heal     a repository with rows that are not the account's is fetched again, 20 of them one after the other
#
#   bench/backfill.sh                  print the results
#   bench/backfill.sh --write          also put them into bench/notes
#
# The exports are made by make_exports.c, without TLS and compression; identities are known beforehand.
# One run each.  Memory is the anonymous memory of the fetcher.
#
# The extension must be installed, test/server and test/simulator built: make
# bench does that.  PG_CONFIG, CC, PYTHON (any python3), REPOS, HOSTS, LARGE, RATE, LASTS (seconds of the stream)
# and FSYNC (off where others use the disk, too) come from the environment.
set -euo pipefail
REPOS=${REPOS:-10000}
HOSTS=${HOSTS:-100}
LARGE=${LARGE:-2900000}
RATE=${RATE:-500}
LASTS=${LASTS:-120}
FSYNC=${FSYNC:-on}
SMALL=1000
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)

. "$HERE/server"

"${CC:-cc}" -std=gnu11 -O2 -I"$HERE/../src" -I"$HERE/../test" -o "$W/make_exports" "$HERE"/{make_exports,made,made_repo}.c "$HERE"/../src/core/*.c "$HERE"/../src/core/*/*.c \
	"$HERE"/../test/protocol/*.c -lcbor -lcrypto
mkdir "$W/cars"
"$W/make_exports" 0 $((REPOS + SMALL)) 430 "$HOSTS" "$W/cars"
"$W/make_exports" $((REPOS + SMALL)) 1 "$LARGE" "$HOSTS" "$W/cars"
"$HERE/../test/simulator/simulate" --events $((RATE * LASTS)) --no-sign --mix identity=0,account=0,sync=0 >"$W/capture"

"${PYTHON:-python3}" -B "$HERE/../test/network/network.py" --cars "$W/cars" --port-file "$W/network" >"$W/network.log" 2>&1 &
network=$!
"$HERE/../test/server/streamserver" --capture "$W/capture" --rate "$RATE" --port-file "$W/stream" >"$W/stream.log" 2>&1 &
stream=$!
trap 'kill $network $stream; cleanup' EXIT
until [ -s "$W/network" ] && [ -s "$W/stream" ]; do sleep 0.1; done
port=$(sed 's/.*"http": \([0-9]*\).*/\1/' "$W/network")

start_server <<X
fsync = $FSYNC
autovacuum = on
shared_preload_libraries = 'atproto'
shared_buffers = 1GB
max_wal_size = 16GB
atproto.queue_limit = 1000000
atproto.fetch_allow = '$(seq -f "http://h%g.localhost:$port" -s ', ' 0 $((HOSTS - 1)))'
X
"${PSQL[@]}" -o /dev/null -c "CREATE EXTENSION atproto" -c "CREATE SCHEMA made" -c "CREATE SCHEMA old" -c "CREATE SCHEMA live" -f "$HERE/latency.sql"

# What is known of those accounts.
(cd "$W/cars" && printf '%s\n' */*.car) | sed -E "s|(.*)/(.*)\.car|\2\thttp://\1:$port|" >"$W/accounts"
"${PSQL[@]}" -o /dev/null <<X
CREATE TABLE made.account (did did PRIMARY KEY, pds text, bytes bigint);
\copy made.account (did, pds) FROM '$W/accounts'
INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at)
	SELECT did, 'good', decode(repeat('e7', 35), 'hex'), pds, now(), now() FROM made.account;
UPDATE made.account SET bytes = (pg_stat_file('$W/cars/' || substring(pds FROM '//(.*):') || '/' || did || '.car')).size;
CREATE VIEW made.small AS SELECT did, row_number() OVER (ORDER BY did) AS n FROM made.account WHERE bytes < 1000000;
CREATE VIEW made.large AS SELECT did FROM made.account WHERE bytes >= 1000000;
VACUUM ANALYZE;
SELECT atproto.subscribe('old', 'ws://127.0.0.1:1', target => 'old', proxy => '', backfill => 'repair', repo_source => 'pds');
SELECT atproto.pause('old');
SELECT atproto.subscribe('live', 'ws://127.0.0.1:$(cat "$W/stream")', cursor => 0, target => 'live', proxy => '', backfill => 'repair', repo_source => 'pds');
SELECT atproto.pause('live');
CHECKPOINT;
X

value() { "${PSQL[@]}" -c "$1"; }

# Seconds that a process has spent on a processor, with threads that have ended.
cpu() { sed 's/.*) //' "/proc/$1/stat" | awk -v hz="$(getconf CLK_TCK)" '{printf "%.2f", ($12 + $13) / hz}'; }

# So often a second, until the file is there: the most memory that the process had, in MB.
watch_memory() {	# PID FILE
	local kb max=0
	until [ -e "$2" ]; do
		kb=$(awk '/^RssAnon/ {print $2}' "/proc/$1/status" 2>/dev/null || true)
		[ "${kb:-0}" -le "$max" ] || max=$kb
		sleep 0.1
	done
	awk "BEGIN {printf \"%.0f\", $max / 1024}" >"$2.mb"
}

fetcher_pid() { value "SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'"; }

# Until a query gives true; a repository that could not be fetched is an end, too.
wait_until() {	# QUERY
	local failed
	until [ "$(value "$1")" = t ]; do
		failed=$(value "SELECT error FROM atproto.repo_job JOIN made.account USING (did) WHERE tries > 0 LIMIT 1")
		[ -z "$failed" ] || { echo "$failed" >&2; exit 1; }
		sleep 0.1
	done
}

# The fetcher runs before anything is measured; one repository more is no matter.
value "SELECT atproto.backfill_repo(did, 'old') FROM made.small WHERE n = $((REPOS + SMALL))" >/dev/null
wait_until "SELECT count(*) = 1 FROM old.repo WHERE sync = 'synchronized'"
fetcher=$(fetcher_pid)

# --- many ---

watch_memory "$fetcher" "$W/many" &
watching=$!
before=$(cpu "$fetcher")
network_before=$(cpu "$network")
value "SELECT count(atproto.backfill_repo(did, 'old')) FROM made.small WHERE n <= $REPOS" >/dev/null
began=$(date +%s.%N)
wait_until "SELECT NOT EXISTS (SELECT FROM atproto.repo_job JOIN made.account USING (did))"
many_s=$(awk "BEGIN {printf \"%.1f\", $(date +%s.%N) - $began}")
many_cpu=$(awk "BEGIN {printf \"%.1f\", $(cpu "$fetcher") - $before}")
network_cpu=$(awk "BEGIN {printf \"%.1f\", $(cpu "$network") - $network_before}")
touch "$W/many"
wait "$watching"
many_records=$(value "SELECT count(*) - 430 FROM old.record")
[ "$many_records" = $((REPOS * 430)) ] || { echo "there are $many_records records" >&2; exit 1; }
mb=$(value "SELECT round(sum(bytes) / 1e6) FROM made.account JOIN made.small USING (did) WHERE n <= $REPOS")

# --- large ---

value "SELECT atproto.resume('live')" >/dev/null
wait_until "SELECT COALESCE(max(seq), 0) >= $RATE FROM atproto.cursor WHERE subscription = 'live'"
"${PSQL[@]}" -c "CALL seen.look('SELECT EXISTS (SELECT FROM pg_class WHERE relname = ''ended'' AND relnamespace = ''made''::regnamespace)')" &
look=$!
watch_memory "$fetcher" "$W/large" &
watching=$!
first=$(value "SELECT max(seq) FROM atproto.cursor WHERE subscription = 'live'")
before=$(cpu "$fetcher")
value "SELECT count(atproto.backfill_repo(did, 'live')) FROM made.large" >/dev/null
value "SELECT count(atproto.backfill_repo(did, 'live')) FROM made.small WHERE n > $REPOS" >/dev/null
began=$(date +%s.%N)
wait_until "SELECT NOT EXISTS (SELECT FROM atproto.repo_job JOIN made.small USING (did))"
small_s=$(awk "BEGIN {printf \"%.1f\", $(date +%s.%N) - $began}")
wait_until "SELECT NOT EXISTS (SELECT FROM atproto.repo_job JOIN made.account USING (did))"
large_s=$(awk "BEGIN {printf \"%.1f\", $(date +%s.%N) - $began}")
large_cpu=$(awk "BEGIN {printf \"%.1f\", $(cpu "$fetcher") - $before}")
last=$(value "SELECT max(seq) FROM atproto.cursor WHERE subscription = 'live'")
touch "$W/large"
value "CREATE TABLE made.ended ()"
wait "$look"
large_records=$(value "SELECT count(*) FROM live.record JOIN made.large USING (did)")
[ "$large_records" = "$LARGE" ] || { echo "there are $large_records records" >&2; exit 1; }
large_mb=$(value "SELECT round(bytes / 1e6) FROM made.account JOIN made.large USING (did)")
read -r median p99 p999 most < <("${PSQL[@]}" -F ' ' -c "SELECT round(median), round(p99), round(p999), round(most) FROM seen.latency($RATE, $first, $last)")
wait "$watching"

# --- heal ---

# Each begins at another moment of the fetcher's second.
"${PSQL[@]}" -o /dev/null <<X
CREATE TABLE made.healed (ms float8);
CREATE PROCEDURE made.heal(lost did) LANGUAGE plpgsql AS \$\$
DECLARE
	began timestamptz;
BEGIN
	DELETE FROM old.record WHERE did = lost AND collection = 'app.bsky.feed.post';
	COMMIT;
	PERFORM pg_sleep(1 + random());
	began := clock_timestamp();
	PERFORM atproto.resync(lost, 'old');
	COMMIT;
	WHILE EXISTS (SELECT FROM atproto.repo_job WHERE did = lost) LOOP
		COMMIT;
		PERFORM pg_sleep(0.005);
	END LOOP;
	INSERT INTO made.healed VALUES (1000 * extract(epoch FROM clock_timestamp() - began));
	IF (SELECT count(*) FROM old.record WHERE did = lost) <> 430 THEN
		RAISE 'it did not heal';
	END IF;
END \$\$;
SELECT format('CALL made.heal(%L)', did) FROM made.small WHERE n <= 20 \\gexec
X
healed=$(value "SELECT format('%s ms (median), %s ms at most', round(percentile_cont(0.5) WITHIN GROUP (ORDER BY ms)), round(max(ms))) FROM made.healed")

per() { awk "BEGIN {printf \"%.0f\", $1 / $2}"; }
{
	echo "## Backfill"
	echo
	echo "\`FSYNC=$FSYNC REPOS=$REPOS HOSTS=$HOSTS LARGE=$LARGE RATE=$RATE LASTS=$LASTS bench/backfill.sh\`: $(machine). One run; autovacuum, limits as they come; load of the machine before it: $LOAD."
	echo "Fetcher, PostgreSQL and the network of the tests, with its $HOSTS hosts, share the processors."
	echo
	echo "| | records | MB | time | records/s | fetcher's CPU time | records/s of it | its memory |"
	echo "|---|---|---|---|---|---|---|---|"
	echo "| $REPOS repositories of 430 records | $many_records | $mb | $many_s s | $(per "$many_records" "$many_s") | $many_cpu s | $(per "$many_records" "$many_cpu") | $(cat "$W/many.mb") MB |"
	echo "| one of $LARGE, and $SMALL small ones | $((large_records + SMALL * 430)) | $large_mb | $large_s s | $(per "$((large_records + SMALL * 430))" "$large_s") | $large_cpu s | $(per "$((large_records + SMALL * 430))" "$large_cpu") | $(cat "$W/large.mb") MB |"
	echo
	echo "The network of the tests took $network_cpu s of CPU time for the first. The small ones beside the large one were there after $small_s s. Meanwhile the events of the stream were visible"
	echo "after $median ms (median), $p99 ms (99 %), $p999 ms (99.9 %), $most ms at most."
	echo "A repository that lacked a quarter of its rows had them again $healed after it was asked for."
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
