-- What make demo prints after its backfill.  ECHO shows each query before its result.
\set ECHO queries
\pset footer off

\echo
\echo '== How far it is'
SELECT lists_ended, enumerated, queued, running, failed, done, records, pg_size_pretty(bytes) AS fetched, repositories
FROM atproto.repo_progress WHERE subscription = 'recipes';

\echo '== What came of it: of each repository, what the filter keeps'
SELECT did, value->>'name' AS recipe FROM recipes.record ORDER BY did, recipe LIMIT 5;

\echo '== The hosts that were asked'
SELECT host, state, requests, pg_size_pretty(bytes) AS received FROM atproto.stat_host;

\echo '== It is not followed further; its records stay'
SELECT atproto.unsubscribe('recipes') \g /dev/null
