-- What make demo prints after the replay of a real server's stream.  ECHO shows each query before its result.
\set ECHO queries
\pset footer off

\echo
\echo '== Its records by collection'
SELECT collection, count(*) AS records, count(DISTINCT did) AS accounts
FROM replay.record
GROUP BY collection
ORDER BY records DESC, collection;

\echo '== Accounts that it does not serve'
SELECT status, count(*) FROM replay.repo WHERE NOT active GROUP BY status ORDER BY status;

\echo '== What jsonb cannot hold is kept as it came'
SELECT count(*) FILTER (WHERE value IS NULL) AS kept_raw, count(*) AS records FROM replay.record;

-- Without verify => 'full', nobody has checked who signed the commit.
\echo '== Does each repository have the records that its last commit names, and no others?'
SELECT equal, count(*) AS repositories, sum(records) AS records
FROM replay.repo, atproto.audit(did, 'replay')
WHERE active GROUP BY equal;

\echo '== It is not followed further; its records stay'
SELECT atproto.unsubscribe('replay') \g /dev/null
