/*
 * src/tables/repos: requests to ask an account's server whether the account is active, deleted, or newer than the stored repository.
 */

CREATE TABLE atproto.status_request (
    target name NOT NULL,
    did @extschema@.did NOT NULL,
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    why text NOT NULL
        CHECK (why IN ('inactive', 'deleted', 'rev')),
    status_at timestamptz,
    status_seq bigint,
    requested_at timestamptz NOT NULL,
    answered_at timestamptz,
    next_try timestamptz NOT NULL DEFAULT 'epoch',
    tries integer NOT NULL DEFAULT 0
        CHECK (tries >= 0),
    error text
        CHECK (octet_length(error) <= 1000),
    PRIMARY KEY (target, did)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
-- for the deletion of old rows; an index on next_try of all rows would be chosen for the rows of a subscription, too
CREATE INDEX status_request_answered ON atproto.status_request (next_try) WHERE answered_at IS NOT NULL;
CREATE INDEX status_request_old ON atproto.status_request (requested_at) WHERE why <> 'deleted';
-- by subscription: the fetcher takes the requests in turn from the owners of the subscriptions
CREATE INDEX status_request_due ON atproto.status_request (subscription, next_try) WHERE why <> 'rev';
CREATE INDEX status_request_rev ON atproto.status_request (subscription, next_try) WHERE why = 'rev';
CREATE INDEX status_request_subscription ON atproto.status_request (subscription);
-- The key has no owner, as that of atproto.repo_job: an account has one status in a target, whichever subscription asks for it.
COMMENT ON TABLE atproto.status_request IS 'accounts whose own servers are asked for their status, at most once in ten minutes; only the fetcher removes a row';
COMMENT ON COLUMN atproto.status_request.target IS 'schema of the tables that the answer concerns';
COMMENT ON COLUMN atproto.status_request.subscription IS 'the subscription that received the event; the answer is applied with the rights of its owner';
COMMENT ON COLUMN atproto.status_request.why IS 'inactive: the tables say that the account is not active, but the account has signed a commit; deleted: the stream or a server that was asked for the repository says that the account is deleted, so its records are hidden, and they are removed when the account''s server or the directory agrees; rev: atproto.recheck() has found the account in a list without its revision, a request with the lowest priority';
COMMENT ON COLUMN atproto.status_request.status_at IS 'the value in the repository''s row at the time of the request: the answer is applied only if the value is unchanged; NULL with why = rev';
COMMENT ON COLUMN atproto.status_request.status_seq IS 'like status_at, for the sequence number';
COMMENT ON COLUMN atproto.status_request.answered_at IS 'when the server answered; the row stays until the server may be asked again';
COMMENT ON COLUMN atproto.status_request.next_try IS 'the server is not asked before this time';
COMMENT ON COLUMN atproto.status_request.tries IS 'how often the server was asked';
COMMENT ON COLUMN atproto.status_request.error IS 'why there is no answer yet';
COMMENT ON COLUMN atproto.status_request.did IS 'the account whose status is asked for';
COMMENT ON COLUMN atproto.status_request.requested_at IS 'when the request was made';

SELECT pg_catalog.pg_extension_config_dump('atproto.status_request', '');

-- a role sees the rows of the subscriptions that it sees
ALTER TABLE atproto.status_request ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.status_request
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription))
    -- a row for the target of another role would stand in the place of that role's request
    WITH CHECK (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = status_request.subscription AND s.target = status_request.target));
