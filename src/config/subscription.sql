/*
 * src/config: what the operator wrote, and where each stream is.  Everything of the
 * consumer lives in the fixed schema atproto.  Nothing is granted to PUBLIC: subscribing
 * makes the server open a network connection.
 */

-- Checks, defaults, policies and views are parsed here.  Only pg_catalog is
-- searched for what they use: in the schema of the extension somebody could have
-- put an operator that fits better.
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE atproto.subscription (
    name text PRIMARY KEY
        CHECK (octet_length(name) BETWEEN 1 AND 63),
    url text NOT NULL
        CHECK (octet_length(url) <= 8192),
    format text
        CHECK (format IN ('dag-cbor', 'json', 'jetstream')),
    endpoint text NOT NULL,
    by_repo boolean NOT NULL,
    serves_repos boolean NOT NULL,
    owner regrole NOT NULL DEFAULT to_regrole(quote_ident(current_user)),
    enabled boolean NOT NULL DEFAULT true,
    target name NOT NULL DEFAULT 'atproto',
    collections text[],
    dids @extschema@.did[],
    slice text,
    actions text[]
        CHECK (actions <@ ARRAY['create', 'update', 'delete']),
    keep_records boolean NOT NULL DEFAULT true,
    events text NOT NULL DEFAULT 'none'
        CHECK (events IN ('none', 'keep', 'hand')),
    keep_raw boolean NOT NULL DEFAULT false,
    count_collections boolean NOT NULL DEFAULT false,
    links text NOT NULL DEFAULT 'none',
    validate text NOT NULL DEFAULT 'none',
    verify text NOT NULL
        CHECK (verify IN ('hash', 'chain', 'full')),
    host_is_pds boolean NOT NULL DEFAULT false,
    handles text NOT NULL DEFAULT 'none'
        CHECK (handles IN ('none', 'verify')),
    max_dead_letters integer NOT NULL DEFAULT 10000
        CHECK (max_dead_letters >= 0),
    max_dead_letter_bytes bigint NOT NULL DEFAULT 268435456
        CHECK (max_dead_letter_bytes >= 0),
    backfill text NOT NULL DEFAULT 'none'
        CHECK (backfill IN ('none', 'repair', 'seen', 'collections', 'network')),
    list_source text
        CHECK (list_source ~ '^https?://[^/?#@[:space:]]+$' AND octet_length(list_source) <= 300),
    list_hosts boolean NOT NULL DEFAULT false,
    repo_source text
        CHECK (repo_source ~ '^(pds|upstream|https?://[^/?#@[:space:]]+)$' AND octet_length(repo_source) <= 300),
    max_held_events integer NOT NULL DEFAULT 2000
        CHECK (max_held_events >= 0),
    max_held_bytes bigint NOT NULL DEFAULT 1073741824
        CHECK (max_held_bytes >= 0),
    allow_insecure boolean NOT NULL DEFAULT false,
    ca_file text,
    proxy text,
    workers integer NOT NULL DEFAULT 1
        CHECK (workers BETWEEN 1 AND 32),
    stopped text,
    stopped_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    id uuid NOT NULL UNIQUE DEFAULT gen_random_uuid()
);
COMMENT ON TABLE atproto.subscription IS 'event streams that this database follows; maintained by atproto.subscribe() and its siblings';
COMMENT ON COLUMN atproto.subscription.url IS 'wss://host/xrpc/NSID, or wss://host/subscribe of Jetstream; a new URL begins with a cursor of its own';
COMMENT ON COLUMN atproto.subscription.format IS 'how the stream''s messages are written: dag-cbor; json, as xrpc.v1.json; jetstream; NULL: as the URL tells';
COMMENT ON COLUMN atproto.subscription.endpoint IS 'scheme, host, port and path of url, filled by a trigger: what a cursor belongs to';
COMMENT ON COLUMN atproto.subscription.by_repo IS 'whether its events are of repositories, filled by a trigger';
COMMENT ON COLUMN atproto.subscription.serves_repos IS 'whether its server has repositories, too, and lists of them, filled by a trigger: a relay or PDS';
COMMENT ON COLUMN atproto.subscription.owner IS 'role that the consumer runs as; it cannot be dropped';
COMMENT ON COLUMN atproto.subscription.enabled IS 'false after atproto.pause()';
COMMENT ON COLUMN atproto.subscription.target IS 'schema of the tables that are filled';
COMMENT ON COLUMN atproto.subscription.collections IS 'only records of these collections: NSIDs, or patterns like app.bsky.*; NULL: all';
COMMENT ON COLUMN atproto.subscription.dids IS 'only these repositories; NULL: all';
COMMENT ON COLUMN atproto.subscription.slice IS 'only repositories of this part of all: 3/16 are those with did_slice(did, 16) = 3; NULL: all';
COMMENT ON COLUMN atproto.subscription.actions IS 'only these actions on records: create, update, delete; NULL: all';
COMMENT ON COLUMN atproto.subscription.keep_records IS 'whether the table record is kept in step';
COMMENT ON COLUMN atproto.subscription.events IS 'table record_event: none; keep every operation; or hand it to that table''s triggers and remove it in the same transaction';
COMMENT ON COLUMN atproto.subscription.keep_raw IS 'whether the DAG-CBOR is kept beside jsonb';
COMMENT ON COLUMN atproto.subscription.count_collections IS 'whether what events do to records is counted by hour and collection, in the view collection_stat';
COMMENT ON COLUMN atproto.subscription.links IS 'which links of records are kept in table link: none, and the table is left alone; all; or those of these sources, {app.bsky.feed.like:subject.uri,app.bsky.graph.*}';
COMMENT ON COLUMN atproto.subscription.validate IS 'what becomes of records that are not what their Lexicons (atproto.lexicon) say: none, nobody looks; flag, record.fault has why; dead_letter; or that by collection, {app.bsky.feed.post=flag,app.bsky.*=dead_letter}, where the first that fits counts';
COMMENT ON COLUMN atproto.subscription.verify IS 'hash: what is in a message''s blocks; chain: also that its operations, and no others, lead from the tree before to the one that is signed; full: also that the account, or the labeler of a label, has signed it, by the key in its DID document; filled by a trigger when it is NULL: chain, or hash where the stream allows no more';
COMMENT ON COLUMN atproto.subscription.host_is_pds IS 'at level full: the stream''s server is a PDS, and accounts that are elsewhere are not its business; never for a relay';
COMMENT ON COLUMN atproto.subscription.handles IS 'verify: the domains of accounts'' handles are asked whether they name the account (atproto.identity), now and again';
COMMENT ON COLUMN atproto.subscription.max_dead_letters IS 'with so many dead letters the subscription stops before the next one; a repository may have a twentieth of them';
COMMENT ON COLUMN atproto.subscription.max_dead_letter_bytes IS 'likewise, of the bytes of their messages';
COMMENT ON COLUMN atproto.subscription.backfill IS 'which repositories are put into atproto.repo_job: none; repair, those that are not in step; seen, also those of which something came; collections, also all that have records of these collections; network, also all that there are. The repositories in dids are put there by all but none';
COMMENT ON COLUMN atproto.subscription.list_source IS 'scheme and host of the server whose lists of repositories are read; NULL: the one of url';
COMMENT ON COLUMN atproto.subscription.list_hosts IS 'with backfill network: that server''s list of hosts is read, and the list of repositories of each of them, instead of its own';
COMMENT ON COLUMN atproto.subscription.repo_source IS 'who is asked for repositories: pds, each account''s own server; upstream, the server of url; scheme and host of a mirror of them all. NULL: pds at level full and where url is a Jetstream''s, else upstream';
COMMENT ON COLUMN atproto.subscription.max_held_events IS 'so many events of a repository may wait for its key; beyond, they are dropped and counted';
COMMENT ON COLUMN atproto.subscription.max_held_bytes IS 'likewise, of the bytes of all repositories'' events: those that have most are dropped; a repository may have a 64th of them';
COMMENT ON COLUMN atproto.subscription.allow_insecure IS 'plain ws:// allowed to other hosts than this one';
COMMENT ON COLUMN atproto.subscription.ca_file IS 'file on the server with the certificate authorities to trust, instead of the system''s; for members of pg_read_server_files';
COMMENT ON COLUMN atproto.subscription.proxy IS 'URL of a proxy; NULL: as the server''s environment says; empty: none';
COMMENT ON COLUMN atproto.subscription.workers IS 'more than 1: so many processes share the repositories of the stream, beside the one that receives it';
COMMENT ON COLUMN atproto.subscription.stopped IS 'why the consumer gave up until atproto.resume(); NULL when it did not';
COMMENT ON COLUMN atproto.subscription.name IS 'its name, by which functions call it';
COMMENT ON COLUMN atproto.subscription.stopped_at IS 'when it gave up';
COMMENT ON COLUMN atproto.subscription.id IS 'what it is known by to rows that no foreign key renames, such as repo.refill_by: it never changes';
COMMENT ON COLUMN atproto.subscription.created_at IS 'when subscribe() made it';

-- Apart from the subscriptions, so that who may read those sees no secret.
CREATE TABLE atproto.request_header (
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    name text NOT NULL
        CHECK (name ~ '^[A-Za-z0-9!#$%&''*+.^_`|~-]{1,64}$'
            AND lower(name) NOT IN ('host', 'upgrade', 'connection', 'content-length', 'transfer-encoding')
            AND lower(name) NOT LIKE 'sec-websocket-%'),
    value text NOT NULL
        CHECK (value ~ '^[\x20-\x7e]*$' AND octet_length(value) <= 4096),
    PRIMARY KEY (subscription, name)
);
COMMENT ON TABLE atproto.request_header IS 'HTTP headers sent with the upgrade request, such as Authorization';
COMMENT ON COLUMN atproto.request_header.subscription IS 'whose requests have it';
COMMENT ON COLUMN atproto.request_header.name IS 'of the header';
COMMENT ON COLUMN atproto.request_header.value IS 'of the header';

CREATE TABLE atproto.cursor (
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    endpoint text NOT NULL,
    shard integer NOT NULL DEFAULT 0
        CHECK (shard BETWEEN 0 AND 31),
    layout integer NOT NULL DEFAULT 0,
    seq bigint CHECK (seq BETWEEN 0 AND 9007199254740991),
    event_time timestamptz CHECK (isfinite(event_time)),
    events bigint NOT NULL DEFAULT 0
        CHECK (events BETWEEN 0 AND 9007199254740991),
    record_ops bigint NOT NULL DEFAULT 0
        CHECK (record_ops BETWEEN 0 AND 9007199254740991),
    settings_after bigint,
    settings bytea,
    read_from bigint,
    skips jsonb NOT NULL DEFAULT '{}'
        CHECK (jsonb_typeof(skips) = 'object' AND NOT jsonb_path_exists(skips, '$.* ? (@.type() != "number")')),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (subscription, endpoint, shard)
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE atproto.cursor IS 'last event processed of each subscription and endpoint, committed together with its rows';
COMMENT ON COLUMN atproto.cursor.shard IS 'worker whose position this is; one row, 0, unless the subscription has several workers: then everything up to the lowest seq is processed';
COMMENT ON COLUMN atproto.cursor.layout IS 'changes with the number of workers: a worker moves only the shards that it was started for';
COMMENT ON COLUMN atproto.cursor.seq IS 'last sequence number processed; NULL: begin with the next live event; 0: with the oldest';
COMMENT ON COLUMN atproto.cursor.event_time IS 'time that the last event carries';
COMMENT ON COLUMN atproto.cursor.events IS 'events processed since the subscription was made';
COMMENT ON COLUMN atproto.cursor.record_ops IS 'rows applied since the subscription was made: operations on records, labels, messages';
COMMENT ON COLUMN atproto.cursor.settings IS 'SHA-256 of these settings: what settings_after is about';
COMMENT ON COLUMN atproto.cursor.settings_after IS 'the present filters and storage settings hold for events after this one';
COMMENT ON COLUMN atproto.cursor.read_from IS 'the events after this one, up to seq, were read one after the other, and with the present settings: a gap among them is over';
COMMENT ON COLUMN atproto.cursor.skips IS 'how many events were passed over, and what was noticed, by kind, since the subscription was made: committed with seq';
COMMENT ON COLUMN atproto.cursor.subscription IS 'whose position this is';
COMMENT ON COLUMN atproto.cursor.endpoint IS 'stream that it is a position in: subscription.endpoint when it was read';
COMMENT ON COLUMN atproto.cursor.updated_at IS 'when this row was written last';

SELECT pg_catalog.pg_extension_config_dump('atproto.subscription', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.cursor', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.request_header', '');

-- Who may use the tables without being superuser still sees only subscriptions
-- of roles that he is a member of, and what belongs to them.
ALTER TABLE atproto.subscription ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.subscription
    USING (pg_catalog.pg_has_role(owner, 'USAGE'));
ALTER TABLE atproto.request_header ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.request_header
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
ALTER TABLE atproto.cursor ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.cursor
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));

CREATE FUNCTION atproto.role_may_fill(role oid, target name) RETURNS boolean
    LANGUAGE c STABLE STRICT AS 'MODULE_PATHNAME', 'atp_role_may_fill_sql';
COMMENT ON FUNCTION atproto.role_may_fill(oid, name) IS 'whether a role may fill the tables of a schema: it has SELECT, INSERT, UPDATE and DELETE on those that are there; where none is, CREATE on the schema; where there is no such schema, CREATE on the database; and no table belongs to a third role';
REVOKE ALL ON FUNCTION atproto.role_may_fill(oid, name) FROM PUBLIC;

-- Checks the row.
CREATE FUNCTION atproto.subscription_check() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_subscription_check';
COMMENT ON FUNCTION atproto.subscription_check() IS 'trigger: validates a subscription';
CREATE TRIGGER subscription_check BEFORE INSERT OR UPDATE ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION atproto.subscription_check();
-- also for what comes by logical replication
ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_check;
CREATE FUNCTION atproto.subscription_owned() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_subscription_owned';
COMMENT ON FUNCTION atproto.subscription_owned() IS 'trigger: sees to it that the owner of a subscription cannot be dropped';
CREATE TRIGGER subscription_owned AFTER INSERT OR UPDATE OF owner OR DELETE ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION atproto.subscription_owned();
CREATE TRIGGER subscription_none AFTER TRUNCATE ON atproto.subscription
    FOR EACH STATEMENT EXECUTE FUNCTION atproto.subscription_owned();
ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_owned;
ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_none;
CREATE FUNCTION atproto.request_header_check() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_request_header_check';
COMMENT ON FUNCTION atproto.request_header_check() IS 'trigger: validates a header, and prints no value';
CREATE TRIGGER request_header_check BEFORE INSERT OR UPDATE ON atproto.request_header
    FOR EACH ROW EXECUTE FUNCTION atproto.request_header_check();
ALTER TABLE atproto.request_header ENABLE ALWAYS TRIGGER request_header_check;

REVOKE ALL ON FUNCTION
    atproto.subscription_check(), atproto.subscription_owned(), atproto.request_header_check()
    FROM PUBLIC;
