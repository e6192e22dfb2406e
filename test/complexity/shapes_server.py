"""Shapes that need a server: what SQL functions, Lexicons, links, dead letters and exports cost.

Statements run in a backend of its own, postgres --single: once under callgrind, once with memory.c loaded before the
C library.  Each measurement is a transaction that is rolled back.
"""
import collections
import os
import subprocess

from counts import TUNABLES, collect, read_numbers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DID = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"

# name, the limit of n, the largest n of the short form (0: not in the short form; a pair: also that for memory), the argument (SQL, with {n}; a name with a slash: that shape's
# input), the statement, statements before, and a condition that must be true afterwards: input that is refused costs little
Shape = collections.namedtuple("Shape", "name limit quick arg sql before after")
SHAPES = []


def shape(name, limit, quick, arg, sql, before=(), after="true"):
    SHAPES.append(Shape(name, limit, quick, arg, sql, before, after))


def series(element, end=""):
    """A jsonb array of {n} elements; i counts them."""
    return "coalesce((SELECT jsonb_agg(%s%s) FROM generate_series(1, {n}) i), '[]'::jsonb)" % (element, end)


def members(key, value):
    return "coalesce((SELECT jsonb_object_agg(%s, %s) FROM generate_series(1, {n}) i), '{{}}'::jsonb)" % (key, value)


def lexicon(properties, more="'{{}}'::jsonb", record=""):
    """A Lexicon of the collection a.b.c."""
    return ("jsonb_build_object('lexicon', 1, 'id', 'a.b.c', 'defs', %s || jsonb_build_object('main', jsonb_build_object('type', 'record', 'key', 'any',"
            " 'record', jsonb_build_object('type', 'object', 'properties', %s%s))))" % (more, properties, record))


RECORD_MAX = 2000000
DOC_MAX = 2 * 1024 * 1024

# --- jsonb and DAG-CBOR ---

shape("jsonb-array", RECORD_MAX // 16, (16384, 120000), series("i"), "SELECT jsonb_to_dagcbor($1)")
shape("jsonb-members", RECORD_MAX // 32, 2048, members("'key' || i", "i"), "SELECT jsonb_to_dagcbor($1)")
shape("jsonb-nested", RECORD_MAX // 1024, 64, series("(repeat('[', 120) || repeat(']', 120))::jsonb"), "SELECT jsonb_to_dagcbor($1)")
shape("jsonb-bytes", RECORD_MAX // 64, 0, series("jsonb_build_object('$bytes', 'AAAA')"), "SELECT jsonb_to_dagcbor($1)")
shape("dagcbor-keys", 70000, 0, "codec/jsonb-keys", "SELECT dagcbor_to_jsonb($1)")
shape("dagcbor-mixed", 100000, 0, "codec/json-mixed", "SELECT convert_from($1, 'UTF8')::dagcbor::text")
shape("dagcbor-field", RECORD_MAX // 32, 0, members("'key' || i", "i"), "SELECT ($1::dagcbor)->>'key1'")
shape("json-mixed", 100000, 0, "codec/json-mixed", "SELECT json_to_dagcbor(convert_from($1, 'UTF8')::json)")

# --- links, tags, texts ---

shape("links", RECORD_MAX // 18, 2048, series("'did:web:a.b' || i"), "SELECT count(*) FROM record_links($1)")
shape("links-types", RECORD_MAX // 64, 0, series("jsonb_build_object('$type', 'a.b.c#d', 'a', 'did:web:a.b')"), "SELECT count(*) FROM record_links($1)")
shape("links-nested", RECORD_MAX // 2048, 32, series("(repeat('{{\"a\": [', 60) || '\"did:web:a.b\"' || repeat('], \"$type\": \"b\"}}', 60))::jsonb"),
      "SELECT count(*) FROM record_links($1)")
shape("links-dagcbor", 60000, 1024, "link/links-types", "SELECT count(*) FROM dagcbor_links($1)")
FACET = "jsonb_build_object('features', jsonb_build_array(jsonb_build_object('$type', 'app.bsky.richtext.facet#%s', '%s', %s)))"
shape("tags", RECORD_MAX // 128, 1024, "jsonb_build_object('facets', " + series(FACET % ("tag", "tag", "'tag' || i")) + ")", "SELECT record_hashtags($1)")
shape("tags-bad", RECORD_MAX // 128, 1024, "jsonb_build_object('facets', " + series(FACET % ("tag", "tag", "repeat('#', 64)")) + ")", "SELECT record_hashtags($1)")
shape("tags-signs", RECORD_MAX, 0, "jsonb_build_object('tags', jsonb_build_array(repeat('#', {n})))", "SELECT record_hashtags($1)")
shape("mentions", RECORD_MAX // 128, 0, "jsonb_build_object('facets', " + series(FACET % ("mention", "did", "'did:web:a.b' || i")) + ")", "SELECT record_mentions($1)")
shape("text", RECORD_MAX // 32, 0, "jsonb_build_object('a', " + members("'key' || i", "'b'") + ")", "SELECT record_text($1, 'a.key1')")
shape("count-links", 8192, 2048, "coalesce((SELECT array_agg('a.b.c' || i || ':d') FROM generate_series(1, {n}) i), '{{}}')", "SELECT atproto.count_links($1)", (),
      "(SELECT count(*) FROM atproto.link_source WHERE counted) = {n}")

# --- CAR files, frames, trees ---

shape("car-roots", 20000, 2048, "repo/car-roots", "SELECT car_roots($1)")
shape("car-blocks", 48000, 1024, "repo/car-blocks", "SELECT count(*) FROM car_blocks($1)")
shape("car-records", 19000, 512, "repo/export-short", "SELECT count(*), count(value) FROM car_records($1)")
shape("frame", 400000, 8192, "wire/identity-fields", "SELECT atproto.frame($1)")
shape("frame-labels", 60000, 0, "wire/labels", "SELECT atproto.frame($1)")
shape("frame-records", 200, 200, "repo/frame-ops", "SELECT count(*) FROM atproto.frame_records($1)")
shape("repo-root", 100000, 128, "coalesce((SELECT array_agg('a.b.c/' || lpad(i::text, 1000, '0')) FROM generate_series(1, {n}) i), '{{}}')",
      "SELECT atproto.repo_root(path, cidlink_of('\\xa0') ORDER BY path COLLATE \"C\") FROM unnest($1) path")

# --- Lexicons: the document ---

# a result would be what is wrong
CHECK = "SELECT 1 / (atproto.lexicon_check($1) IS NULL)::integer"
DEF = "jsonb_build_object('type', 'token')"
shape("doc-defs", DOC_MAX // 64, 0, lexicon("'{{}}'::jsonb", members("'def' || i", DEF)), CHECK)
shape("doc-properties", DOC_MAX // 64, 1024, lexicon(members("'property' || i", "jsonb_build_object('type', 'string')")), CHECK)
shape("doc-required", DOC_MAX // 96, 1024, lexicon(members("'property' || i", "jsonb_build_object('type', 'string')"),
                                                   record=", 'required', " + series("'property' || i") + ", 'nullable', " + series("'property' || i")), CHECK)
shape("doc-union", DOC_MAX // 96, 1024, lexicon("jsonb_build_object('a', jsonb_build_object('type', 'union', 'refs', " + series("'#def' || i") + "))", members("'def' || i", DEF)), CHECK)
shape("doc-union-same", DOC_MAX // 16, 2048, lexicon("jsonb_build_object('a', jsonb_build_object('type', 'union', 'refs', " + series("'d.e.f'::text") + "))"), CHECK)
shape("doc-enum", DOC_MAX // 40, 2048, lexicon("jsonb_build_object('a', jsonb_build_object('type', 'string', 'enum', " + series("md5(i::text)") + "))"), CHECK)
shape("doc-known", DOC_MAX // 24, 0, lexicon("jsonb_build_object('a', jsonb_build_object('type', 'string', 'knownValues', " + series("'value' || i") + "))"), CHECK)
shape("doc-integers", DOC_MAX // 24, 2048, lexicon("jsonb_build_object('a', jsonb_build_object('type', 'integer', 'enum', " + series("{n} - i") + "))"), CHECK)
shape("doc-chain", DOC_MAX // 128, 512,
      lexicon("'{{}}'::jsonb", members("'def' || i", "jsonb_build_object('type', 'object', 'properties', jsonb_build_object('a', jsonb_build_object('type', 'ref', 'ref', '#def' || (i % {n} + 1))))")), CHECK)
shape("doc-nested", DOC_MAX // 2048, 0,
      lexicon(members("'property' || i", "(repeat('{{\"type\": \"array\", \"items\": ', 50) || '{{\"type\": \"string\"}}' || repeat('}}', 50))::jsonb")), CHECK)
shape("doc-permissions", DOC_MAX // 96, 1024,
      "jsonb_build_object('lexicon', 1, 'id', 'a.b.c', 'defs', jsonb_build_object('main', jsonb_build_object('type', 'permission-set', 'permissions', "
      + series("jsonb_build_object('type', 'permission', 'resource', 'a', 'b', jsonb_build_array(1, 'a'))") + ")))", CHECK)
shape("doc-permission", DOC_MAX // 16, 0,
      "jsonb_build_object('lexicon', 1, 'id', 'a.b.c', 'defs', jsonb_build_object('main', jsonb_build_object('type', 'permission-set', 'permissions', jsonb_build_array("
      "jsonb_build_object('type', 'permission', 'resource', 'a', 'b', " + series("i") + ")))))", CHECK)

# --- Lexicons: records of n parts, checked against documents of n parts ---

VALID = "SELECT 1 / (atproto.lexicon_valid($1->'r' || jsonb_build_object('$type', 'a.b.c'), 'a.b.c', NULL, $1->'l') IS NULL)::integer"


def valid(name, limit, quick, doc, record):
    shape("valid-" + name, limit, quick, "jsonb_build_object('l', %s, 'r', %s)" % (doc, record), VALID)


ARRAY = "jsonb_build_object('a', jsonb_build_object('type', 'array', 'items', jsonb_build_object('type', '%s'%s)))"
EMPTY = "jsonb_build_object('type', 'object', 'properties', '{{}}'::jsonb)"
valid("union", RECORD_MAX // 80, 1024, lexicon(ARRAY % ("union", ", 'refs', " + series("'#def' || i")), members("'def' || i", EMPTY)),
      "jsonb_build_object('a', " + series("jsonb_build_object('$type', 'a.b.c#def' || i)") + ")")
valid("enum", RECORD_MAX // 40, 1024, lexicon(ARRAY % ("string", ", 'enum', " + series("md5(i::text)"))), "jsonb_build_object('a', " + series("md5(i::text)") + ")")
valid("integers", RECORD_MAX // 24, 0, lexicon(ARRAY % ("integer", ", 'enum', " + series("i"))), "jsonb_build_object('a', " + series("i") + ")")
valid("properties", RECORD_MAX // 64, 1024, lexicon(members("'property' || i", "jsonb_build_object('type', 'string')"), record=", 'required', " + series("'property' || i")),
      members("'property' || i", "'a'"))
valid("strangers", RECORD_MAX // 64, 1024, lexicon(members("'property' || i", "jsonb_build_object('type', 'string')")), members("'stranger' || i", "'a'"))
valid("formats", RECORD_MAX // 64, 512, lexicon(ARRAY % ("string", ", 'format', 'at-uri'")), "jsonb_build_object('a', " + series("'at://a.b/c.d.e/' || i") + ")")
valid("graphemes", RECORD_MAX // 8, 8192, lexicon("jsonb_build_object('a', jsonb_build_object('type', 'string', 'maxGraphemes', 1))"),
      "jsonb_build_object('a', '\U0001f469' || repeat(U&'\\200d' || '\U0001f469', {n}))")
valid("accept", RECORD_MAX // 320, 256, lexicon(ARRAY % ("blob", ", 'accept', (SELECT jsonb_agg('a/' || i) FROM generate_series(1, 1000) i)")),
      "jsonb_build_object('a', " + series("jsonb_build_object('$type', 'blob', 'mimeType', 'a/1000', 'size', 1, 'ref', jsonb_build_object('$link', 'bafkreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a'))") + ")")
valid("nested", RECORD_MAX // 1024, 64,
      lexicon("jsonb_build_object('a', jsonb_build_object('type', 'array', 'items', jsonb_build_object('type', 'ref', 'ref', '#d')))",
              "'{{\"d\": {{\"type\": \"object\", \"properties\": {{\"a\": {{\"type\": \"ref\", \"ref\": \"#d\"}}}}}}}}'::jsonb"),
      "jsonb_build_object('a', " + series("(repeat('{{\"a\": ', 100) || '{{}}' || repeat('}}', 100))::jsonb") + ")")

# --- Lexicons: views; a view can have 1600 columns ---

VIEW = "SELECT atproto.create_view('a.b.c', lexicon => $1, view => 'v')"
STRING = "jsonb_build_object('type', 'string')"
LONG = "repeat('x', 500)"
shape("view-names", 1592, 0, lexicon(members("'property' || i", STRING)), VIEW)
shape("view-alike", 1592, (48, 1592), lexicon(members(LONG + " || i", STRING)), VIEW)
shape("view-required", 1592, 0, lexicon(members(LONG + " || i", STRING), record=", 'required', " + series(LONG + " || (2 * i)")), VIEW)
shape("view-refs", 1592, (96, 1592), lexicon(members("'property' || i", "jsonb_build_object('type', 'ref', 'ref', '#def')"),
                                   "jsonb_build_object('def', jsonb_build_object('type', 'string', 'description', repeat('x', 100 * {n})))"), VIEW)

# --- exports, dead letters ---

LETTER = ("INSERT INTO atproto.dead_frame SELECT '{s}', sha256(b), b, NULL, NULL FROM input",
          "INSERT INTO atproto.dead_letter (subscription, seq, stage, sqlstate, message, path, did, digest) SELECT '{s}', 7, 'message', 'x', 'x', '', NULL, digest FROM atproto.dead_frame")
RETRY = "SELECT atproto.retry(id) FROM atproto.dead_letter WHERE $1 IS NOT NULL"


def retry(name, limit, quick, source, subscription, letters="0"):
    shape("retry-" + name, limit, quick, source, RETRY, [s.replace("{s}", subscription) for s in LETTER],
          "(SELECT count(*) FROM atproto.dead_letter) = " + letters)


shape("load-car", 19000, 256, "repo/export-short", "SELECT atproto.load_car('%s', $1)" % DID)
shape("load-car-large", 58000, 0, "repo/export-large", "SELECT atproto.load_car('%s', $1)" % DID)
shape("load-car-again", 19000, 256, "repo/export-short", "SELECT atproto.load_car('%s', $1)" % DID, ["SELECT atproto.load_car('%s', b) FROM input" % DID])
retry("ops", 200, 200, "repo/frame-ops", "repos")
retry("links", 55000, (512, 32768), "repo/frame-links", "repos")
retry("jetstream", 992000, (4096, 524288), "wire/jetstream-record", "jetstream")
retry("events", 384600, 2048, "wire/jetstream-wrapped", "jetstream")
retry("messages", 499984, (16384, 262144), "wire/identity-fields", "messages")
retry("labels", 60000, 256, "wire/labels", "labels")
retry("labels-bad", 1248, 256, "wire/labels-bad", "labels", "{n}")

SETUP = """CREATE EXTENSION atproto
CREATE FUNCTION measure(name text, n integer, sql text, arg anyelement) RETURNS void LANGUAGE c STRICT AS '{dir}/server.so', 'measure'
CREATE TABLE input (b bytea)
ALTER TABLE input ALTER b SET STORAGE EXTERNAL
SELECT atproto.create_tables('atproto')
INSERT INTO atproto.subscription (name, url, enabled, links) VALUES ('repos', 'wss://a.example/xrpc/com.atproto.sync.subscribeRepos', false, 'all')
INSERT INTO atproto.subscription (name, url, enabled) VALUES ('jetstream', 'wss://c.example/subscribe', false)
INSERT INTO atproto.subscription (name, url, enabled) VALUES ('messages', 'wss://d.example/xrpc/a.b.subscribeThings', false)
INSERT INTO atproto.subscription (name, url, enabled) VALUES ('labels', 'wss://b.example/xrpc/com.atproto.label.subscribeLabels', false)
"""


def statements(chosen, long, where, which):
    """The lines that measure these shapes' instructions (0) or memory (1)."""
    for s in chosen:
        most = s.limit if long else s.quick[which] if isinstance(s.quick, tuple) else min(s.limit, s.quick * (1, 4)[which])
        for n in [-1, 0] + [most // 8 * part for part in (1, 2, 4, 8)]:
            size = max(n, 0)
            arg = s.arg.format(n=size)
            yield "BEGIN"
            if "/" in s.arg and " " not in s.arg:
                path = "%s/%s.%d" % (where, s.arg.replace("/", "."), size)
                if not os.path.exists(path):
                    with open(path, "wb") as f:
                        subprocess.run([ROOT + "/test/build/complexity/measure", "write", s.arg, str(size)], stdout=f, check=True)
                yield "INSERT INTO input SELECT pg_read_binary_file('%s')" % path
                arg = "(SELECT b FROM input)"
            yield from s.before
            yield "SELECT measure('server/%s', %d, $sql$%s$sql$, %s)" % (s.name, n, s.sql, arg)
            yield "SELECT 1 / (%s)::integer" % s.after.format(n=size)
            yield "ROLLBACK"


def measure(names, long, where):
    """The instructions and bytes of the shapes whose names begin so."""
    config = os.environ.get("PG_CONFIG")
    if config is None or os.getuid() == 0:
        print("# LEFT OUT: the group server, which needs PG_CONFIG and a user other than root (test/one complexity/server)")
        return {}, {}
    bindir = os.path.dirname(config)
    include = subprocess.run([config, "--includedir-server"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    subprocess.run(["make", "-s", "-C", ROOT + "/test", "build/complexity/measure"], check=True)
    for name, more in ("server", ["-I" + include]), ("memory", ["-fno-builtin"]):
        subprocess.run(["gcc", "-O2", "-fPIC", "-shared", *more, "-o", "%s/%s.so" % (where, name), "%s/%s.c" % (HERE, name)], check=True)
    data = where + "/data"
    subprocess.run([bindir + "/initdb", "-D", data, "-A", "trust", "-N", "-E", "UTF8", "--locale=C.UTF-8"], check=True, stdout=subprocess.DEVNULL)
    server = [bindir + "/postgres", "--single", "-D", data, "-c", "fsync=off", "-c", "jit=off", "-c", "work_mem=1GB", "-c", "max_parallel_workers_per_gather=0", "postgres"]

    def run(lines, *before):
        return subprocess.run([*before, *server], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
                              encoding="utf-8", errors="replace").stdout

    run(SETUP.format(dir=where).splitlines())
    chosen = [s for s in SHAPES if any(("server/" + s.name).startswith(n) for n in names) and (long or s.quick)]
    # bytes are counted without callgrind, and so faster than instructions
    out = run(statements(chosen, long, where, 1), "env", "LD_PRELOAD=%s/memory.so" % where)
    memory = read_numbers("\n".join(line[len("MEMORY "):] for line in out.splitlines() if line.startswith("MEMORY ")))
    last = None
    for line in out.splitlines():
        if line.startswith("MEMORY "):
            last = line.split()[1]
        if "ERROR:" in line or "FATAL:" in line:
            print("# " + line[:300])
            memory.pop(last, None)
    run(statements(chosen, long, where, 0), "env", "GLIBC_TUNABLES=" + TUNABLES, "valgrind", "-q", "--tool=callgrind", "--collect-atstart=no", "--callgrind-out-file=%s/server.%%p" % where)
    for s in chosen:
        memory["server/" + s.name].update()  # a shape whose statement failed was not measured
    return collect(where + "/server.[0-9]*"), memory
