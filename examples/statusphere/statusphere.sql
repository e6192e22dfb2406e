-- Statusphere's database: a subscription in place of an ingester, a function that gives the page, and a NOTIFY when the
-- page has changed.  psql -d mydb -f statusphere.sql; for a PDS on this machine, put in front of it:
-- STREAM=ws://localhost:2583 BACKFILL=network LIST_SOURCE=
\set ON_ERROR_STOP on
\set stream `echo "${STREAM-wss://jetstream2.us-east.bsky.network/subscribe}"`
\set backfill `echo "${BACKFILL-collections}"`
\set list_source `echo "${LIST_SOURCE-https://bsky.network}"`
BEGIN;
CREATE EXTENSION IF NOT EXISTS atproto;
CREATE SCHEMA statusphere;
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "xyz.statusphere.status", "defs": {"main": {
    "type": "record", "key": "tid", "record": {"type": "object", "required": ["status", "createdAt"], "properties": {
        "status": {"type": "string", "minLength": 1, "maxGraphemes": 1, "maxLength": 32},
        "createdAt": {"type": "string", "format": "datetime"}}}}}}');

-- 'flag': a record that the Lexicon does not allow has the reason in its column "fault"
SELECT atproto.subscribe('statusphere', :'stream', target => 'statusphere', collections => '{xyz.statusphere.status}',
    validate => 'flag', backfill => :'backfill', list_source => nullif(:'list_source', ''));
CREATE INDEX ON statusphere.record (rkey DESC);

-- Show the handles of identity, which their domains have confirmed: an account can announce any handle
CREATE VIEW statusphere.newest AS
SELECT r.did, i.handle, r.value->>'status' AS status, recordkey_timestamp(r.rkey) AS at
FROM statusphere.visible_record r LEFT JOIN atproto.identity i ON i.did = r.did
WHERE r.collection = 'xyz.statusphere.status' AND r.value IS NOT NULL AND r.fault IS NULL AND r.rkey <= tid_ceil(now())
ORDER BY r.rkey DESC, r.did LIMIT 30;

-- The page as JSON (jsonb: in one line).  Handles that were never checked are requested: they come within a minute.
CREATE FUNCTION statusphere.page() RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM atproto.check_handle(did) FROM (SELECT DISTINCT did FROM statusphere.newest WHERE handle IS NULL) n
    WHERE NOT EXISTS (SELECT FROM atproto.identity i WHERE i.did = n.did AND i.handle_state <> 'unknown')
        AND NOT EXISTS (SELECT FROM atproto.handle_request q WHERE q.did = n.did);
    RETURN (SELECT coalesce(jsonb_agg(n), '[]') FROM statusphere.newest n);
END $$;

CREATE FUNCTION statusphere.tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NOTIFY statusphere; RETURN NULL; END';
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON statusphere.record EXECUTE FUNCTION statusphere.tell();
COMMIT;
