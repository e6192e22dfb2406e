#!/bin/bash
# prove() after an archive: are planted changes found, and nothing else?  What does an account cost the fetcher?
#
#   bench/proofs.sh                  print the results
#   bench/proofs.sh --write          also put them into bench/notes
#
# make_archive.c makes an archive of EVENTS events of ACCOUNTS accounts, and the accounts' repositories at HOSTS hosts. In
# PLANTED accounts the archive lacks a record, has other contents of a record, or has a record that the repository does
# not have. The hosts are those of the network of the tests (test/network), without TLS; the last one refuses every request.
# Identities are known beforehand. One run. Memory is the anonymous memory of the fetcher, at most.
#
# The extension must be installed, test/server built: make bench does that.  PG_CONFIG, CC, PYTHON (any python3), EVENTS,
# ACCOUNTS, HOSTS, PLANTED, RATE (requests a second to a host; the setting's default is 10) and FSYNC (off where others use the
# disk, too) come from the environment.
set -euo pipefail
EVENTS=${EVENTS:-20000}
ACCOUNTS=${ACCOUNTS:-1000}
HOSTS=${HOSTS:-100}
PLANTED=${PLANTED:-100}
RATE=${RATE:-10}
FSYNC=${FSYNC:-on}
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)

. "$HERE/server"
. "$HERE/figures"
. "$HERE/hosts_setup"
. "$HERE/archive_setup"

make_archive "$EVENTS" "$ACCOUNTS" "$HOSTS" "$PLANTED"
serve_archive
serve_hosts "$W/archive/cars" "$HOSTS"
refuse=h$((HOSTS - 1)).localhost
tell_hosts fault "{\"host\": \"$refuse\", \"status\": 403, \"body\": \"{}\"}"

start_server <<X
fsync = $FSYNC
autovacuum = on
shared_preload_libraries = 'atproto'
shared_buffers = 1GB
max_wal_size = 16GB
atproto.fetch_host_rate = $RATE
atproto.fetch_allow = '$hosts_allowed'
X
"${PSQL[@]}" -o /dev/null -c "CREATE EXTENSION atproto" -c "CREATE SCHEMA made"

know_accounts "$W/archive/cars"
"${PSQL[@]}" -o /dev/null <<X
CREATE TABLE made.planted (did did, what text, collection text, rkey text);
\copy made.planted FROM '$W/archive/planted'
X

subscribe_archive bench "repo_source => 'pds'"
read -r _ archive_s _ < <(archive_times bench)
"${PSQL[@]}" -o /dev/null -c "VACUUM ANALYZE atproto.record, atproto.repo" -c CHECKPOINT

fetcher=$("${PSQL[@]}" -c "SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'")
cpu() { cpu_seconds <"/proc/$1/stat"; }

# The most anonymous memory of the fetcher, in MB, until the file is there.
(
	max=0
	until [ -e "$W/proven" ]; do
		kb=$(awk '/^RssAnon/ {print $2}' "/proc/$fetcher/status" 2>/dev/null || true)
		[ "${kb:-0}" -le "$max" ] || max=$kb
		sleep 0.2
	done
	awk "BEGIN {printf \"%.0f\", $max / 1024}" >"$W/mb"
) &
watching=$!
fetcher_before=$(cpu "$fetcher")
hosts_before=$(cpu "$hosts")
began=$(date +%s.%N)
asked=$("${PSQL[@]}" -c "SELECT atproto.prove('atproto')")
"${PSQL[@]}" -c "SET client_min_messages = error" -c "CALL atproto.await_proof('atproto')"
ended=$(date +%s.%N)
touch "$W/proven"
wait "$watching"
fetcher_s=$(awk "BEGIN {print $(cpu "$fetcher") - $fetcher_before}")
hosts_s=$(awk "BEGIN {print $(cpu "$hosts") - $hosts_before}")

# What was planted at the host that refuses cannot be found.
IFS='|' read -r planted found wrong < <("${PSQL[@]}" <<X
WITH planted AS (SELECT p.did, what, collection || '/' || rkey AS path FROM made.planted p JOIN made.account a USING (did) WHERE a.pds NOT LIKE '%//$refuse:%'),
found AS (SELECT did, split_part(p, ' ', 1) AS what, split_part(p, ' ', 2) AS path FROM atproto.proof_result, unnest(paths) p WHERE state = 'done' AND NOT equal)
SELECT (SELECT count(*) FROM planted), (SELECT count(*) FROM planted NATURAL JOIN found), (SELECT count(*) FROM (TABLE found EXCEPT TABLE planted) d);
X
)
IFS='|' read -r proven differing refused waiting at_host listed < <("${PSQL[@]}" <<X
SELECT proven + earlier, differing, refused, waiting, (SELECT count(*) FROM made.account WHERE pds LIKE '%//$refuse:%'),
	(SELECT count(*) FROM atproto.repo_problem p JOIN made.account USING (did) WHERE problem = 'proof' AND pds LIKE '%//$refuse:%' AND error IS NOT NULL)
FROM atproto.proof;
X
)
reason=$("${PSQL[@]}" -c "SELECT error FROM atproto.repo_problem WHERE problem = 'proof' GROUP BY 1 ORDER BY count(*) DESC LIMIT 1")
requests=$(hosts_log | grep -o '"kind": "http"' | wc -l)
if [ "$found" != "$planted" ] || [ "$wrong" != 0 ] || [ "$waiting" != 0 ] || [ "$listed" != "$at_host" ] || [ "$refused" != "$at_host" ]; then
	echo "planted $planted, found $found, found beside them $wrong, waiting $waiting; of $at_host accounts of $refuse, $listed are listed, $refused are refused" >&2
	exit 1
fi

{
	echo "## Proofs"
	echo
	echo "\`FSYNC=$FSYNC EVENTS=$EVENTS ACCOUNTS=$ACCOUNTS HOSTS=$HOSTS PLANTED=$PLANTED RATE=$RATE bench/proofs.sh\`: $(machine). One run; load of the machine before it: $LOAD."
	echo "Fetcher, PostgreSQL and the hosts share the processors; a host is asked at most $RATE times a second."
	echo
	echo "| accounts asked | proven | differing | refused | seconds | accounts/s | fetcher's CPU time an account | hosts' CPU time an account | requests an account | fetcher's memory |"
	echo "|---|---|---|---|---|---|---|---|---|---|"
	awk "BEGIN {s = $ended - $began; printf \"| %d | %d | %d | %d | %.1f | %.0f | %.2f ms | %.2f ms | %.2f | %s MB |\n\", $asked, $proven, $differing, $refused, s, $asked / s, $fetcher_s * 1000 / $asked, $hosts_s * 1000 / $asked, $requests / $asked, \"$(cat "$W/mb")\"}"
	echo
	echo "The archive was read in $(awk "BEGIN {printf \"%.1f\", $archive_s}") s. $planted changes were planted in accounts of the hosts that answer: all were found by their path, and nothing else was found. The $at_host accounts of the host that refuses are listed: \`$reason\`."
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
