/*
 * src/config: the subscriptions, as operators wrote them, and the position of each stream.  All objects of
 * the consumer are in the fixed schema atproto.  PUBLIC gets no privileges, because subscribing makes the
 * server open a network connection.
 */

-- Expressions of checks, defaults, policies and views are parsed here. They must find only objects
-- of pg_catalog: in the extension's schema, a user could have created an operator that matches
-- better.
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE atproto.subscription (
    name text PRIMARY KEY
        CHECK (octet_length(name) BETWEEN 1 AND 63),
    url text NOT NULL
        CHECK (octet_length(url) <= 8192),
    format text
        CHECK (format IN ('dag-cbor', 'json', 'jetstream', 'plc')),
    endpoint text NOT NULL,
    by_repo boolean NOT NULL,
    serves_repos boolean NOT NULL,
    owner regrole NOT NULL DEFAULT to_regrole(quote_ident(current_user)),
    enabled boolean NOT NULL DEFAULT true,
    target name NOT NULL DEFAULT 'atproto',
    target_owner oid NOT NULL DEFAULT 0,
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
    identities boolean NOT NULL DEFAULT false,
    fetch_as text NOT NULL DEFAULT 'auto'
        CHECK (fetch_as IN ('auto', 'whole', 'sparse')),
    history text NOT NULL DEFAULT 'none'
        CHECK (history IN ('none', 'archive')),
    archive_source text
        CHECK (archive_source ~ '^https?://[^/?#@[:space:]]+$' AND octet_length(archive_source) <= 300),
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
COMMENT ON TABLE atproto.subscription IS 'event streams followed by this database; maintained by atproto.subscribe() and its siblings';
COMMENT ON COLUMN atproto.subscription.url IS 'wss://host/xrpc/NSID, or wss://host/subscribe for Jetstream; a new URL begins with its own cursor';
COMMENT ON COLUMN atproto.subscription.format IS 'how the stream''s messages are written: dag-cbor; json, as xrpc.v1.json; jetstream; plc, the entries of a did:plc directory; NULL: as the URL tells';
COMMENT ON COLUMN atproto.subscription.endpoint IS 'scheme, host, port and path of url, filled by a trigger: the key of a cursor';
COMMENT ON COLUMN atproto.subscription.by_repo IS 'whether the stream''s events belong to repositories, filled by a trigger';
COMMENT ON COLUMN atproto.subscription.serves_repos IS 'whether the stream''s server also serves repositories and lists of repositories, as a relay or PDS does; filled by a trigger';
COMMENT ON COLUMN atproto.subscription.owner IS 'role whose rights the consumer uses; the role cannot be dropped';
COMMENT ON COLUMN atproto.subscription.enabled IS 'false after atproto.pause()';
COMMENT ON COLUMN atproto.subscription.target IS 'schema of the tables to fill';
COMMENT ON COLUMN atproto.subscription.target_owner IS 'owner of this schema when the target was set, or at the last resume(), filled by a trigger; 0: there was no such schema, or the row was restored. A schema of the same name that belongs to another role is not filled';
COMMENT ON COLUMN atproto.subscription.collections IS 'restricts records to these collections: NSIDs, or patterns like app.bsky.*; NULL: all';
COMMENT ON COLUMN atproto.subscription.dids IS 'restricts events to these repositories; NULL: all';
COMMENT ON COLUMN atproto.subscription.slice IS 'restricts events to a part of all repositories: 3/16 means repositories with did_slice(did, 16) = 3; NULL: all';
COMMENT ON COLUMN atproto.subscription.actions IS 'restricts operations on records to these actions: create, update, delete; NULL: all';
COMMENT ON COLUMN atproto.subscription.keep_records IS 'whether the table record is kept in step';
COMMENT ON COLUMN atproto.subscription.events IS 'use of table record_event: none; keep every operation; or hand the row to the table''s triggers, and remove the row in the same transaction';
COMMENT ON COLUMN atproto.subscription.keep_raw IS 'whether the DAG-CBOR is kept beside jsonb; refused where the values of the target are of the type dagcbor';
COMMENT ON COLUMN atproto.subscription.count_collections IS 'whether changes of records are counted by hour and collection, in the view collection_stat';
COMMENT ON COLUMN atproto.subscription.links IS 'which links of records are stored in table link: none, and the table is left alone; all; or links of these sources, {app.bsky.feed.like:subject.uri,app.bsky.graph.*}';
COMMENT ON COLUMN atproto.subscription.validate IS 'treatment of records that violate their Lexicons (atproto.lexicon): none, not validated; flag, the reason is in record.fault; dead_letter; or by collection, {app.bsky.feed.post=flag,app.bsky.*=dead_letter}, where the first matching element counts';
-- F-17: what is authenticated at which level
COMMENT ON COLUMN atproto.subscription.verify IS 'hash: the hashes of a message''s blocks; chain: also whether exactly the message''s operations lead from the tree before to the signed tree; full: also the signature of the account, or of a label''s labeler, by the key in the DID document; NULL is replaced by a trigger: chain, or hash where the stream allows no more';
COMMENT ON COLUMN atproto.subscription.host_is_pds IS 'at level full: the stream''s server is a PDS, and events of accounts on other servers are ignored; never for a relay';
COMMENT ON COLUMN atproto.subscription.handles IS 'verify: the domains of handles are asked now and again whether they name the account (atproto.identity)';
COMMENT ON COLUMN atproto.subscription.max_dead_letters IS 'the subscription stops when a new dead letter would exceed this number; a repository may have a twentieth of this';
COMMENT ON COLUMN atproto.subscription.max_dead_letter_bytes IS 'the subscription stops when a new dead letter would exceed this number of bytes of messages; a repository may have a twentieth of this';
COMMENT ON COLUMN atproto.subscription.backfill IS 'which repositories are put into atproto.repo_job: none; repair, repositories out of step; seen, also repositories with an event; collections, also all repositories with records of these collections; network, also all others. All values but none include the repositories in dids';
COMMENT ON COLUMN atproto.subscription.list_source IS 'scheme and host of the server whose lists of repositories are read; NULL: the server of url';
COMMENT ON COLUMN atproto.subscription.list_hosts IS 'with backfill network: read the server''s list of hosts, and the list of repositories of each host, instead of the server''s own list of repositories';
COMMENT ON COLUMN atproto.subscription.repo_source IS 'the server of repositories: pds, each account''s own server; upstream, the server of url; scheme and host of a mirror of all repositories. NULL: pds at level full and for a Jetstream, else upstream';
COMMENT ON COLUMN atproto.subscription.fetch_as IS 'how a repository is fetched if the subscription names collections: whole; sparse, only these collections, with proof that no record is missing; auto, sparse where that is cheaper and the host can, else whole. Experimental.';
COMMENT ON COLUMN atproto.subscription.history IS 'archive: the archive of the stream''s server, a Jetstream of version 2, is read before the stream, from the cursor on; none: the stream alone. Experimental.';
COMMENT ON COLUMN atproto.subscription.archive_source IS 'scheme and host of the archive''s server; NULL: the server of url. Experimental.';
COMMENT ON COLUMN atproto.subscription.identities IS 'of a did:plc directory: atproto.identity follows the log, and look-ups of accounts in the log are answered from the log while the log is fresh; only for owners with the rights of the extension''s owner, and only while no other role may write the tables of the log. Experimental.';
COMMENT ON COLUMN atproto.subscription.max_held_events IS 'limit of a repository''s held events; further events are dropped and counted';
COMMENT ON COLUMN atproto.subscription.max_held_bytes IS 'limit of the bytes of all held events; above it, events of the repositories with most bytes are dropped; a repository may have a 64th of this';
COMMENT ON COLUMN atproto.subscription.allow_insecure IS 'allows plain ws:// to hosts other than this machine';
COMMENT ON COLUMN atproto.subscription.ca_file IS 'file on the server with the certificate authorities to trust, instead of the system''s; for members of pg_read_server_files';
COMMENT ON COLUMN atproto.subscription.proxy IS 'URL of a proxy; NULL: taken from the server''s environment; empty: no proxy';
COMMENT ON COLUMN atproto.subscription.workers IS 'above 1: this number of worker processes share the stream''s repositories, in addition to the receiving process';
COMMENT ON COLUMN atproto.subscription.stopped IS 'why the consumer gave up until atproto.resume(); NULL: the consumer has not given up';
COMMENT ON COLUMN atproto.subscription.name IS 'name of the subscription, used as argument of functions';
COMMENT ON COLUMN atproto.subscription.stopped_at IS 'when the consumer gave up';
COMMENT ON COLUMN atproto.subscription.id IS 'constant identifier for rows that no foreign key renames, such as repo.refill_by';
COMMENT ON COLUMN atproto.subscription.created_at IS 'when subscribe() made the subscription';

-- Headers may be secrets. They are in a table of their own, so that a role may read subscriptions
-- without reading secrets.
CREATE TABLE atproto.request_header (
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    name text NOT NULL
        CHECK (name ~ '^[A-Za-z0-9!#$%&''*+.^_`|~-]{1,64}$'
            AND lower(name) NOT IN ('host', 'upgrade', 'connection', 'content-length', 'transfer-encoding')
            AND lower(name) NOT LIKE 'sec-websocket-%'),
    value text NOT NULL
        CHECK (value ~ '^[\x20-\x7e]*$' AND octet_length(value) <= 4096),
    archive boolean NOT NULL DEFAULT false,
    PRIMARY KEY (subscription, archive, name)
);
COMMENT ON TABLE atproto.request_header IS 'HTTP headers sent with the upgrade request, or with the requests to the archive, such as Authorization';
COMMENT ON COLUMN atproto.request_header.archive IS 'true: sent with the requests to the archive only; false: with the upgrade request only. Experimental.';
COMMENT ON COLUMN atproto.request_header.subscription IS 'the subscription whose requests have the header';
COMMENT ON COLUMN atproto.request_header.name IS 'name of the header';
COMMENT ON COLUMN atproto.request_header.value IS 'value of the header';

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
    left_at bigint,
    last_row bigint,
    skips jsonb NOT NULL DEFAULT '{}'
        CHECK (jsonb_typeof(skips) = 'object' AND NOT jsonb_path_exists(skips, '$.* ? (@.type() != "number")')),
    updated_at timestamptz NOT NULL DEFAULT now(),
    passed_at timestamptz CHECK (isfinite(passed_at)),
    PRIMARY KEY (subscription, endpoint, shard)
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE atproto.cursor IS 'last event processed of each subscription and endpoint, committed in the same transaction as its rows';
COMMENT ON COLUMN atproto.cursor.shard IS 'the worker with this position; a single row, 0, unless the subscription has several workers: then everything up to the lowest seq is processed';
COMMENT ON COLUMN atproto.cursor.layout IS 'changes with the number of workers, with the target and its name; a process moves only shards of the layout it was started with';
COMMENT ON COLUMN atproto.cursor.seq IS 'last sequence number processed; NULL: begin with the next live event; 0: with the oldest';
COMMENT ON COLUMN atproto.cursor.event_time IS 'time in the last event';
COMMENT ON COLUMN atproto.cursor.events IS 'events processed since the subscription was made';
COMMENT ON COLUMN atproto.cursor.record_ops IS 'rows applied since the subscription was made: operations on records, labels, messages';
COMMENT ON COLUMN atproto.cursor.settings IS 'SHA-256 of the settings meant by settings_after';
COMMENT ON COLUMN atproto.cursor.settings_after IS 'the present filters and storage settings hold for events after this position';
COMMENT ON COLUMN atproto.cursor.read_from IS 'events after this position, up to seq, were read without omission and with the present settings: a gap among them is closed';
COMMENT ON COLUMN atproto.cursor.left_at IS 'seq before set_cursor() set the cursor to 0, until the server''s oldest event has come: forgotten events between the two become a gap';
COMMENT ON COLUMN atproto.cursor.last_row IS 'of a stream whose server has an archive: digest of the row at seq, to notice a server with other rows; NULL: not known';
COMMENT ON COLUMN atproto.cursor.skips IS 'kinds of events passed over and of findings, with counts, since the subscription was made; committed with seq';
COMMENT ON COLUMN atproto.cursor.subscription IS 'the subscription';
COMMENT ON COLUMN atproto.cursor.endpoint IS 'the stream of the position: subscription.endpoint at the time of reading';
COMMENT ON COLUMN atproto.cursor.updated_at IS 'when this row was written last';
COMMENT ON COLUMN atproto.cursor.passed_at IS 'while an archive is read into the same tables: the stream brings no event of before this time any more; the median of the last times of many accounts, or the time before an hour of silence; NULL: not known';

SELECT pg_catalog.pg_extension_config_dump('atproto.subscription', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.cursor', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.request_header', '');

-- A role without superuser rights that is granted access to the tables sees only subscriptions of
-- roles of which it is a member, and rows that belong to these subscriptions.
ALTER TABLE atproto.subscription ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.subscription
    USING (pg_catalog.pg_has_role(owner, 'USAGE'));
ALTER TABLE atproto.request_header ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.request_header
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
ALTER TABLE atproto.cursor ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.cursor
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));

CREATE FUNCTION atproto.role_may_fill(role oid, target name, target_owner oid) RETURNS boolean
    LANGUAGE c STABLE STRICT AS 'MODULE_PATHNAME', 'atp_role_may_fill_sql';
COMMENT ON FUNCTION atproto.role_may_fill(oid, name, oid) IS 'whether a role may fill the tables of a schema: the role has SELECT, INSERT, UPDATE and DELETE on the data tables in the schema; if there is none, CREATE on the schema; if there is no schema, CREATE on the database; no data table belongs to a third role; and the schema belongs to target_owner, to a superuser, or to a role of which the role is a member';

-- atproto.identity serves the subscriptions of all roles.
CREATE FUNCTION atproto.log_is_believed(owner oid, target name) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
        SELECT pg_has_role(owner, t.relowner, 'USAGE') AND pg_has_role(n.nspowner, t.relowner, 'USAGE')
            AND NOT EXISTS (SELECT FROM pg_class c
                LEFT JOIN LATERAL (SELECT x.* FROM aclexplode(c.relacl) x
                    UNION ALL SELECT x.* FROM pg_attribute a, aclexplode(a.attacl) x WHERE a.attrelid = c.oid) g ON true
                WHERE c.relnamespace = n.oid AND c.relname LIKE 'plc\_%' AND c.relkind IN ('r', 'p', 'f', 'v', 'm')
                    AND (NOT pg_has_role(c.relowner, t.relowner, 'USAGE')
                        OR (g.privilege_type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER')
                            AND (g.grantee = 0 OR NOT pg_has_role(g.grantee, t.relowner, 'USAGE')))))
            AND has_schema_privilege(t.relowner, n.oid, 'USAGE')
            AND 3 = (SELECT count(*) FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname IN ('plc_history', 'plc_operation', 'plc_refused')
                AND has_table_privilege(t.relowner, c.oid, 'SELECT'))
        FROM pg_class t, pg_namespace n
        WHERE t.oid = 'atproto.identity'::regclass AND n.nspname = target
    $$;
COMMENT ON FUNCTION atproto.log_is_believed(oid, name) IS 'whether the log of a did:plc directory in a schema may fill atproto.identity: its owner, and each role that may write its tables, have the rights of the owner of atproto.identity';

-- Checks the row.
CREATE FUNCTION atproto_internal.subscription_check() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_subscription_check';
COMMENT ON FUNCTION atproto_internal.subscription_check() IS 'trigger: validates a subscription';
CREATE TRIGGER subscription_check BEFORE INSERT OR UPDATE ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION atproto_internal.subscription_check();
-- fire also for rows that come by logical replication
ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_check;
CREATE FUNCTION atproto_internal.subscription_owned() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_subscription_owned';
COMMENT ON FUNCTION atproto_internal.subscription_owned() IS 'trigger: protects the owner of a subscription against DROP ROLE';
CREATE TRIGGER subscription_owned AFTER INSERT OR UPDATE OF owner OR DELETE ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION atproto_internal.subscription_owned();
CREATE TRIGGER subscription_none AFTER TRUNCATE ON atproto.subscription
    FOR EACH STATEMENT EXECUTE FUNCTION atproto_internal.subscription_owned();
ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_owned;
ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_none;
CREATE FUNCTION atproto_internal.request_header_check() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_request_header_check';
COMMENT ON FUNCTION atproto_internal.request_header_check() IS 'trigger: validates a header without printing its value';
CREATE TRIGGER request_header_check BEFORE INSERT OR UPDATE ON atproto.request_header
    FOR EACH ROW EXECUTE FUNCTION atproto_internal.request_header_check();
ALTER TABLE atproto.request_header ENABLE ALWAYS TRIGGER request_header_check;

REVOKE ALL ON FUNCTION
    atproto_internal.subscription_check(), atproto_internal.subscription_owned(), atproto_internal.request_header_check()
    FROM PUBLIC;
