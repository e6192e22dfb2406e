#!/usr/bin/python3
"""The network for the recipes of doc/use/cookbook.md, and the rows that the recipes must return.

    recipes.py make NOW CAPTURE > FILE   CAPTURE, and after it a network with the activity that the page queries, as far
                                         back as a week before NOW (microseconds since 1970); much of it hostile
    recipes.py answer NOW FILE           JSON: of each recipe its rows, from a reading of all events by state.py

The same arguments give the same bytes.
"""

import json
import random
import re
import struct
import sys
from collections import Counter
from datetime import datetime, timedelta, timezone

import record
import state
import synth
import wire
from synth import ALPHABET, did

ME = "did:plc:44ybard66vv44zksje25o7dz"
ROOT = f"at://{ME}/app.bsky.feed.post/3jwdwj2ctlk26"
POST, LIKE, REPOST, FOLLOW = "app.bsky.feed.post", "app.bsky.feed.like", "app.bsky.feed.repost", "app.bsky.graph.follow"
PEOPLE = [did(n) for n in range(1, 41)]
ME_AS_LINK = [ME, f"at://{ME}"]
LONG = "did:web:" + ("x" * 60 + ".") * 4 + "example" + "%3A1" * 400
DAY = 86_400
MAX_KEY = "j" + "z" * 12  # of a TID: the last first letter
WORDS = "the cat database garden coffee network protocol morning train weather butterfly".split()


def key(micros, clock=0):
    value = micros << 10 | clock
    return "".join(ALPHABET[value >> shift & 31] for shift in range(60, -1, -5))


# --- the network ---

# What anybody may write where something else belongs.
FOUL = [None, 3, True, [], ["x"], {}, {"uri": 1}, "", "x", "at://", "at://x", "nobody", "at://did:plc:x/y", "x" * 9000, -1]
FOUL_URIS = [
    *FOUL,
    "at://alice.example.com/app.bsky.feed.post/3jwdwj2ctlk26",
    f"at://{ME}/app.bsky.feed.generator/cats",
    f"at://{ME}/{POST}",
    f"at://{ME}",
    f"at://{ME}/{POST}/" + "k" * 512,
    f"at://{ME}/{POST}/" + "k" * 513,
    f"at://{LONG}/{POST}/" + "k" * 512,
]
FOUL_LANGS = ["en", {"a": "en"}, [1, "de"], [None], [["en"]], [""], ["x" * 5000], ["EN"], ["en", "en"], ["en-GB", "pt"], 5, []]
FOUL_TEXTS = [5, None, ["cat"], {"text": "cat"}, "", "'; DROP TABLE x; --", "a,\"b\"\r\nc\td\\N", "\\N", "\\.", "NULL", '"', "\N{BUTTERFLY}",
              " ".join(f"w{n}" for n in range(120_000)), "y" * 900_000, "nul\0cat"]


class Network:
    def __init__(self, now, seq):
        self.now = now
        self.stream = synth.Stream()
        self.stream.seq = seq
        self.random = random.Random(1)
        self.rev = now - 3600 * 1_000_000
        self.clock = 0
        self.posts = [(ME, ROOT.rsplit("/", 1)[1])]
        self.kept = {}  # path of who -> record

    def ago(self, seconds):
        """A key: it was so long ago, and none is twice.  A query may be half an hour late."""
        for days in (1, 3):
            if 0 <= days * DAY - seconds < 1800:
                seconds -= 1800
        self.clock = (self.clock + 1) % 1024
        return key(self.now - int(seconds * 1e6), self.clock)

    def commit(self, who, *ops):
        self.rev += 1000
        return self.stream.commit(who, key(self.rev), [(action, path, body) for action, path, body in ops])

    def put(self, who, collection, rkey, **fields):
        again = (who, collection, rkey) in self.kept
        self.kept[who, collection, rkey] = fields
        body = {"$type": collection, "createdAt": "2100-01-01T00:00:00Z", **fields}
        return self.commit(who, ("update" if again else "create", f"{collection}/{rkey}", body))

    def remove(self, who, collection, rkey):
        del self.kept[who, collection, rkey]
        return self.commit(who, ("delete", f"{collection}/{rkey}", None))

    def post(self, who, rkey=None, **fields):
        r = self.random
        rkey = rkey or self.ago(r.expovariate(1 / DAY))
        self.posts.append((who, rkey))
        text = {"text": " ".join(r.choices(WORDS, k=r.randrange(1, 9)))}
        tags = [{"features": [{"$type": "app.bsky.richtext.facet#tag", "tag": tag}]} for tag in r.choices(["Cats", "cats", "dogs", "sql", "art"], k=r.randrange(3))]
        langs = {"langs": r.choice([["en"], ["en"], ["en", "de"], ["ja"], ["pt-BR"]])} if r.random() < 0.9 else {}
        return self.put(who, POST, rkey, **{**text, "facets": tags, **langs, **fields})

    def some_post(self):
        who, rkey = self.random.choice(self.posts)
        return f"at://{who}/{POST}/{rkey}"

    def messages(self):
        r = self.random
        for who in [ME, *PEOPLE]:
            yield self.stream.identity(who, f"{who[8:12]}.example.com")
        yield self.put(ME, POST, self.posts[0][1], text="the first", langs=["en"])
        del self.posts[0]
        for who in r.choices([ME, *PEOPLE], k=250):
            yield self.post(who)
        for who in PEOPLE[:30]:
            yield self.put(who, FOLLOW, self.ago(r.expovariate(1 / DAY)), subject=r.choice([ME, ME, *PEOPLE]))
            yield self.put(ME, FOLLOW, self.ago(r.expovariate(1 / DAY)), subject=r.choice(PEOPLE))
        yield from self.talk()
        yield from self.approve()
        yield from self.be_foul()
        yield from self.come_and_go()

    def talk(self):
        """Answers to the post, to these, and elsewhere; quotes, mentions."""
        r = self.random
        answers = [ROOT]
        for n in range(80):
            who, rkey = r.choice([ME, *PEOPLE]), self.ago(5 * DAY - n * 3600)
            parent = r.choice(answers)
            root = ROOT if r.random() < 0.9 else self.some_post()
            answers.append(f"at://{who}/{POST}/{rkey}")
            yield self.post(who, rkey, reply={"root": {"uri": root}, "parent": {"uri": parent}})
            if n % 10 == 9:
                yield self.remove(who, POST, rkey)
        mine = [f"at://{who}/{POST}/{rkey}" for who, rkey in self.posts if who == ME]
        for who in r.choices(PEOPLE, k=15):
            yield self.post(who, embed={"$type": "app.bsky.embed.record", "record": {"uri": r.choice(mine)}})
            yield self.post(who, embed={"record": {"record": {"uri": r.choice(mine)}}})
            yield self.post(who, facets=[{"features": [{"$type": "app.bsky.richtext.facet#mention", "did": ME}]}] * 2)
            yield self.put(who, REPOST, self.ago(r.expovariate(2 / DAY)), subject={"uri": r.choice(mine)})
        # an answer to itself, with itself as its root; one that is above its own root; a ring of two
        for n in range(3):
            one, two = self.ago(50 - n), self.ago(40 - n)
            uri = f"at://{PEOPLE[n]}/{POST}/"
            yield self.post(PEOPLE[n], one, reply={"root": {"uri": [uri + one, ROOT, ROOT][n]}, "parent": {"uri": uri + [one, two, two][n]}})
            yield self.post(PEOPLE[n], two, reply={"root": {"uri": ROOT}, "parent": {"uri": uri + [one, two, one][n]}})
        # two answers with one key, each of which is answered, the second one first
        one, *others = [self.ago(30 - n) for n in range(5)]
        for n in range(2):
            yield self.post(PEOPLE[20 + n], one, reply={"root": {"uri": ROOT}, "parent": {"uri": ROOT}})
        for n, rkey in enumerate(others):
            yield self.post(PEOPLE[22 + n], rkey, reply={"root": {"uri": ROOT}, "parent": {"uri": f"at://{PEOPLE[21 - n % 2]}/{POST}/{one}"}})
        yield self.put(ME, POST, ROOT.rsplit("/", 1)[1], text="the first", langs=["en"], reply={"root": {"uri": ROOT}, "parent": {"uri": ROOT}})

    def approve(self):
        """Likes: again and again, moved, taken back."""
        r = self.random
        likes = []
        for who in r.choices([ME, *PEOPLE], k=900):
            what = r.random()
            mine = [like for like in likes if like[0] == who]
            if mine and what < 0.15:
                like = r.choice(mine)
                likes.remove(like)
                yield self.remove(who, LIKE, like[1])
                if r.random() < 0.5:
                    likes.append(like)
                    yield self.put(who, LIKE, like[1], subject={"uri": self.some_post()})
            elif mine and what < 0.3:
                yield self.put(who, LIKE, r.choice(mine)[1], subject={"uri": self.some_post() if r.random() < 0.8 else r.choice(FOUL_URIS)})
            else:
                likes.append((who, self.ago(r.expovariate(1 / DAY))))
                yield self.put(who, LIKE, likes[-1][1], subject={"uri": self.some_post()})

    def be_foul(self):
        """What no recipe may fail at.  Keys from the year 2100, and that are no TIDs."""
        r = self.random
        keys = lambda: r.choice([self.ago(r.expovariate(1 / DAY)), key(4_102_444_800_000_000 + r.randrange(10**9)), "self", "~", "3m", "2", "-", MAX_KEY, str(r.random())])
        for foul in FOUL_URIS:
            who = r.choice(PEOPLE)
            yield self.put(who, LIKE, keys(), subject={"uri": foul})
            yield self.put(who, REPOST, keys(), subject=foul)
            yield self.put(who, FOLLOW, keys(), subject=foul)
            yield self.put(ME, FOLLOW, keys(), subject=foul)
            yield self.post(who, keys(), reply={"root": {"uri": ROOT}, "parent": {"uri": foul}})
            yield self.post(who, keys(), reply={"root": foul, "parent": {"uri": ROOT}})
            yield self.post(who, keys(), reply=foul, embed=foul, facets=foul, tags=foul)
            yield self.post(who, keys(), facets=[foul, {"features": foul}, {"features": [foul, {"$type": "app.bsky.richtext.facet#tag", "tag": foul}]}][: 2 + (type(foul) is not str)])
        for foul in FOUL_LANGS:
            yield self.post(r.choice(PEOPLE), langs=foul)
        for foul in FOUL_TEXTS:
            yield self.post(r.choice(PEOPLE), text=foul, createdAt=foul if len(str(foul)) < 99 else "now")
            yield self.post(ME, text=foul)
        for n in range(20):
            yield self.post(r.choice([ME, *PEOPLE]), keys())
            yield self.put(PEOPLE[n], FOLLOW, keys(), subject=ME)
            yield self.put(PEOPLE[n], LIKE, keys(), subject={"uri": self.some_post()})

    def come_and_go(self):
        """Accounts that are deleted, for good or not, and that are not active."""
        r = self.random
        for n, who in enumerate(PEOPLE[:8]):
            status = "deleted" if n < 5 else "deactivated"
            if status == "deleted":
                for path in [path for path in self.kept if path[0] == who]:
                    del self.kept[path]
            yield self.stream.account(who, False, status)
            if n in (3, 4, 7):
                yield self.stream.account(who, True)
                for _ in range(3):
                    yield self.put(who, LIKE, self.ago(r.expovariate(1 / DAY)), subject={"uri": self.some_post()})
                    yield self.put(who, FOLLOW, self.ago(r.expovariate(1 / DAY)), subject=ME)


def make(now, capture):
    sys.stdout.buffer.writelines(struct.pack(">I", len(message)) + message for message in wire.messages(capture))
    last = sum(1 for _ in wire.messages(capture))
    synth.write(Network(now, last).messages(), sys.stdout.buffer)


# --- the answers ---

URI = re.compile(r"at://(did:[a-z]+:[a-zA-Z0-9._:%-]*[a-zA-Z0-9._-])/([a-zA-Z0-9.-]+)/([a-zA-Z0-9._~:-]{1,512})")
TID = re.compile("[2-7a-j][2-7a-z]{12}")


def at(value, *names):
    """What stands there; None when nothing does."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def texts(value):
    return [v for v in value if type(v) is str] if isinstance(value, list) else []


def post_of(uri):
    found = URI.fullmatch(uri) if type(uri) is str else None
    return (found[1], found[3]) if found and found[2] == POST else None


class Answers:
    def __init__(self, now, capture):
        self.now = now
        st = state.State()
        st.run(capture)
        self.repos = st.repos
        self.records = []  # did, collection, rkey, value; of those without JSON None
        for who, repo in st.repos.items():
            for (collection, rkey), (_, _, value) in repo.records.items():
                try:
                    record.plain(value)
                except record.NoJson:
                    value = None
                self.records.append((who, collection, rkey, value))

    def active(self, who):
        return who in self.repos and self.repos[who].active

    def of(self, collection, hidden=False):
        return [(who, rkey, value) for who, name, rkey, value in self.records if name == collection and (hidden or self.active(who))]

    def until_now(self, rkey):
        return rkey <= key(self.now, 1023)

    def since(self, rkey, days):
        return key(self.now - days * DAY * 1_000_000) <= rkey and self.until_now(rkey)

    def text(self, value):
        return at(value, "text") if type(at(value, "text")) is str else None

    def posts(self):
        return {(who, rkey): value for who, rkey, value in self.of(POST)}

    @staticmethod
    def uri(who, rkey, collection=POST):
        return f"at://{who}/{collection}/{rkey}"

    def account(self):
        rows = [(rkey, self.text(value)) for who, rkey, value in self.of(POST) if who == ME and self.until_now(rkey)]
        return [[self.uri(ME, rkey), text] for rkey, text in sorted(rows, reverse=True)[:50]]

    def follows(self):
        return {at(value, "subject") for who, _, value in self.of(FOLLOW) if who == ME and type(at(value, "subject")) is str}

    def home(self):
        follows = self.follows()
        rows = [(rkey, who, self.text(value)) for who, rkey, value in self.of(POST) if who in follows and self.since(rkey, 3)]
        best = sorted(rows, key=lambda row: (row[0], row[1].encode()), reverse=True)
        return [[self.uri(who, rkey), text] for rkey, who, text in best[:50]]

    def follow_keys(self):
        return [(rkey, who) for who, rkey, value in self.of(FOLLOW) if at(value, "subject") in ME_AS_LINK]

    def followers(self):
        rows = [row for row in self.follow_keys() if self.until_now(row[0])]
        return [[who, self.repos[who].handle] for _, who in sorted(rows, key=lambda row: (row[0], row[1].encode()), reverse=True)[:50]]

    def following(self):
        rows = {(who, self.repos[who].handle) for who in self.follows() if self.active(who)}
        return sorted(map(list, rows))

    def numbers(self):
        follows = {who for who in self.follows() if re.fullmatch("did:[a-z]+:.+", who)}
        return [[len({who for _, who in self.follow_keys()}), len(follows)]]

    def mutual(self):
        return sorted([who] for who in {who for _, who in self.follow_keys()} & self.follows())

    def thread(self):
        answers = {}
        for who, rkey, value in self.of(POST):
            parent = at(value, "reply", "parent", "uri")
            if at(value, "reply", "root", "uri") == ROOT and type(parent) is str and self.until_now(rkey) and self.uri(who, rkey) != ROOT:
                answers.setdefault(parent, []).append((rkey, who, self.text(value)))
        rows = []

        def walk(uri, depth):
            for rkey, who, text in sorted(answers.get(uri, []), key=lambda row: (row[0], row[1].encode())):
                rows.append([depth, self.uri(who, rkey), text])
                walk(self.uri(who, rkey), depth + 1)

        walk(ROOT, 1)
        return rows

    def above(self, uri):
        """What a post answers to, up to the first."""
        posts, rows, height = self.posts(), [], 0
        while post_of(uri) in posts and uri not in [row[1] for row in rows]:
            value = posts[post_of(uri)]
            rows.append([height, uri, self.text(value)])
            uri, height = at(value, "reply", "parent", "uri"), height + 1
        return rows[::-1]

    def notifications(self):
        rows = []

        def add(reason, who, collection, rkey, target):
            if type(target) is str and (target in ME_AS_LINK or target.startswith(f"at://{ME}/")) and who != ME and self.since(rkey, 1):
                rows.append((rkey, who, reason, self.uri(who, rkey, collection), target))

        places = [("like", LIKE, ("subject", "uri")), ("repost", REPOST, ("subject", "uri")), ("follow", FOLLOW, ("subject",))]
        for reason, collection, place in places:
            for who, rkey, value in self.of(collection):
                target = at(value, *place)
                add(reason, who, collection, rkey, f"at://{ME}" if target == ME else target)
        for who, rkey, value in self.of(POST):
            add("reply", who, POST, rkey, at(value, "reply", "parent", "uri"))
            add("quote", who, POST, rkey, at(value, "embed", "record", "uri"))
            add("quote", who, POST, rkey, at(value, "embed", "record", "record", "uri"))
            if self.mentions(value).intersection(ME_AS_LINK):
                add("mention", who, POST, rkey, f"at://{ME}")
        best = sorted(rows, key=lambda row: (row[0], row[1].encode(), row[2]), reverse=True)
        return [[reason, who, uri, target] for _, who, reason, uri, target in best[:50]]

    @staticmethod
    def features(value, kind):
        facets = at(value, "facets")
        for facet in facets if isinstance(facets, list) else []:
            features = at(facet, "features")
            for feature in features if isinstance(features, list) else []:
                if at(feature, "$type") == f"app.bsky.richtext.facet#{kind}":
                    yield feature

    def mentions(self, value):
        return {at(feature, "did") for feature in self.features(value, "mention") if type(at(feature, "did")) is str}

    def likes(self):
        counts = Counter(post_of(at(value, "subject", "uri")) for _, _, value in self.of(LIKE, hidden=True))
        del counts[None]
        return counts

    def all_likes(self):
        return sorted([who, rkey, n] for (who, rkey), n in self.likes().items())

    def popular(self):
        posts = self.posts()
        rows = [
            (n, rkey, who)
            for (who, rkey), n in self.likes().items()
            if (who, rkey) in posts and self.since(rkey, 1) and "en" in texts(at(posts[who, rkey], "langs"))
        ]
        best = sorted(rows, key=lambda row: (row[0], row[1], row[2].encode()), reverse=True)
        return [[self.uri(who, rkey), n, self.text(posts[who, rkey])] for n, rkey, who in best[:50]]

    def hashtags(self):
        counts = Counter()
        for _, rkey, value in self.of(POST):
            if self.since(rkey, 1):
                tags = [at(feature, "tag") for feature in self.features(value, "tag")]
                found = {tag.lower() for tag in texts([*tags, *texts(at(value, "tags"))]) if 0 < len(tag.encode()) <= 640}
                counts.update(found)
        return [[tag, n] for tag, n in sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:20]]

    def languages(self):
        counts = Counter()
        for _, rkey, value in self.of(POST):
            if self.since(rkey, 1):
                found = {lang.split("-")[0] for lang in texts(at(value, "langs"))}
                counts.update({lang for lang in found if re.fullmatch("[a-z]{2,3}", lang)})
        return [[lang, n] for lang, n in sorted(counts.items(), key=lambda row: (-row[1], row[0]))]

    def words(self):
        rows = []
        for who, rkey, value in self.of(POST):
            found = set(re.findall(r"\w+", (self.text(value) or "")[:3000].lower()))
            if {"cat", "database"} <= found and self.until_now(rkey):
                rows.append((rkey, who, self.text(value)))
        best = sorted(rows, key=lambda row: (row[0], row[1].encode()), reverse=True)
        return [[self.uri(who, rkey), text] for rkey, who, text in best[:50]]

    def export(self):
        """Posts of the last day, whatever is in them."""
        rows = [[self.uri(who, rkey), who, self.time(rkey), self.text(value)] for who, rkey, value in self.of(POST) if self.since(rkey, 1)]
        return sorted(rows, key=lambda row: row[0])

    @staticmethod
    def time(rkey):
        if not TID.fullmatch(rkey):
            return None
        micros = sum(ALPHABET.index(letter) << shift for letter, shift in zip(rkey, range(60, -1, -5))) >> 10
        time = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)
        return re.sub(r"\.?0*\+", "+", time.strftime("%Y-%m-%d %H:%M:%S.%f+00"))

    def all(self):
        deepest = max(self.thread(), key=lambda row: (row[0], row[1]))[1]
        return {
            "account": self.account(),
            "home": self.home(),
            "followers": self.followers(),
            "following": self.following(),
            "numbers": self.numbers(),
            "mutual": self.mutual(),
            "thread": self.thread(),
            "deepest": deepest,
            "above": self.above(deepest),
            "itself": self.above(ROOT),
            "notifications": self.notifications(),
            "likes": self.all_likes(),
            "popular": self.popular(),
            "hashtags": self.hashtags(),
            "languages": self.languages(),
            "words": self.words(),
            "export": self.export(),
        }


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("make", "answer"):
        sys.exit(__doc__)
    if sys.argv[1] == "make":
        make(int(sys.argv[2]), sys.argv[3])
    else:
        json.dump(Answers(int(sys.argv[2]), sys.argv[3]).all(), sys.stdout)


if __name__ == "__main__":
    main()
