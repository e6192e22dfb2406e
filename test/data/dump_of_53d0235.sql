
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE EXTENSION IF NOT EXISTS atproto WITH SCHEMA public;
CREATE FUNCTION public.refuse() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
	IF NEW.rkey::text = '10' AND NOT EXISTS (SELECT FROM public.allowed) THEN
		RAISE EXCEPTION 'not this one' USING ERRCODE = '22000';
	END IF;
	RETURN NEW;
END $$;
ALTER FUNCTION public.refuse() OWNER TO @OWNER@;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE atproto.collection_count (
    hour timestamp with time zone NOT NULL,
    subscription text NOT NULL,
    worker integer NOT NULL,
    collection public.nsid NOT NULL,
    creates bigint NOT NULL,
    updates bigint NOT NULL,
    deletes bigint NOT NULL
)
WITH (fillfactor='50');
ALTER TABLE atproto.collection_count OWNER TO @OWNER@;
CREATE VIEW atproto.collection_stat AS
 SELECT collection_count.hour,
    collection_count.collection,
    (sum(collection_count.creates))::bigint AS creates,
    (sum(collection_count.updates))::bigint AS updates,
    (sum(collection_count.deletes))::bigint AS deletes
   FROM atproto.collection_count
  GROUP BY collection_count.hour, collection_count.collection;
ALTER TABLE atproto.collection_stat OWNER TO @OWNER@;
CREATE TABLE atproto.label (
    src public.did NOT NULL,
    uri text NOT NULL,
    val text NOT NULL,
    cid public.cidlink,
    neg boolean NOT NULL,
    cts timestamp with time zone NOT NULL,
    exp timestamp with time zone,
    ver integer,
    sig bytea,
    seq bigint,
    verified boolean,
    indexed_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE atproto.label OWNER TO @OWNER@;
CREATE VIEW atproto.current_label AS
 SELECT label.src,
    label.uri,
    label.val,
    label.cid,
    label.neg,
    label.cts,
    label.exp,
    label.ver,
    label.sig,
    label.seq,
    label.verified,
    label.indexed_at
   FROM atproto.label
  WHERE ((NOT label.neg) AND ((label.exp IS NULL) OR (label.exp > now())));
ALTER TABLE atproto.current_label OWNER TO @OWNER@;
CREATE TABLE atproto.link (
    target public.aturi NOT NULL,
    source integer NOT NULL,
    rkey public.recordkey NOT NULL,
    did public.did NOT NULL
);
ALTER TABLE atproto.link OWNER TO @OWNER@;
CREATE TABLE atproto.link_source (
    id integer NOT NULL,
    collection public.nsid NOT NULL,
    path text NOT NULL,
    CONSTRAINT link_source_path_check CHECK ((octet_length(path) <= 256))
);
ALTER TABLE atproto.link_source OWNER TO @OWNER@;
CREATE TABLE atproto.message (
    id bigint NOT NULL,
    subscription text NOT NULL,
    endpoint text NOT NULL,
    seq bigint,
    type text NOT NULL,
    payload jsonb,
    raw bytea,
    received_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE atproto.message OWNER TO @OWNER@;
ALTER TABLE atproto.message ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME atproto.message_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE atproto.record (
    did public.did NOT NULL,
    collection public.nsid NOT NULL,
    rkey public.recordkey NOT NULL,
    cid public.cidlink NOT NULL,
    rev atproto.tid NOT NULL,
    indexed_at timestamp with time zone DEFAULT now() NOT NULL,
    value jsonb,
    raw bytea,
    fault text
);
ALTER TABLE atproto.record OWNER TO @OWNER@;
CREATE TABLE atproto.record_event (
    subscription text NOT NULL,
    seq bigint,
    action text NOT NULL,
    did public.did NOT NULL,
    collection public.nsid NOT NULL,
    rkey public.recordkey NOT NULL,
    rev atproto.tid NOT NULL,
    cid public.cidlink,
    value jsonb,
    raw bytea,
    old_cid public.cidlink,
    old_value jsonb,
    received_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE ONLY atproto.record_event REPLICA IDENTITY FULL;
ALTER TABLE atproto.record_event OWNER TO @OWNER@;
CREATE TABLE atproto.repo (
    did public.did NOT NULL,
    rev atproto.tid,
    first_rev atproto.tid,
    commit public.cidlink,
    data public.cidlink,
    rev_paths bytea,
    active boolean DEFAULT true NOT NULL,
    status text,
    status_at timestamp with time zone,
    status_endpoint text,
    status_seq bigint,
    host text,
    handle public.handle,
    sync text DEFAULT 'partial'::text NOT NULL,
    hold text,
    verified boolean DEFAULT false NOT NULL,
    synced_at timestamp with time zone,
    purge_rev atproto.tid,
    purge_seq bigint,
    deleted_rev atproto.tid,
    refill_by text,
    refill_rev atproto.tid,
    audited_at timestamp with time zone,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02');
ALTER TABLE atproto.repo OWNER TO @OWNER@;
CREATE VIEW atproto.visible_link AS
 SELECT l.target,
    l.source,
    l.rkey,
    l.did,
    s.collection,
    s.path
   FROM ((atproto.link l
     JOIN atproto.link_source s ON ((s.id = l.source)))
     JOIN atproto.repo p ON ((p.did OPERATOR(public.=) l.did)))
  WHERE (p.active AND (p.purge_rev IS NULL));
ALTER TABLE atproto.visible_link OWNER TO @OWNER@;
CREATE VIEW atproto.visible_record AS
 SELECT r.did,
    r.collection,
    r.rkey,
    r.cid,
    r.rev,
    r.indexed_at,
    r.value,
    r.raw,
    r.fault
   FROM (atproto.record r
     JOIN atproto.repo p ON ((p.did OPERATOR(public.=) r.did)))
  WHERE (p.active AND ((p.purge_rev IS NULL) OR (r.rev OPERATOR(public.>) p.purge_rev)));
ALTER TABLE atproto.visible_record OWNER TO @OWNER@;
CREATE TABLE public.allowed (
);
ALTER TABLE public.allowed OWNER TO @OWNER@;
COPY atproto.audit_state (target, next_at, tries, audited, different, different_at, rate, audited_at, error) FROM stdin;
atproto	2026-11-23 22:56:20.743011+00	0	0	0	\N	0	2026-11-23 22:56:20.743011+00	\N
\.
COPY atproto.collection_count (hour, subscription, worker, collection, creates, updates, deletes) FROM stdin;
2026-11-23 22:00:00+00	s	0	app.bsky.feed.post	1	0	0
\.
COPY atproto.subscription (name, url, format, endpoint, by_repo, serves_repos, owner, enabled, target, collections, dids, slice, actions, keep_records, events, keep_raw, count_collections, links, validate, verify, host_is_pds, handles, max_dead_letters, max_dead_letter_bytes, backfill, list_source, list_hosts, repo_source, max_held_events, max_held_bytes, allow_insecure, ca_file, proxy, workers, stopped, stopped_at, created_at) FROM stdin;
s	ws://127.0.0.1:@PORT@/xrpc/com.atproto.sync.subscribeRepos	\N	ws://127.0.0.1:@PORT@/xrpc/com.atproto.sync.subscribeRepos	t	t	@OWNER@	f	atproto	\N	\N	\N	\N	t	keep	f	t	all	none	full	f	none	10000	268435456	repair	\N	f	\N	2000	1073741824	f	\N	\N	1	\N	\N	2026-11-23 22:56:19.720131+00
\.
COPY atproto.cursor (subscription, endpoint, shard, layout, seq, event_time, events, record_ops, settings_after, settings, read_from, updated_at) FROM stdin;
s	ws://127.0.0.1:@PORT@/xrpc/com.atproto.sync.subscribeRepos	0	0	7	2026-01-01 00:00:00+00	7	1	0	\\xb1e498433273ed0e67ec8de00e1e4f99ee5ee057fa2da7ce093881f97ee8015f	0	2026-11-23 22:56:20.853621+00
\.
COPY atproto.dead_frame (subscription, digest, bytes) FROM stdin;
s	\\x4cfc7402dab8e1d43435e0c3b6a0ab504d17169f11efc8f9694cf50ea1219d83	\\xa261746723636f6d6d6974626f7001ab636f707381a363636964d82a582500017112203549c1ac8c622cd3cc0ee051938a351f809e7b63f58daa4ce35f766876be3b946470617468756170702e62736b792e666565642e706f73742f313066616374696f6e66637265617465637265766d336d6264333534326b326532326373657101647265706f78206469643a706c633a7136323232323232323232323232323232323232323232326474696d657818323032362d30312d30315430303a30303a30302e3030305a65626c6f6273806573696e6365f666626c6f636b735902083aa265726f6f747381d82a58250001711220583eefb8892db07b02e9cc7c544acce0df8dce1a2ba56290666f6f6a8b5a9e4b6776657273696f6e0174017112203549c1ac8c622cd3cc0ee051938a351f809e7b63f58daa4ce35f766876be3b94a46474657874623130652474797065726170702e62736b792e666565642e706f7374656c616e67738162656e696372656174656441747818323032362d30312d30315430303a30303a30302e3030305a75017112201125c1f88aab8ff3d538df01e58ee6e90e29e765172d0c2676477d6c7f14410ea2616581a4616b556170702e62736b792e666565642e706f73742f31306170006174f66176d82a582500017112203549c1ac8c622cd3cc0ee051938a351f809e7b63f58daa4ce35f766876be3b94616cf6e00101711220583eefb8892db07b02e9cc7c544acce0df8dce1a2ba56290666f6f6a8b5a9e4ba66364696478206469643a706c633a713632323232323232323232323232323232323232323232637265766d336d6264333534326b3265323263736967584037d07497a233f76a6964255387d3568d171260c73f0bb1dc737ee86705137f004dd48eed92ec18f4df7796636629f960b71fcf2fef409bed4d3dec8a429577d96464617461d82a582500017112201125c1f88aab8ff3d538df01e58ee6e90e29e765172d0c2676477d6c7f14410e6470726576f66776657273696f6e0366636f6d6d6974d82a58250001711220583eefb8892db07b02e9cc7c544acce0df8dce1a2ba56290666f6f6a8b5a9e4b66726562617365f466746f6f426967f4
s	\\x86b28388f737e63ff8be72337731d9eab794d5f25ab76f73eebc7f9084dde5b5	\\xa261746723636f6d6d6974626f7001ab636f707381a363636964d82a582500017112203549c1ac8c622cd3cc0ee051938a351f809e7b63f58daa4ce35f766876be3b946470617468756170702e62736b792e666565642e706f73742f313066616374696f6e66637265617465637265766d336d6264333534326b326532326373657102647265706f78206469643a706c633a7236323232323232323232323232323232323232323232326474696d657818323032362d30312d30315430303a30303a30302e3030305a65626c6f6273806573696e6365f666626c6f636b735902083aa265726f6f747381d82a582500017112207a2defdc80fb6916ced5e3c7570e6cb8daa54cf4c58e93d79f08eb075ba7479d6776657273696f6e0174017112203549c1ac8c622cd3cc0ee051938a351f809e7b63f58daa4ce35f766876be3b94a46474657874623130652474797065726170702e62736b792e666565642e706f7374656c616e67738162656e696372656174656441747818323032362d30312d30315430303a30303a30302e3030305a75017112201125c1f88aab8ff3d538df01e58ee6e90e29e765172d0c2676477d6c7f14410ea2616581a4616b556170702e62736b792e666565642e706f73742f31306170006174f66176d82a582500017112203549c1ac8c622cd3cc0ee051938a351f809e7b63f58daa4ce35f766876be3b94616cf6e001017112207a2defdc80fb6916ced5e3c7570e6cb8daa54cf4c58e93d79f08eb075ba7479da66364696478206469643a706c633a723632323232323232323232323232323232323232323232637265766d336d6264333534326b32653232637369675840e8aeae86a732d5848b780750ad7932593d4a208339c4fff5114010de6c3d92822b31746a178d8a469c652cd5381aebb5d92901dc669bbf5e0a2e0bafd7ea1e436464617461d82a582500017112201125c1f88aab8ff3d538df01e58ee6e90e29e765172d0c2676477d6c7f14410e6470726576f66776657273696f6e0366636f6d6d6974d82a582500017112207a2defdc80fb6916ced5e3c7570e6cb8daa54cf4c58e93d79f08eb075ba7479d66726562617365f466746f6f426967f4
\.
COPY atproto.dead_letter (id, subscription, seq, stage, sqlstate, message, did, path, digest, attempts, first_at, last_at) FROM stdin;
1	s	1	apply	22000	not this one	did:plc:q62222222222222222222222	app.bsky.feed.post/10	\\x4cfc7402dab8e1d43435e0c3b6a0ab504d17169f11efc8f9694cf50ea1219d83	1	2026-11-23 22:56:20.743011+00	2026-11-23 22:56:20.743011+00
2	s	2	apply	22000	not this one	did:plc:r62222222222222222222222	app.bsky.feed.post/10	\\x86b28388f737e63ff8be72337731d9eab794d5f25ab76f73eebc7f9084dde5b5	1	2026-11-23 22:56:20.743011+00	2026-11-23 22:56:20.743011+00
\.
COPY atproto.enumeration (subscription, source, cursor, started_at, finished_at, pages, seen, queued, skipped, empty, tries, next_try, error, named_at) FROM stdin;
\.
COPY atproto.gap (id, subscription, endpoint, after_seq, before_seq, reason, detected_at, again_since, closed_at, closed_how) FROM stdin;
\.
COPY atproto.held_event (target, did, rev, subscription, seq, why, asked_at, held_at, shard_key, bytes, kind) FROM stdin;
atproto	did:plc:r62222222222222222222222	3mbd3542k2o22	s	4	signature	2026-11-23 22:56:19.815864+00	2026-11-23 22:56:20.853621+00	4238230883	\\xa261746723636f6d6d6974626f7001ac636f707381a363636964d82a582500017112209d6f969bfa2241eb6f01704d87206632dfab53877cb926ebf3400bdebaedc3596470617468756170702e62736b792e666565642e706f73742f323066616374696f6e66637265617465637265766d336d6264333534326b326f32326373657104647265706f78206469643a706c633a7236323232323232323232323232323232323232323232326474696d657818323032362d30312d30315430303a30303a30302e3030305a65626c6f6273806573696e63656d336d6264333534326b3265323266626c6f636b735902403aa265726f6f747381d82a582500017112207ecc6b273df9ac2ac00deffdc4b9fe7e6e028a5d60846bd64a6d2b0b90146ec66776657273696f6e0174017112209d6f969bfa2241eb6f01704d87206632dfab53877cb926ebf3400bdebaedc359a46474657874623230652474797065726170702e62736b792e666565642e706f7374656c616e67738162656e696372656174656441747818323032362d30312d30315430303a30303a30302e3030305aac0101711220be1c5f2d9ec0c0a8bec8f2efb00d22dfc3394ec57ca92295e477d8f1ce4662a1a2616582a4616b556170702e62736b792e666565642e706f73742f31306170006174f66176d82a582500017112203549c1ac8c622cd3cc0ee051938a351f809e7b63f58daa4ce35f766876be3b94a4616b4232306170136174f66176d82a582500017112209d6f969bfa2241eb6f01704d87206632dfab53877cb926ebf3400bdebaedc359616cf6e001017112207ecc6b273df9ac2ac00deffdc4b9fe7e6e028a5d60846bd64a6d2b0b90146ec6a66364696478206469643a706c633a723632323232323232323232323232323232323232323232637265766d336d6264333534326b326f3232637369675840da96b36583a4e1fe77adfe232c18d0cb9e94a2eea27d45fdadf727113ebe4bdf5d10d4b66b31f9ddefbc1bad2ada7c76bfe8e8045e1c0a4a24e2e9a5c24eaef96464617461d82a58250001711220be1c5f2d9ec0c0a8bec8f2efb00d22dfc3394ec57ca92295e477d8f1ce4662a16470726576f66776657273696f6e0366636f6d6d6974d82a582500017112207ecc6b273df9ac2ac00deffdc4b9fe7e6e028a5d60846bd64a6d2b0b90146ec666726562617365f466746f6f426967f4687072657644617461d82a582500017112201125c1f88aab8ff3d538df01e58ee6e90e29e765172d0c2676477d6c7f14410e	repo
atproto	did:plc:s62222222222222222222222	3mbd3542k2e22	s	5	identity	\N	2026-11-23 22:56:20.853621+00	2858731552	\\xa261746723636f6d6d6974626f7001ab636f707381a363636964d82a582500017112203549c1ac8c622cd3cc0ee051938a351f809e7b63f58daa4ce35f766876be3b946470617468756170702e62736b792e666565642e706f73742f313066616374696f6e66637265617465637265766d336d6264333534326b326532326373657105647265706f78206469643a706c633a7336323232323232323232323232323232323232323232326474696d657818323032362d30312d30315430303a30303a30302e3030305a65626c6f6273806573696e6365f666626c6f636b735902083aa265726f6f747381d82a58250001711220ee0c054b8b3c80b22fd6562c2010edc28c3557e4247a28b7766cfbf2fdba51e46776657273696f6e0174017112203549c1ac8c622cd3cc0ee051938a351f809e7b63f58daa4ce35f766876be3b94a46474657874623130652474797065726170702e62736b792e666565642e706f7374656c616e67738162656e696372656174656441747818323032362d30312d30315430303a30303a30302e3030305a75017112201125c1f88aab8ff3d538df01e58ee6e90e29e765172d0c2676477d6c7f14410ea2616581a4616b556170702e62736b792e666565642e706f73742f31306170006174f66176d82a582500017112203549c1ac8c622cd3cc0ee051938a351f809e7b63f58daa4ce35f766876be3b94616cf6e00101711220ee0c054b8b3c80b22fd6562c2010edc28c3557e4247a28b7766cfbf2fdba51e4a66364696478206469643a706c633a733632323232323232323232323232323232323232323232637265766d336d6264333534326b3265323263736967584079f5d70775d76efae1098d9627e75e71c60300d3290e96e4fe5a3d7093ef61d15920dc257319070bc5ebe9d0cd574941229c3591c7bf3ce20a1e39f5395f0f046464617461d82a582500017112201125c1f88aab8ff3d538df01e58ee6e90e29e765172d0c2676477d6c7f14410e6470726576f66776657273696f6e0366636f6d6d6974d82a58250001711220ee0c054b8b3c80b22fd6562c2010edc28c3557e4247a28b7766cfbf2fdba51e466726562617365f466746f6f426967f4	repo
atproto	did:plc:s62222222222222222222222	3mbd3542k2y22	s	6	order	\N	2026-11-23 22:56:20.853621+00	2858731552	\\xa261746723636f6d6d6974626f7001ac636f707381a363636964d82a58250001711220b46ba39f3ccbbf30694e8cb75339343db325b8757e427789e4f0fb42ae9af5c46470617468756170702e62736b792e666565642e706f73742f333066616374696f6e66637265617465637265766d336d6264333534326b327932326373657106647265706f78206469643a706c633a7336323232323232323232323232323232323232323232326474696d657818323032362d30312d30315430303a30303a30302e3030305a65626c6f6273806573696e63656d336d6264333534326b326f323266626c6f636b735902773aa265726f6f747381d82a58250001711220b83afd776c004c920a5c24ded8812a38c945546d48f799079894eaab60e12ea16776657273696f6e017401711220b46ba39f3ccbbf30694e8cb75339343db325b8757e427789e4f0fb42ae9af5c4a46474657874623330652474797065726170702e62736b792e666565642e706f7374656c616e67738162656e696372656174656441747818323032362d30312d30315430303a30303a30302e3030305ae301017112209b4f62c6f1931553f45a34a74ac71c3f1452acb2b3a00c8b35b08cc1dea0e1e4a2616583a4616b556170702e62736b792e666565642e706f73742f31306170006174f66176d82a582500017112203549c1ac8c622cd3cc0ee051938a351f809e7b63f58daa4ce35f766876be3b94a4616b4232306170136174f66176d82a582500017112209d6f969bfa2241eb6f01704d87206632dfab53877cb926ebf3400bdebaedc359a4616b4233306170136174f66176d82a58250001711220b46ba39f3ccbbf30694e8cb75339343db325b8757e427789e4f0fb42ae9af5c4616cf6e00101711220b83afd776c004c920a5c24ded8812a38c945546d48f799079894eaab60e12ea1a66364696478206469643a706c633a733632323232323232323232323232323232323232323232637265766d336d6264333534326b327932326373696758402e49df2e60bf822a6eadcd0340f334a9b7e2d7ab6929102570c09c629a501293322647b1a5394342ff57524dc48d4f36dce9f6628b13cdea19fe1526193df7ff6464617461d82a582500017112209b4f62c6f1931553f45a34a74ac71c3f1452acb2b3a00c8b35b08cc1dea0e1e46470726576f66776657273696f6e0366636f6d6d6974d82a58250001711220b83afd776c004c920a5c24ded8812a38c945546d48f799079894eaab60e12ea166726562617365f466746f6f426967f4687072657644617461d82a58250001711220be1c5f2d9ec0c0a8bec8f2efb00d22dfc3394ec57ca92295e477d8f1ce4662a1	repo
atproto	did:plc:s62222222222222222222222	3mbd3542k2o22	s	7	order	\N	2026-11-23 22:56:20.853621+00	2858731552	\\xa261746723636f6d6d6974626f7001ac636f707381a363636964d82a582500017112209d6f969bfa2241eb6f01704d87206632dfab53877cb926ebf3400bdebaedc3596470617468756170702e62736b792e666565642e706f73742f323066616374696f6e66637265617465637265766d336d6264333534326b326f32326373657107647265706f78206469643a706c633a7336323232323232323232323232323232323232323232326474696d657818323032362d30312d30315430303a30303a30302e3030305a65626c6f6273806573696e63656d336d6264333534326b3265323266626c6f636b735902403aa265726f6f747381d82a582500017112201016a327d1fa8d2722b98eb6ecb0ea85cb5fe1de3ef4b6aee74e7ab19409e10d6776657273696f6e0174017112209d6f969bfa2241eb6f01704d87206632dfab53877cb926ebf3400bdebaedc359a46474657874623230652474797065726170702e62736b792e666565642e706f7374656c616e67738162656e696372656174656441747818323032362d30312d30315430303a30303a30302e3030305aac0101711220be1c5f2d9ec0c0a8bec8f2efb00d22dfc3394ec57ca92295e477d8f1ce4662a1a2616582a4616b556170702e62736b792e666565642e706f73742f31306170006174f66176d82a582500017112203549c1ac8c622cd3cc0ee051938a351f809e7b63f58daa4ce35f766876be3b94a4616b4232306170136174f66176d82a582500017112209d6f969bfa2241eb6f01704d87206632dfab53877cb926ebf3400bdebaedc359616cf6e001017112201016a327d1fa8d2722b98eb6ecb0ea85cb5fe1de3ef4b6aee74e7ab19409e10da66364696478206469643a706c633a733632323232323232323232323232323232323232323232637265766d336d6264333534326b326f3232637369675840906a45b4bd7196a9b46ca55c79d783f2a7c658fa243b4dbcb91ff64e958e4b7d14a0af0ee426fdc8688393fdda41cd088edefcceae7e67eaa4db413441cb0c4a6464617461d82a58250001711220be1c5f2d9ec0c0a8bec8f2efb00d22dfc3394ec57ca92295e477d8f1ce4662a16470726576f66776657273696f6e0366636f6d6d6974d82a582500017112201016a327d1fa8d2722b98eb6ecb0ea85cb5fe1de3ef4b6aee74e7ab19409e10d66726562617365f466746f6f426967f4687072657644617461d82a582500017112201125c1f88aab8ff3d538df01e58ee6e90e29e765172d0c2676477d6c7f14410e	repo
\.
COPY atproto.label (src, uri, val, cid, neg, cts, exp, ver, sig, seq, verified, indexed_at) FROM stdin;
\.
COPY atproto.lexicon_loaded (id, doc, did, cid, indexed_at, loaded_at) FROM stdin;
\.
COPY atproto.link (target, source, rkey, did) FROM stdin;
\.
COPY atproto.link_source (id, collection, path) FROM stdin;
\.
COPY atproto.message (id, subscription, endpoint, seq, type, payload, raw, received_at) FROM stdin;
\.
COPY atproto.record (did, collection, rkey, cid, rev, indexed_at, value, raw, fault) FROM stdin;
did:plc:q62222222222222222222222	app.bsky.feed.post	20	bafyreie5n6ljx6rcihvw6alqjwdsazrs36vvhb34xetox42abpplv3odle	3mbd3542k2o22	2026-11-23 22:56:20.853621+00	{"text": "20", "$type": "app.bsky.feed.post", "langs": ["en"], "createdAt": "2026-01-01T00:00:00.000Z"}	\N	\N
\.
COPY atproto.record_event (subscription, seq, action, did, collection, rkey, rev, cid, value, raw, old_cid, old_value, received_at) FROM stdin;
s	3	create	did:plc:q62222222222222222222222	app.bsky.feed.post	20	3mbd3542k2o22	bafyreie5n6ljx6rcihvw6alqjwdsazrs36vvhb34xetox42abpplv3odle	{"text": "20", "$type": "app.bsky.feed.post", "langs": ["en"], "createdAt": "2026-01-01T00:00:00.000Z"}	\N	\N	\N	2026-11-23 22:56:20.853621+00
\.
COPY atproto.repo (did, rev, first_rev, commit, data, rev_paths, active, status, status_at, status_endpoint, status_seq, host, handle, sync, hold, verified, synced_at, purge_rev, purge_seq, deleted_rev, refill_by, refill_rev, audited_at, updated_at) FROM stdin;
did:plc:q62222222222222222222222	3mbd3542k2o22	3mbd3542k2e22	bafyreifsfqdfqqv5sadvgcstj6cj34mmo4n2kth763qj2r7ql3fyta3upi	bafyreif6drps3hwaycul5shs56ya2iw7ym4u5rl4verjlzdx3dy44rtcue	\N	t	\N	\N	\N	\N	\N	\N	unproven	\N	t	\N	\N	\N	\N	\N	\N	\N	2026-11-23 22:56:20.853621+00
did:plc:r62222222222222222222222	3mbd3542k2e22	3mbd3542k2e22	bafyreid2fxx5zah3nelm5vpdy5lq43fy3ksuz5gfr2j5phyi5mdvxj2htu	bafyreiarexa7rcvlr7z5kog7ahsy5zxjbyu6ozixfugcm5shpvwh6fcbby	\N	t	\N	\N	\N	\N	\N	\N	unproven	identity	t	\N	\N	\N	\N	\N	\N	\N	2026-11-23 22:56:20.853621+00
did:plc:s62222222222222222222222	\N	\N	\N	\N	\N	t	\N	\N	\N	\N	\N	\N	partial	identity	f	\N	\N	\N	\N	\N	\N	\N	2026-11-23 22:56:20.853621+00
\.
COPY atproto.repo_job (target, did, subscription, kind, priority, reason, state, host, tries, next_try, error, doubted, doubted_at, force, queued_at, listed_by) FROM stdin;
atproto	did:plc:s62222222222222222222222	s	repo	0	asked for	queued	\N	0	-infinity	\N	\N	\N	f	2026-11-23 22:56:20.954079+00	\N
\.
COPY atproto.request_header (subscription, name, value) FROM stdin;
\.
COPY atproto.status_wish (target, did, subscription, why, status_at, status_seq, wished_at, answered_at, next_try, tries, error) FROM stdin;
\.
COPY atproto.zstd_dictionary (subscription, endpoint, url, dictionary, changed_at, due_at, failures, error) FROM stdin;
\.
COPY public.allowed  FROM stdin;
\.
SELECT pg_catalog.setval('atproto.dead_letter_id_seq', 2, true);
SELECT pg_catalog.setval('atproto.gap_id_seq', 1, false);
SELECT pg_catalog.setval('atproto.message_id_seq', 1, false);
ALTER TABLE ONLY atproto.collection_count
    ADD CONSTRAINT collection_count_pkey PRIMARY KEY (hour, subscription, worker, collection);
ALTER TABLE ONLY atproto.label
    ADD CONSTRAINT label_pkey PRIMARY KEY (uri, src, val);
ALTER TABLE ONLY atproto.link
    ADD CONSTRAINT link_pkey PRIMARY KEY (target, source, rkey, did);
ALTER TABLE ONLY atproto.link_source
    ADD CONSTRAINT link_source_collection_path_key UNIQUE (collection, path);
ALTER TABLE ONLY atproto.link_source
    ADD CONSTRAINT link_source_pkey PRIMARY KEY (id);
ALTER TABLE ONLY atproto.message
    ADD CONSTRAINT message_pkey PRIMARY KEY (id);
ALTER TABLE ONLY atproto.message
    ADD CONSTRAINT message_subscription_endpoint_seq_key UNIQUE (subscription, endpoint, seq);
ALTER TABLE ONLY atproto.record
    ADD CONSTRAINT record_pkey PRIMARY KEY (did, collection, rkey);
ALTER TABLE ONLY atproto.repo
    ADD CONSTRAINT repo_pkey PRIMARY KEY (did);
CREATE INDEX repo_handle ON atproto.repo USING btree (handle) WHERE (handle IS NOT NULL);
CREATE INDEX repo_hold ON atproto.repo USING btree (hold, did) WHERE (hold IS NOT NULL);
CREATE INDEX repo_purge ON atproto.repo USING btree (did) WHERE (purge_rev IS NOT NULL);
CREATE INDEX repo_unproven ON atproto.repo USING btree (audited_at NULLS FIRST) WHERE (sync = 'unproven'::text);
CREATE TRIGGER refuse BEFORE INSERT ON atproto.record FOR EACH ROW EXECUTE FUNCTION public.refuse();
