/*
 * src/tables: accounts whose server is asked whether they are active, or deleted, or newer than what is stored.
 */

CREATE TABLE atproto.status_wish (
    target name NOT NULL,
    did @extschema@.did NOT NULL,
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    why text NOT NULL
        CHECK (why IN ('inactive', 'deleted', 'rev')),
    status_at timestamptz,
    status_seq bigint,
    wished_at timestamptz NOT NULL,
    answered_at timestamptz,
    next_try timestamptz NOT NULL DEFAULT '-infinity',
    tries integer NOT NULL DEFAULT 0
        CHECK (tries >= 0),
    error text
        CHECK (octet_length(error) <= 1000),
    PRIMARY KEY (target, did)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX status_wish_due ON atproto.status_wish (next_try) WHERE why <> 'rev';
CREATE INDEX status_wish_rev ON atproto.status_wish (next_try) WHERE why = 'rev';
CREATE INDEX status_wish_subscription ON atproto.status_wish (subscription);
COMMENT ON TABLE atproto.status_wish IS 'accounts whose own servers are asked for their status, at most once in ten minutes; only the fetcher removes a row';
COMMENT ON COLUMN atproto.status_wish.target IS 'schema of the tables';
COMMENT ON COLUMN atproto.status_wish.subscription IS 'what the event came by; its owner''s rights count';
COMMENT ON COLUMN atproto.status_wish.why IS 'inactive: it is not active, by the tables, and has signed a commit all the same; deleted: the stream says so, or a server that was asked for its repository, and its records are hidden: they go when its server or the directory agrees; rev: atproto.recheck() has found it in a list that does not say its revision: it is asked when nobody else is to be';
COMMENT ON COLUMN atproto.status_wish.status_at IS 'as in the repository''s row then: the answer counts if it is still the same; not of a rev';
COMMENT ON COLUMN atproto.status_wish.status_seq IS 'likewise';
COMMENT ON COLUMN atproto.status_wish.answered_at IS 'when the server has answered; the row stays until it may be asked again';
COMMENT ON COLUMN atproto.status_wish.next_try IS 'not asked before';
COMMENT ON COLUMN atproto.status_wish.tries IS 'how often it was asked';
COMMENT ON COLUMN atproto.status_wish.error IS 'why there is no answer yet';
COMMENT ON COLUMN atproto.status_wish.did IS 'the account';
COMMENT ON COLUMN atproto.status_wish.wished_at IS 'since when that is wished for';

SELECT pg_catalog.pg_extension_config_dump('atproto.status_wish', '');

-- seen by whom the subscription is
ALTER TABLE atproto.status_wish ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.status_wish
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
