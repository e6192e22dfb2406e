/*
 * src/tables/plc: accounts whose logs a directory is asked for.
 */

CREATE TABLE atproto.plc_log_request (
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    did @extschema@.did NOT NULL,
    why text NOT NULL
        CHECK (why IN ('prev', 'dids')),
    requested_at timestamptz NOT NULL,
    next_try timestamptz,
    tries integer NOT NULL DEFAULT 0
        CHECK (tries >= 0),
    failures integer NOT NULL DEFAULT 0
        CHECK (failures >= 0),
    answered_at timestamptz,
    answer bytea,
    error text
        CHECK (octet_length(error) <= 1000),
    PRIMARY KEY (subscription, did)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX plc_log_request_due ON atproto.plc_log_request (subscription, next_try) WHERE answer IS NULL;
CREATE INDEX plc_log_request_answered ON atproto.plc_log_request (subscription, answered_at) WHERE answer IS NOT NULL;
COMMENT ON TABLE atproto.plc_log_request IS 'accounts whose logs the subscription''s did:plc directory is asked for; the fetcher asks, the subscription''s consumer stores what the answer has, with the entries of the account in plc_refused that wait for the answer. Experimental.';
COMMENT ON COLUMN atproto.plc_log_request.subscription IS 'the subscription: its directory is asked, and the answer is stored with the rights of its owner';
COMMENT ON COLUMN atproto.plc_log_request.did IS 'the account';
COMMENT ON COLUMN atproto.plc_log_request.why IS 'prev: the stream brought an operation that follows an unknown one; dids: the subscription names the account';
COMMENT ON COLUMN atproto.plc_log_request.requested_at IS 'when the log was asked for first, or last after an answer';
COMMENT ON COLUMN atproto.plc_log_request.next_try IS 'the directory is not asked before this time; NULL: it is not asked any more';
COMMENT ON COLUMN atproto.plc_log_request.tries IS 'answers about the account';
COMMENT ON COLUMN atproto.plc_log_request.failures IS 'requests without such an answer, since the last answer';
COMMENT ON COLUMN atproto.plc_log_request.answered_at IS 'when the last answer came, or the last request failed';
COMMENT ON COLUMN atproto.plc_log_request.answer IS 'the log, as received, until the consumer has stored it';
COMMENT ON COLUMN atproto.plc_log_request.error IS 'why the last answer has no log of the account';

SELECT pg_catalog.pg_extension_config_dump('atproto.plc_log_request', '');

-- a role sees the rows of the subscriptions that it sees
ALTER TABLE atproto.plc_log_request ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.plc_log_request
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));

CREATE FUNCTION atproto_internal.log_begins_again() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_log_begins_again';
COMMENT ON FUNCTION atproto_internal.log_begins_again() IS 'trigger: when a subscription to a did:plc directory names accounts no longer, or gets another target, its log is read from the beginning; with dids, the logs of the accounts are asked for again';
CREATE TRIGGER log_begins_again AFTER UPDATE OF target, dids ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION atproto_internal.log_begins_again();
REVOKE ALL ON FUNCTION atproto_internal.log_begins_again() FROM PUBLIC;

-- No EXECUTE for PUBLIC, as for subscribe(): a caller makes the server send requests.
CREATE FUNCTION atproto.plc_ask(subscription text, did @extschema@.did DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME', 'atp_plc_ask'
	LANGUAGE C;
COMMENT ON FUNCTION atproto.plc_ask(text, @extschema@.did) IS
	'asks the directory of a subscription for the log of an account; without an account, for the logs of all accounts in dids, or, without dids, of accounts with entries in plc_refused that follow an unknown operation; returns the number of accounts. Experimental.';
REVOKE ALL ON FUNCTION atproto.plc_ask(text, @extschema@.did) FROM PUBLIC;
