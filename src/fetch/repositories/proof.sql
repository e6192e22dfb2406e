/*
 * src/fetch: proofs: comparisons of tables with the repositories of accounts, collection by collection.
 */

CREATE TABLE atproto.proof_sample (
    target name PRIMARY KEY,
    seed bigint NOT NULL,
    share double precision NOT NULL
        CHECK (share > 0 AND share <= 1),
    asked_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE atproto.proof_sample IS 'which accounts of a target prove() has asked for: those whose hash, with this seed, is below the share. Experimental.';
COMMENT ON COLUMN atproto.proof_sample.target IS 'schema of the tables';
COMMENT ON COLUMN atproto.proof_sample.seed IS 'chosen at random by the first prove() of the target, and kept: a larger share contains the accounts of a smaller share';
COMMENT ON COLUMN atproto.proof_sample.share IS 'the largest share so far';
COMMENT ON COLUMN atproto.proof_sample.asked_at IS 'when prove() was called last';

CREATE TABLE atproto.proof_result (
    target name NOT NULL,
    did @extschema@.did NOT NULL,
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    proved_set bigint NOT NULL,
    state text NOT NULL DEFAULT 'queued'
        CHECK (state IN ('queued', 'open', 'done')),
    host text
        CHECK (octet_length(host) <= 300),
    tries integer NOT NULL DEFAULT 0
        CHECK (tries >= 0),
    put_off integer NOT NULL DEFAULT 0
        CHECK (put_off >= 0),
    next_try timestamptz NOT NULL DEFAULT 'epoch',
    asked_at timestamptz NOT NULL DEFAULT now(),
    open_since timestamptz,
    rev atproto.tid,
    equal boolean,
    records bigint CHECK (records >= 0),
    missing bigint CHECK (missing >= 0),
    extra bigint CHECK (extra >= 0),
    other bigint CHECK (other >= 0),
    letters bigint CHECK (letters >= 0),
    paths text[]
        CHECK (cardinality(paths) <= 100),
    error text
        CHECK (octet_length(error) <= 1000),
    reason text
        CHECK (octet_length(reason) <= 100),
    at timestamptz,
    PRIMARY KEY (target, did),
    CHECK ((error IS NULL) = (reason IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX proof_result_due ON atproto.proof_result (next_try) WHERE state <> 'done';
CREATE INDEX proof_result_new ON atproto.proof_result (next_try) WHERE state <> 'done' AND host IS NULL;
CREATE INDEX proof_result_subscription ON atproto.proof_result (subscription);
COMMENT ON TABLE atproto.proof_result IS 'proofs, one for each account: whether the table record has exactly the records of the account''s repository; asked for by prove(). Experimental.';
COMMENT ON COLUMN atproto.proof_result.target IS 'schema of the tables';
COMMENT ON COLUMN atproto.proof_result.did IS 'the account';
COMMENT ON COLUMN atproto.proof_result.subscription IS 'subscription whose settings and owner count for the proof';
COMMENT ON COLUMN atproto.proof_result.proved_set IS 'the compared collections (atproto.proved_set)';
COMMENT ON COLUMN atproto.proof_result.state IS 'queued: to be compared; open: differences were found, and the stream may still bring them; done';
COMMENT ON COLUMN atproto.proof_result.host IS 'host that is asked, or was asked last; NULL: not determined yet';
COMMENT ON COLUMN atproto.proof_result.tries IS 'failures in a row';
COMMENT ON COLUMN atproto.proof_result.put_off IS 'how often in a row the proof was put off without a failure: the host wanted requests later, events of the account waited, or the account moved on';
COMMENT ON COLUMN atproto.proof_result.next_try IS 'the fetcher does not try before this time';
COMMENT ON COLUMN atproto.proof_result.asked_at IS 'when prove() asked for the account';
COMMENT ON COLUMN atproto.proof_result.open_since IS 'since when differences wait for the stream; NULL: they do not';
COMMENT ON COLUMN atproto.proof_result.rev IS 'revision of the commit that the rows were compared with; NULL: not compared yet';
COMMENT ON COLUMN atproto.proof_result.equal IS 'whether the rows were exactly the records of this commit, apart from letters; NULL: not known yet';
COMMENT ON COLUMN atproto.proof_result.records IS 'records of the commit in these collections';
COMMENT ON COLUMN atproto.proof_result.missing IS 'records of the commit without a row';
COMMENT ON COLUMN atproto.proof_result.extra IS 'rows without a record of the commit';
COMMENT ON COLUMN atproto.proof_result.other IS 'rows with a CID that is not the record''s';
COMMENT ON COLUMN atproto.proof_result.letters IS 'records without a row that have a dead letter: they cannot be stored, and count as neither missing nor equal';
COMMENT ON COLUMN atproto.proof_result.paths IS 'the first 100 differences: missing, extra or other, and the path';
COMMENT ON COLUMN atproto.proof_result.error IS 'why the last try failed; NULL: it did not';
COMMENT ON COLUMN atproto.proof_result.reason IS 'the same in a few words, without addresses and names: by which atproto.proof counts';
COMMENT ON COLUMN atproto.proof_result.at IS 'when the rows were compared';

SELECT pg_catalog.pg_extension_config_dump('atproto.proof_sample', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.proof_result', '');

-- a role sees the proofs of the subscriptions that the role sees
ALTER TABLE atproto.proof_result ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.proof_result
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
ALTER TABLE atproto.proof_sample ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.proof_sample
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.target = proof_sample.target));

CREATE FUNCTION atproto.prove(target name DEFAULT 'atproto', share double precision DEFAULT 1, collections text[] DEFAULT NULL) RETURNS bigint
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_prove';
COMMENT ON FUNCTION atproto.prove(name, double precision, text[]) IS 'have the fetcher compare the rows of a target''s accounts with the accounts'' own repositories, record by record; share: only of this share of the accounts, a sample that contains all smaller samples; collections: only these, NULL: those of the subscription. Returns the number of accounts. Results are in atproto.proof and atproto.proof_result. Experimental.';

CREATE FUNCTION atproto_internal.proof_share(k bigint, n bigint, upper boolean) RETURNS double precision
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'atp_proof_share';
COMMENT ON FUNCTION atproto_internal.proof_share(bigint, bigint, boolean) IS 'bound, with 95 % confidence, of the share of a whole of which a sample of n has k: the upper bound of Clopper and Pearson, or the lower';

CREATE FUNCTION atproto_internal.proof_accounts(target name, subscription text, proved_set bigint, OUT accounts bigint, OUT present bigint) RETURNS record
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_proof_accounts';
COMMENT ON FUNCTION atproto_internal.proof_accounts(name, text, bigint) IS 'active accounts of a target; and how many of them were proven at the present revision, in the collections of this set: reads the table repo with the rights of the subscription''s owner; only for the owner and members of pg_monitor, and while the subscription fills the target, else NULL';

CREATE VIEW atproto.proof WITH (security_barrier) AS
    SELECT p.target, p.subscription, q.collections, m.share,
        a.accounts,
        COALESCE(a.present, 0) AS proven,
        p.equal - COALESCE(a.present, 0) AS earlier,
        p.differing, p.refused, p.waiting,
        GREATEST(a.accounts - p.asked, 0) AS not_asked,
        p.records, p.missing, p.differences, p.letters,
        atproto_internal.proof_share(p.differing, p.compared, false) AS differing_at_least,
        atproto_internal.proof_share(p.differing, p.compared, true) AS differing_at_most,
        atproto_internal.proof_share(p.missing, p.records, false) AS missing_at_least,
        atproto_internal.proof_share(p.missing, p.records, true) AS missing_at_most,
        p.reasons
    FROM (SELECT r.target, r.subscription, r.proved_set, count(*) AS asked,
            count(*) FILTER (WHERE r.equal) AS equal,
            count(*) FILTER (WHERE r.state = 'done' AND NOT r.equal) AS differing,
            count(*) FILTER (WHERE r.state = 'done') AS compared,
            count(*) FILTER (WHERE r.state <> 'done' AND r.error IS NOT NULL) AS refused,
            count(*) FILTER (WHERE r.state <> 'done' AND r.error IS NULL) AS waiting,
            COALESCE(sum(r.records) FILTER (WHERE r.state = 'done'), 0)::bigint AS records,
            COALESCE(sum(r.missing) FILTER (WHERE r.state = 'done'), 0)::bigint AS missing,
            COALESCE(sum(r.missing + r.extra + r.other) FILTER (WHERE r.state = 'done'), 0)::bigint AS differences,
            COALESCE(sum(r.letters) FILTER (WHERE r.state = 'done'), 0)::bigint AS letters,
            (SELECT pg_catalog.jsonb_object_agg(e.reason, e.n) FROM (SELECT x.reason, count(*) AS n FROM atproto.proof_result x
                WHERE x.subscription = r.subscription AND x.proved_set = r.proved_set AND x.state <> 'done' AND x.reason IS NOT NULL
                GROUP BY x.reason ORDER BY count(*) DESC, x.reason LIMIT 20) e) AS reasons
        FROM atproto.proof_result r GROUP BY r.target, r.subscription, r.proved_set) p
        JOIN atproto.subscription s ON s.name = p.subscription
        LEFT JOIN atproto.proved_set q ON q.target = p.target AND q.id = p.proved_set
        LEFT JOIN atproto.proof_sample m ON m.target = p.target
        CROSS JOIN LATERAL atproto_internal.proof_accounts(p.target, p.subscription, p.proved_set) a
    WHERE pg_catalog.pg_has_role('pg_monitor', 'USAGE') OR pg_catalog.pg_has_role(s.owner, 'USAGE');
COMMENT ON VIEW atproto.proof IS 'what prove() has found, for each target, subscription and set of collections: a statement about the accounts that the target knows, and about no other account. Experimental.';
COMMENT ON COLUMN atproto.proof.target IS 'schema of the tables';
COMMENT ON COLUMN atproto.proof.subscription IS 'subscription whose settings and owner count for the proofs';
COMMENT ON COLUMN atproto.proof.collections IS 'the compared collections; {*}: all';
COMMENT ON COLUMN atproto.proof.share IS 'the largest share of the accounts that prove() was called with';
COMMENT ON COLUMN atproto.proof.accounts IS 'active accounts of the target; NULL: the subscription fills another target now';
COMMENT ON COLUMN atproto.proof.proven IS 'accounts whose rows were exactly the records of the account''s repository, at the present revision of the tables';
COMMENT ON COLUMN atproto.proof.earlier IS 'accounts that were proven at an earlier revision';
COMMENT ON COLUMN atproto.proof.differing IS 'accounts whose rows differ: proof_result has the differences';
COMMENT ON COLUMN atproto.proof.refused IS 'accounts that could not be compared: reasons has the reasons, proof_result and repo_problem the accounts';
COMMENT ON COLUMN atproto.proof.waiting IS 'accounts that are still to be compared, or whose differences the stream may still bring';
COMMENT ON COLUMN atproto.proof.not_asked IS 'accounts that prove() has not asked for';
COMMENT ON COLUMN atproto.proof.records IS 'records in the compared collections of the compared accounts';
COMMENT ON COLUMN atproto.proof.missing IS 'these records that have no row';
COMMENT ON COLUMN atproto.proof.differences IS 'missing, extra and other rows of these';
COMMENT ON COLUMN atproto.proof.letters IS 'records that cannot be stored, with a dead letter: they are no difference';
COMMENT ON COLUMN atproto.proof.differing_at_least IS 'with 95 % confidence, at least this share of the accounts differs, if the compared accounts are a sample drawn at random';
COMMENT ON COLUMN atproto.proof.differing_at_most IS 'with 95 % confidence, at most this share differs, if the compared accounts are a sample drawn at random: 0.1 % if none of 3,000 accounts differs';
COMMENT ON COLUMN atproto.proof.missing_at_least IS 'with 95 % confidence, at least this share of the records has no row, if records are missing independently of each other; if a few accounts lack many records, only the bounds of accounts hold';
COMMENT ON COLUMN atproto.proof.missing_at_most IS 'with 95 % confidence, at most this share of the records has no row; as missing_at_least';
COMMENT ON COLUMN atproto.proof.reasons IS 'why accounts could not be compared, with the numbers of accounts: the 20 most frequent values of proof_result.reason';

CREATE PROCEDURE atproto.await_proof(target name DEFAULT 'atproto', timeout interval DEFAULT NULL)
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_await_proof';
COMMENT ON PROCEDURE atproto.await_proof(name, interval) IS 'wait until each account that prove() has asked for was compared, or could not be compared; prints the progress; an ERROR after this time. Experimental.';

REVOKE ALL ON FUNCTION atproto.prove(name, double precision, text[]) FROM PUBLIC;
REVOKE ALL ON PROCEDURE atproto.await_proof(name, interval) FROM PUBLIC;
