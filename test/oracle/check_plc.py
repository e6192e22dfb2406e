#!/usr/bin/python3
"""Does the second verifier of the did:plc directory's logs follow the rules?  TAP.

It is compared with facts of the public directory and of its interoperability tests, which were typed in, with logs written
by hand, and with plc_make.py, which knows by itself what it has made.  check_plc.py [SEED]
"""

import collections
import json
import os
import subprocess
import sys
import tempfile

import plc
import plc_chain
import plc_forge
import plc_make
import plc_op

HERE = os.path.dirname(os.path.abspath(__file__))
SEED = sys.argv[1] if len(sys.argv) > 1 else "1"

count = failed = 0


def equal(got, want, name):
    global count, failed
    count += 1
    failed += got != want
    print(f"{'ok' if got == want else 'not ok'} {count} - {name}")
    if got != want:
        print(f"#      got: {got}\n# expected: {want}")


# --- facts of the directory ---

RECOVERY, SIGNING = (
    "did:key:zQ3shhCGUqDKjStzuDxPkTxN6ujddP4RkEKJJouJGRRkaLGbg",
    "did:key:zQ3shP5TBe1sQfSttXty15FAEHV1DZgcxRZNxvEWnPfLFwLxJ",
)
CREATE = {
    "type": "create",
    "signingKey": SIGNING,
    "recoveryKey": RECOVERY,
    "handle": "dan.bsky.social",
    "service": "https://bsky.social",
    "prev": None,
    "sig": "7QTzqO1BcL3eDzP4P_YBxMmv5U4brHzAItkM9w5o8gZA7ElZkrVYEwsfQCfk5EoWLk58Z1y6fyNP9x1pthJnlw",
}
UPDATE = {
    "type": "plc_operation",
    "rotationKeys": [RECOVERY, SIGNING],
    "verificationMethods": {"atproto": SIGNING},
    "alsoKnownAs": ["at://dholms.xyz"],
    "services": {"atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": "https://bsky.social"}},
    "prev": "bafyreigcxay6ucqlwowfpu35alyxqtv3c4vsj7gmdtmnidsnqs6nblyarq",
    "sig": "n-VWsPZY4xkFN8wlg-kJBU_yzWTNd2oBnbjkjxXu3HdjbBLaEB7K39JHIPn_DZVALKRjts6bUicjSEecZy8eIw",
}
P256 = "did:key:zDnaet3CLvFwasyRn1qaCJec6XDqh2pXE4fUoJpG19H9xauUf"
TWICE = {
    "type": "plc_operation",
    "rotationKeys": [P256, P256],
    "verificationMethods": {},
    "alsoKnownAs": [],
    "services": {},
    "prev": None,
    "sig": "eYGQcdzFhATHh1wn9eNBjL5TRd7U-K_D3eyY3KPp2BcFrz_CMZ5PPoIN1P_HSO7m_66pmRcDiPPvBclDHQZ6tQ",
}
DER = {
    "type": "plc_operation",
    "rotationKeys": ["did:key:zQ3shaTh3deVkniqT1r413817rJ3JDvTG61bzGX13dSwCkvGC"],
    "verificationMethods": {"atproto": "did:key:zQ3shaTh3deVkniqT1r413817rJ3JDvTG61bzGX13dSwCkvGC"},
    "alsoKnownAs": ["at://merry.xmas.from.retr0.id"],
    "services": {
        "atproto_pds": {
            "type": "AtprotoPersonalDataServer",
            "endpoint": "https://mrSTdKI0ilD_bR23p5wCOfKGUSsbOSnI.example.com",
        }
    },
    "prev": None,
    "sig": "MD4CHRiHVHmnqoitzAIq5NZXEkmBbtbfayatOLATwgsOAh1OFK0fSdkgNJGXpMkXMumSu0smNfVZPzElCm1jkA",
}


def log(*operations, did=None, times=()):
    """The entries of operations, with their CIDs; did: that of the first."""
    did = did or plc_op.did_of(plc_op.encode(operations[0]))
    return [
        {
            "did": did,
            "operation": operation,
            "cid": plc_op.cid_of(plc_op.encode(operation)),
            "createdAt": times[n] if n < len(times) else plc_chain.text_of_time(plc_make.START + n),
        }
        for n, operation in enumerate(operations)
    ]


def verdicts(entries):
    return [reason for reason, _ in plc_chain.judge_log(entries)]


def facts():
    found = log(CREATE, UPDATE)
    equal(found[0]["did"], "did:plc:yk4dd2qkboz2yv6tpubpc6co", "the DID of a genesis of 2022")
    equal(found[0]["cid"], UPDATE["prev"], "its CID")
    equal(found[1]["cid"], "bafyreiho5sanautvnw3det66jcwic4vkeabc35y7iou3ygwj2l3xqcxdau", "the CID of the next operation")
    equal(verdicts(found), [None, None], "both are signed")
    equal(plc_op.identity(plc_op.meaning(CREATE)), (SIGNING, None, "https://bsky.social", "dan.bsky.social", False), "what the genesis means")
    found = log(TWICE)
    equal(
        (found[0]["did"], found[0]["cid"], verdicts(found)),
        ("did:plc:fjhag55cvrg4no2optwsld2d", "bafyreibkjybxpivmjxdlwtt45usy6q6nutr3clatlbfejlnusqvmpsxm5y", [None]),
        "a genesis of p256, with a key that stands twice",
    )
    found = log(DER)
    equal((found[0]["did"], verdicts(found)), ("did:plc:ru3i4kqbprtzmfydm3vmn57w", ["signature"]), "a signature in DER of 64 bytes")
    for name, sig, reason in (
        ("padding", UPDATE["sig"] + "==", "encoding"),
        ("unused bits", UPDATE["sig"][:-1] + "x", "encoding"),
        ("a line feed", UPDATE["sig"] + "\n", "encoding"),
    ):
        equal(verdicts(log(CREATE, {**UPDATE, "sig": sig})), [None, reason], f"a signature with {name}")


# --- a log by hand ---


def by_hand():
    keys = plc_make.Keys("hand")
    a, b, c = (keys.get("hand", n, n == 1) for n in range(3))
    at = plc_make.START
    account = [a.text, b.text, c.text]

    def operation(signer, prev, handle, rotation=account, **members):
        data = {"rotationKeys": rotation, "verificationMethods": {"atproto": c.text}, "alsoKnownAs": [handle], "services": {}}
        return plc_make.seal({"type": "plc_operation", **data, "prev": prev, **members}, signer)

    def cid(of):
        return plc_op.cid_of(plc_op.encode(of))

    first = operation(c, None, "at://One.example.com")
    stolen = operation(c, cid(first), "at://stolen.example.com", [c.text])
    kept = operation(c, cid(stolen), "at://kept.example.com", [c.text])
    second = operation(b, cid(first), "at://two.example.com")
    tomb = plc_make.seal({"type": "plc_tombstone", "prev": cid(second)}, c)
    back = operation(a, cid(first), "at://back.example.com")
    hour = 3_600_000
    times = [at, at + hour, at + 2 * hour, at + 73 * hour, at + 80 * hour, at + 145 * hour]
    names = [plc_chain.text_of_time(of) for of in times]
    entries = log(first, stolen, kept, second, tomb, back, times=names)
    equal(
        plc_chain.judge_log(entries),
        [[None, None], [None, 3], [None, 3], [None, 5], [None, 5], [None, None]],
        "a recovery at the bound, a tombstone, and a recovery of the recovery, 72 hours after it and 144 after the theft",
    )
    late = [*entries[:5], {**entries[5], "createdAt": plc_chain.text_of_time(times[5] + 1)}]
    equal(plc_chain.judge_log(late)[5], ["late", None], "a millisecond later it is late")
    equal(plc_chain.judge_log(late)[3], [None, None], "and nullifies nothing")
    judge = plc.Judge()
    for seq, entry in enumerate([*entries, entries[2], {**entries[1], "cid": entries[0]["cid"]}]):
        judge.read({**entry, "seq": seq})
    rows = dict(judge.rows())
    did = entries[0]["did"]
    equal(
        [row.split("\t")[1:5] for row in rows["operation"]],
        [
            [str(n + 1), entry["cid"], entry["createdAt"], "\\N" if by is None else entries[by]["cid"]]
            for n, (entry, by) in enumerate(zip(entries, [None, 3, 3, 5, 5, None]))
        ],
        "rows of operations: each once, with what nullified it",
    )
    equal(rows["state"], [f"{did}\t{names[0]}\t{c.text}\t\\N\t\\N\tone.example.com\tf", f"{did}\t{names[5]}\t{c.text}\t\\N\t\\N\tback.example.com\tf"], "the chain that holds")
    equal(rows["now"], [f"{did}\t{c.text}\t\\N\t\\N\tback.example.com\tf"], "what holds now")
    equal([row.split("\t")[0::3] for row in rows["refused"]], [["7", "cid"]], "a second copy is nothing new; another operation under its CID is refused")
    entries[2] = {**entries[2], "cid": entries[0]["cid"][:-1] + "a"}
    equal(plc_chain.judge_log(entries)[2][0], "cid", "another CID")


# --- made logs ---


def run(*args):
    done = subprocess.run([sys.executable, "-B", os.path.join(HERE, "plc.py"), *args, "--seed", SEED], capture_output=True, text=True)
    if done.returncode:
        print("# " + done.stderr[:2000])
    return done.returncode


def lines(file):
    with open(file, encoding="ascii") as f:
        return [json.loads(line) for line in f]


def made(folder):
    file = os.path.join(folder, "log")
    equal(run("honest", file, "--operations", "200"), 0, "honest logs: maker and verifier agree")
    types = collections.Counter(entry["operation"]["type"] for chain in lines(file) for entry in chain["log"])
    equal(set(types), {"create", "plc_operation", "plc_tombstone"}, "of all forms")
    equal(any(by for chain in lines(file) for _, by in chain["expect"]), True, "with recoveries")
    kinds = set(plc_forge.KINDS) - plc_forge.ONLY_IN_EXPORTS
    equal(run("forged", file, "--chains", str(len(kinds))), 0, "forged logs: maker and verifier agree on the reason")
    chains = lines(file)
    equal({chain["kind"].split(" and ")[0] for chain in chains} == kinds, True, "of all kinds")
    reasons = {chain["expect"][chain["at"]][0] for chain in chains}
    equal(reasons, {None, *plc_chain.REASONS}, "with all reasons")
    equal({reason for chain in chains for reason, _ in chain["expect"][: chain["at"]]}, {None}, "all before the forgery is valid")
    equal({reason for chain in chains for reason, _ in chain["expect"][chain["at"] + 1 :]} <= {None, "prev"}, True, "what follows a forgery falls with it; nothing else does")
    equal(run("export", file, "--operations", "330", "--wrong", "40"), 0, "a directory's log")
    export = lines(file)
    equal([line["seq"] for line in export] == sorted({line["seq"] for line in export}), True, "its numbers rise")
    judge = plc.Judge()
    for line in export:
        judge.read(line)
    wrong = {did for _, did, _, _ in judge.refused}
    equal((len(wrong) >= 25, len(set(judge.accounts) - wrong) >= 20), (True, True), "with wrong operations, and accounts that have none")
    order = {line["cid"]: line["seq"] for line in export}
    nullified = {cid for line in export for cid in line["nullifies"]}
    equal(all(order[cid] < line["seq"] for line in export for cid in line["nullifies"]), True, "what is nullified came before")
    found = {of.cid for account in judge.accounts.values() for of in account.entries if of.nullified_by}
    equal(nullified, found, "and is what the verifier has")


facts()
by_hand()
with tempfile.TemporaryDirectory() as folder:
    made(folder)
print(f"1..{count}")
sys.exit(1 if failed else 0)
