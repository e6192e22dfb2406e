#!/bin/bash
# Fetches one collection of repositories with proof, from the network of the tests (test/network) on this machine, beside
# fetches of the whole repositories:
#
#   empty    ACCOUNTS repositories of RECORDS records, without a recipe
#   rare     ... with RECIPES recipes
#   one      one of the latter, from a host that answers each request after 200 ms: how many requests wait for each other
#
#   bench/sparse.sh                    print the results
#   bench/sparse.sh --write            also put them into bench/notes
#
# The exports are made by make_exports.c, without TLS and compression; identities are known beforehand.  One run each.
# Requests and bytes are those of atproto.host.
#
# The extension must be installed: make bench does that.  PG_CONFIG, CC, PYTHON (any python3), ACCOUNTS, RECORDS, RECIPES and
# HOSTS come from the environment.
set -euo pipefail
ACCOUNTS=${ACCOUNTS:-200}
RECORDS=${RECORDS:-20000}
RECIPES=${RECIPES:-100}
HOSTS=${HOSTS:-20}
DELAY=0.2
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)

. "$HERE/server"

"${CC:-cc}" -std=gnu11 -O2 -I"$HERE/../src" -I"$HERE/../test" -o "$W/make_exports" "$HERE"/{make_exports,made,made_repo}.c "$HERE"/../src/core/*.c "$HERE"/../src/core/*/*.c \
	"$HERE"/../test/protocol/*.c -lcbor -lcrypto
mkdir "$W/cars"
"$W/make_exports" 0 "$ACCOUNTS" "$RECORDS" "$HOSTS" "$W/cars"
"$W/make_exports" "$ACCOUNTS" "$ACCOUNTS" "$RECORDS" "$HOSTS" "$W/cars" "$RECIPES"

"${PYTHON:-python3}" -B "$HERE/../test/network/network.py" --cars "$W/cars" --port-file "$W/network" >"$W/network.log" 2>&1 &
network=$!
trap 'kill $network; cleanup' EXIT
until [ -s "$W/network" ]; do sleep 0.1; done
port=$(sed 's/.*"http": \([0-9]*\).*/\1/' "$W/network")
control=$(sed 's/.*"control": \([0-9]*\).*/\1/' "$W/network")

start_server <<X
autovacuum = on
shared_preload_libraries = 'atproto'
shared_buffers = 1GB
max_wal_size = 16GB
atproto.queue_limit = 1000000
atproto.fetch_host_rate = 1000
atproto.fetch_allow = '$(seq -f "http://h%g.localhost:$port" -s ', ' 0 $((HOSTS - 1)))'
X
"${PSQL[@]}" -o /dev/null -c "CREATE EXTENSION atproto" -c "CREATE SCHEMA made"

value() { "${PSQL[@]}" -c "$1"; }

(cd "$W/cars" && printf '%s\n' */*.car) | sed -E "s|(.*)/(.*)\.car|\2\thttp://\1:$port|" >"$W/accounts"
{
	cat <<X
CREATE TABLE made.account (did did PRIMARY KEY, pds text, n serial);
\copy made.account (did, pds) FROM '$W/accounts'
INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at)
	SELECT did, 'good', decode(repeat('e7', 35), 'hex'), pds, now(), now() FROM made.account;
X
	for way in sparse whole; do
		echo "CREATE SCHEMA $way; SELECT atproto.create_tables('$way');"
		echo "SELECT atproto.subscribe('$way', 'ws://127.0.0.1:1', target => '$way', proxy => '', backfill => 'repair', repo_source => 'pds',
			collections => '{exchange.recipe.recipe}', fetch_as => '$way');"
		echo "SELECT atproto.pause('$way');"
	done
} | "${PSQL[@]}" -o /dev/null

# The accounts are those of make_exports, in the order of their numbers: the second half has recipes.
mkdir "$W/rare"
"$W/make_exports" "$ACCOUNTS" "$ACCOUNTS" 1 1 "$W/rare"
(cd "$W/rare" && ls h0.localhost) | sed 's/\.car$//' >"$W/rare.dids"
"${PSQL[@]}" -o /dev/null <<X
CREATE TABLE made.rare (did did PRIMARY KEY);
\copy made.rare FROM '$W/rare.dids'
X

# Until nothing waits; a repository that could not be fetched is an end, too.
wait_for_jobs() {
	local failed
	until [ "$(value "SELECT NOT EXISTS (SELECT FROM atproto.repo_job)")" = t ]; do
		failed=$(value "SELECT error FROM atproto.repo_job WHERE tries > 0 LIMIT 1")
		[ -z "$failed" ] || { echo "$failed" >&2; exit 1; }
		sleep 0.05
	done
}

# Requests and bytes so far; the fetcher writes them once a second.
spent() { sleep 2.5; value "SELECT COALESCE(sum(requests), 0) || ' ' || COALESCE(sum(bytes), 0) FROM atproto.host"; }

# One row of the table.  WHAT WAY CONDITION
measure() {
	local before after began seconds
	before=$(spent)
	began=$(date +%s.%N)
	value "SELECT count(atproto.backfill_repo(did, '$2')) FROM made.account WHERE $3" >/dev/null
	wait_for_jobs
	seconds=$(awk "BEGIN {printf \"%.1f\", $(date +%s.%N) - $began}")
	after=$(spent)
	awk -v what="$1, $2" -v n="$(value "SELECT count(*) FROM made.account WHERE $3")" -v before="$before" -v after="$after" -v s="$seconds" \
		'BEGIN {split(before, b, " "); split(after, a, " ");
		printf "| %s | %d | %.1f | %.0f | %s s |\n", what, n, (a[1] - b[1]) / n, (a[2] - b[2]) / n, s}'
}

{
	echo "## Sparse fetches"
	echo
	echo "\`ACCOUNTS=$ACCOUNTS RECORDS=$RECORDS RECIPES=$RECIPES HOSTS=$HOSTS bench/sparse.sh\`: $(machine). One run; load of the machine before it: $LOAD."
	echo "Fetcher, PostgreSQL and the network of the tests, with its $HOSTS hosts, share the processors. The last rows: one account, each answer comes after $DELAY s."
	echo
	echo "| | accounts | requests each | bytes each | time |"
	echo "|---|---|---|---|---|"
	for way in sparse whole; do measure empty "$way" "did NOT IN (TABLE made.rare)"; done
	for way in sparse whole; do measure rare "$way" "did IN (SELECT did FROM made.rare OFFSET 1)"; done
	"${PYTHON:-python3}" -c "import urllib.request as u; u.urlopen(u.Request('http://127.0.0.1:$control/fault', b'{\"delay\": $DELAY}', method='POST'))"
	for way in sparse whole; do measure "rare, slow" "$way" "did IN (SELECT did FROM made.rare LIMIT 1)"; done
} >"$W/section"
same=$(value "SELECT (SELECT count(*) FROM sparse.record) || ' ' || (SELECT count(*) FROM (SELECT did, collection, rkey, cid, value FROM sparse.record EXCEPT SELECT did, collection, rkey, cid, value FROM whole.record) d)")
cat "$W/section"
echo "# rows, and different ones: $same"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
