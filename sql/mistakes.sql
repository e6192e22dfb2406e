-- Mistakes that people make with the functions they call first, and what the database says: what is wrong, and what to do.
-- Each argument of subscribe(), backfill_repo(), load_car(), create_view(), backlinks() and partition() is given wrong, missing,
-- exchanged, or with the wrong type.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
\set VERBOSITY default
\set SHOW_CONTEXT never
SET search_path = public;

\pset tuples_only on
CREATE SCHEMA mistakes;
SELECT atproto.create_tables('mistakes');

-- subscribe: the URL
SELECT atproto.subscribe('s', 'bsky.network');
SELECT atproto.subscribe('s', 'bsky.network/xrpc/com.atproto.sync.subscribeRepos');
SELECT atproto.subscribe('s', 'https://bsky.network');
SELECT atproto.subscribe('s', 'wss:/bsky.network');
SELECT atproto.subscribe('s', 'wss://');
SELECT atproto.subscribe('s', 'wss://bsky network');
SELECT atproto.subscribe('s', 'wss://bsky.network/xrpc/subscribe');
SELECT atproto.subscribe('s', 'wss://user:secret@bsky.network');
SELECT atproto.subscribe('s', 'at://did:web:example.com');
SELECT atproto.subscribe('s', 'wss://http://localhost:46561');
SELECT atproto.subscribe('s', 'wss://https://bsky.network');
SELECT atproto.subscribe('s', 'wss://https://user:secret@bsky.network');
SELECT atproto.subscribe('s', 'ws://relay.example.com');
SELECT atproto.subscribe('s', '');
SELECT atproto.subscribe('s', NULL);
-- the name, and what stands in its place
SELECT atproto.subscribe('wss://bsky.network', 's');
SELECT atproto.subscribe('', 'wss://bsky.network');
SELECT atproto.subscribe(NULL, 'wss://bsky.network');
SELECT atproto.subscribe(repeat('s', 100), 'wss://bsky.network');
-- collections
SELECT atproto.subscribe('s', 'wss://bsky.network', collections => '{post}');
SELECT atproto.subscribe('s', 'wss://bsky.network', collections => '{at://did:web:example.com/app.bsky.feed.post}');
SELECT atproto.subscribe('s', 'wss://bsky.network', collections => '{NULL}');
-- other lists
SELECT atproto.subscribe('s', 'wss://bsky.network', dids => '{NULL}');
SELECT atproto.subscribe('s', 'wss://bsky.network', dids => '{bsky.app}');
SELECT atproto.subscribe('s', 'wss://bsky.network', dids => '{@bsky.app}');
SELECT atproto.subscribe('s', 'wss://bsky.network', dids => '{@did:web:example.com}');
SELECT atproto.subscribe('s', 'wss://bsky.network', actions => '{insert}');
-- options with some words
SELECT atproto.subscribe('s', 'wss://bsky.network', backfill => 'yes');
SELECT atproto.subscribe('s', 'wss://bsky.network', backfill => 'true');
SELECT atproto.subscribe('s', 'wss://bsky.network', backfill => 'collections');
SELECT atproto.subscribe('s', 'wss://bsky.network', backfill => 'collections', collections => '{app.bsky.*}');
SELECT atproto.subscribe('s', 'wss://jetstream2.us-east.bsky.network/subscribe', backfill => 'network');
SELECT atproto.subscribe('s', 'wss://bsky.network', links => 'yes');
SELECT atproto.subscribe('s', 'wss://bsky.network', links => 'app.bsky.feed.like');
SELECT atproto.subscribe('s', 'wss://bsky.network', links => 'true');
SELECT atproto.subscribe('s', 'wss://bsky.network', links => '{app.bsky.feed.like/subject}');
SELECT atproto.subscribe('s', 'wss://bsky.network', verify => 'true');
SELECT atproto.subscribe('s', 'wss://jetstream2.us-east.bsky.network/subscribe', verify => 'full');
SELECT atproto.subscribe('s', 'wss://bsky.network', handles => 'verify');
SELECT atproto.subscribe('s', 'wss://bsky.network', handles => 'true');
SELECT atproto.subscribe('s', 'wss://bsky.network', events => 'true');
SELECT atproto.subscribe('s', 'wss://bsky.network', format => 'cbor');
SELECT atproto.subscribe('s', 'wss://bsky.network', validate => 'true');
SELECT atproto.subscribe('s', 'wss://bsky.network', repo_source => 'true');
SELECT atproto.subscribe('s', 'wss://bsky.network', list_source => 'bsky.network');
-- numbers, slices, files, headers, targets
SELECT atproto.subscribe('s', 'wss://bsky.network', -1);
SELECT atproto.subscribe('s', 'wss://bsky.network', workers => 0);
SELECT atproto.subscribe('s', 'wss://bsky.network', workers => 1000);
SELECT atproto.subscribe('s', 'wss://bsky.network', slice => '1');
SELECT atproto.subscribe('s', 'wss://bsky.network', slice => '100/100');
SELECT atproto.subscribe('s', 'wss://bsky.network', proxy => 'ftp://localhost:3128');
SELECT atproto.subscribe('s', 'wss://bsky.network', headers => '"Authorization: Bearer x"');
SELECT atproto.subscribe('s', 'wss://bsky.network', headers => '{"Host": "x"}');
SELECT atproto.subscribe('s', 'wss://bsky.network', headers => '{"a b": "x"}');
SELECT atproto.subscribe('s', 'wss://bsky.network', target => 'nowhere');
SELECT atproto.subscribe('s', 'wss://bsky.network', target => 'mistakes.record');
SELECT atproto.subscribe('s', 'wss://bsky.network', target => NULL);
-- what is no error
BEGIN;
INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('s', 'wss://bsky.network', 'mistakes', false);
UPDATE atproto.subscription SET collections = '{app.bsky.feed.post,App.Bsky.feed.Like,app.bsky.graph.folow}';
UPDATE atproto.subscription SET collections = '{app.bsky.feed}';
UPDATE atproto.subscription SET collections = '{app.bsky.*,app.bsky.feed.like,com.example.record}';
UPDATE atproto.subscription SET ca_file = '/nowhere/ca.pem';
UPDATE atproto.subscription SET ca_file = 'PG_VERSION';
UPDATE atproto.subscription SET ca_file = 'ca.pem';
UPDATE atproto.subscription SET ca_file = '/etc';
ROLLBACK;
-- a subscription that is there, or not
SELECT atproto.unsubscribe('nobody');
SELECT atproto.pause('nobody');
SELECT atproto.resume('nobody');
SELECT atproto.set_cursor('nobody', 0);
SELECT atproto.refill('nobody');
CALL atproto.await_backfill('nobody');

-- backfill_repo
SELECT atproto.backfill_repo('bsky.app');
SELECT atproto.backfill_repo('did:web:example.com', 'mistakes');
SELECT atproto.backfill_repo('did:web:example.com', 'nowhere');
SELECT atproto.backfill_repo('mistakes', 'did:web:example.com');
SELECT atproto.backfill_repo('s');
SELECT atproto.backfill_repo('at://did:web:example.com/app.bsky.feed.post/x');
SELECT atproto.backfill_repo('https://bsky.app/profile/did:web:example.com');
SELECT atproto.backfill_repo('https://bsky.app/profile/bsky.app/post/x');
SELECT atproto.backfill_repo('https://bsky.network');
BEGIN;
INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('s', 'wss://bsky.network', 'mistakes', false);
SELECT atproto.backfill_repo('did:web:example.com', 'mistakes');
ROLLBACK;

-- load_car
SELECT atproto.load_car('did:web:example.com', '\x00', 'mistakes');
INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('s', 'wss://bsky.network', 'mistakes', false);
SELECT atproto.load_car('did:web:example.com', '', 'mistakes');
SELECT atproto.load_car('bsky.app', '\x00', 'mistakes');
SELECT atproto.load_car('did:web:example.com', '/tmp/repo.car', 'mistakes');
SELECT atproto.load_car('did:web:example.com', 'repository.car', 'mistakes');
SELECT atproto.load_car('did:web:example.com', NULL, 'mistakes');
SELECT atproto.load_car('did:web:example.com', '\x00', 'nowhere');
SELECT atproto.load_car('did:web:example.com', '\x3aa265726f6f747381', 'mistakes');
SELECT atproto.load_car('did:web:example.com', '\x3a0065726f6f74738101', 'mistakes');
SELECT atproto.subscribe('s', 'wss://bsky.network');
DELETE FROM atproto.subscription;

-- create_view
SELECT atproto.create_view('app.bsky.feed.posts');
SELECT atproto.create_view('com.example.unknown');
SELECT atproto.create_view('post');
SELECT atproto.create_view('app.bsky');
SELECT atproto.create_view('at://did:web:example.com/app.bsky.feed.post/x');
SELECT atproto.create_view(NULL);
SELECT atproto.create_view('app.bsky.feed.defs');
SELECT atproto.create_view('app.bsky.feed.post', '{}');
SELECT atproto.create_view('app.bsky.feed.post', '{"lexicon": 1, "id": "app.bsky.feed.like", "defs": {"main": {"type": "record", "record": {"type": "object", "properties": {}}}}}');
SELECT atproto.create_view('app.bsky.feed.post', target => 'nowhere');
SELECT atproto.create_view('app.bsky.feed.post', target => 'public');
SELECT atproto.create_view('app.bsky.feed.post', target => 'mistakes', schema => 'nowhere');
SELECT atproto.create_view('app.bsky.feed.post', target => 'mistakes', view => 'record');

-- backlinks
SELECT atproto.backlinks('at://did:web:example.com/app.bsky.feed.post/x', 'app.bsky.feed.like');
SELECT atproto.backlinks('at://did:web:example.com/app.bsky.feed.post/x', 'subject.uri');
SELECT atproto.backlinks('app.bsky.feed.like:subject.uri', 'at://did:web:example.com/app.bsky.feed.post/x');
SELECT atproto.backlinks('https://bsky.app/profile/bsky.app/post/x', 'app.bsky.feed.like:subject.uri');
SELECT atproto.backlinks('https://bsky.app/profile/did:web:example.com/post/x', 'app.bsky.feed.like:subject.uri');
SELECT atproto.backlinks('https://bsky.app/profile/bsky.app', 'app.bsky.graph.follow:subject');
SELECT atproto.backlinks(NULL, 'app.bsky.feed.like:subject.uri');
SELECT atproto.backlinks('did:web:example.com', 'app.bsky.graph.follow:subject');
SELECT atproto.backlinks('at://did:web:example.com/app.bsky.feed.post/x', NULL);
SELECT atproto.backlinks('at://did:web:example.com/app.bsky.feed.post/x', 'app.bsky.feed.like:subject.uri', -1, tables => 'mistakes');
SELECT atproto.backlinks('at://did:web:example.com/app.bsky.feed.post/x', 'app.bsky.feed.like:subject.uri', 50, 'at://did:web:example.com', 'mistakes');
SELECT atproto.backlinks('at://did:web:example.com/app.bsky.feed.post/x', 'app.bsky.feed.like:subject.uri', tables => 'nowhere');

-- partition
SELECT atproto.partition('mistakes');
SELECT atproto.partition('mistakes', 'months');
SELECT atproto.partition('month');
SELECT atproto.partition('collection', 'mistakes');
SELECT atproto.partition('mistakes', 'month', '{app.bsky.feed.post}');
SELECT atproto.partition('mistakes', 'collection', '{app.bsky}');
SELECT atproto.partition('mistakes', 'collection', '{NULL}');
SELECT atproto.partition('mistakes', 'collection', ahead => 1000);
SELECT atproto.partition('mistakes', 'collection', keep => '1 year');
SELECT atproto.partition('mistakes', 'month', keep => '-1 year');
SELECT atproto.partition(NULL);

-- numbers, names and roles of other functions
SELECT atproto.retry(0);
SELECT atproto.close_gap(0);
SELECT atproto.unload_lexicon('app.bsky.feed.like');
SELECT atproto.create_view('app.bsky.richtext.facet', (SELECT doc FROM atproto.lexicon WHERE id = 'app.bsky.richtext.facet'), target => 'mistakes');
SELECT atproto.create_view('app.bsky.feed.post');
SELECT * FROM atproto.check(share => 2);
SELECT did_slice('did:web:example.com', 0);
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT atproto.partition('mistakes', 'month');
ROLLBACK;
SELECT atproto.audit('bsky.app');
CALL atproto.await('bsky.app');
SELECT * FROM atproto.resolve('at://bsky.app');
SELECT atproto.resync('mistakes', 'did:web:example.com');
CALL atproto.revalidate('nowhere');
SELECT atproto.rebuild_links('nowhere');
SELECT atproto.distribute('nowhere');
SELECT atproto.distribute('public');
SELECT atproto.distribute('mistakes');
SELECT atproto.create_tables('Nowhere');

-- identifiers in queries
SELECT '@bsky.app'::handle;
SELECT '2026-01-01'::atproto.tid;
SELECT 'https://bsky.app/profile/bsky.app/lists/x'::aturi;
SELECT 'https://example.com/'::aturi;

-- what PostgreSQL itself says: its hints differ between versions
\set VERBOSITY terse
SELECT atproto.create_view('app.bsky.feed.post', 'public');
SELECT atproto.subscribe('wss://bsky.network');
SELECT atproto.subscribe('s', 'wss://bsky.network', 'app.bsky.feed.post');
SELECT atproto.subscribe('s', 'wss://bsky.network', '{app.bsky.feed.post}');
SELECT atproto.subscribe('s', 'wss://bsky.network', collections => 'app.bsky.feed.post');
SELECT atproto.subscribe('s', 'wss://bsky.network', collection => '{app.bsky.feed.post}');
SELECT atproto.subscribe('s', 'wss://bsky.network', workers => 'two');
SELECT atproto.subscribe('s', 'wss://bsky.network', headers => 'Authorization: Bearer x');
SELECT atproto.subscribe('s', 'wss://bsky.network', backfill => true);
SELECT atproto.subscribe('s', 'wss://bsky.network', links => true);
SELECT atproto.subscribe('s', 'wss://bsky.network', verify => true);
SELECT atproto.subscribe('s', 'wss://bsky.network', keep_raw => 'raw');
SELECT atproto.backfill_repo();
SELECT atproto.load_car('did:web:example.com');
SELECT atproto.load_car('did:web:example.com', 1);
SELECT atproto.load_car('did:web:example.com', '/tmp/repo.car'::text);
SELECT atproto.backlinks('at://did:web:example.com/app.bsky.feed.post/x');
SELECT atproto.backlinks('at://did:web:example.com/app.bsky.feed.post/x', 'app.bsky.feed.like:subject.uri', 'mistakes');
SELECT atproto.partition('atproto', 'month', ahead => 'all');
SELECT atproto.partition('atproto', 'month', keep => 12);
SELECT atproto.partition('atproto', 'collection', 'app.bsky.feed.post');
SELECT subscribe('s', 'wss://bsky.network');

SET client_min_messages = warning;
DROP SCHEMA mistakes CASCADE;
