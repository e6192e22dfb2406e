#!/usr/bin/python3
"""Do levels.py, trees.py and curves.py follow their rules, and does the simulator keep them?  TAP.

    check_levels.py DIR     with the output of the simulator: capture, directory/, exports/, expect/
"""

import os
import sys
import tempfile

import chain
import curves
import invert
import levels
import state
import synth
import trees
import wire

count = failed = 0


def equal(got, want, name):
    global count, failed
    count += 1
    failed += got != want
    print(f"{'ok' if got == want else 'not ok'} {count} - {name}")
    if got != want:
        print(f"#      got: {got}\n# expected: {want}")


def commits(path):
    for message in wire.messages(path):
        header, payload = wire.frame(message)
        if header["t"] == "#commit":
            roots, blocks = wire.car(payload["blocks"])
            yield payload, wire.decode(blocks[roots[0]]), blocks


# --- the cases of chain.py, which say themselves what becomes of them ---

with tempfile.NamedTemporaryFile() as f:
    synth.write(chain.capture(synth.Stream()), f)
    f.flush()
    st = levels.Levels("chain")
    st.run(f.name)


def found(did):
    has = (chain.POST.rstrip("/"), "x") in st.repos[did].records
    return st.repos[did].sync, "applied" if has else "refused" if st.letters["commit", did] else "nothing"


for did, name, *want in chain.expected():
    equal(found(did), tuple(want), f"chain: {name}")

# --- signatures ---

message = b"of a commit"
for name, curve, prefix in (("k256", curves.K256, b"\xe7\x01"), ("P-256", curves.P256, b"\x80\x24")):
    secrets = [synth.cid(bytes([n]))[4:] for n in range(2)]
    points = [curve.affine(curve.sum((int.from_bytes(secret, "big"), curve.base))) for secret in secrets]
    one, other = (curves.Key(prefix + bytes([2 + y % 2]) + x.to_bytes(32, "big")) for x, y in points)
    sig, high = (curves.sign(curve, secrets[0], message, high) for high in (False, True))
    equal([one.verifies(message, sig), other.verifies(message, sig), one.verifies(message + b".", sig),
           one.verifies(message, high), one.verifies(message, sig + b"\0")],
          [True, False, False, False, False], f"{name}: only the right signature, with low S")

# --- what the simulator wrote ---

where = sys.argv[1]
capture, documents = os.path.join(where, "capture"), os.path.join(where, "directory", "documents")
last = 0
for payload, commit, blocks in commits(capture):
    data = wire.cid(commit["data"])
    last += 1
    if trees.verdict(payload, data, blocks)[0] != trees.PROVEN or trees.before(payload, data, blocks) != invert.undo(payload)[1]:
        equal(payload["seq"], None, "a commit that is undone in two ways is the same")
        break
equal(last > 100, True, f"the trees before {last} commits, computed in two ways")

full = levels.Levels("full", documents)
full.run(capture)
former = sum(n for (stage, _), n in full.letters.items() if stage == "signature")
kinds = {key.curve is curves.P256 for keys in full.directory.documents.values() for _, key in keys if key}
rotations = sum(len(keys) > 1 for keys in full.directory.documents.values())
equal((former, set(stage for stage, _ in full.letters), kinds), (3, {"signature"}, {True, False}),
      "full: only what a former key has signed is refused")
equal(rotations > 10, True, f"{rotations} accounts have had several documents")
honest = state.State()
honest.run(capture)
exports = os.path.join(where, "exports", max(os.listdir(os.path.join(where, "exports")), key=int))
lacking = []
for did, repo in honest.repos.items():
    path = os.path.join(exports, did + ".car")
    if repo.status == "deleted" or repo.rev is None:
        if os.path.exists(path):
            lacking.append(did)
        continue
    with open(path, "rb") as f:
        roots, blocks = wire.car(f.read())
    commit = wire.decode(blocks[roots[0]])
    listed = trees.records(wire.cid(commit["data"]), blocks)
    known = {f"{collection}/{rkey}": cid for (collection, rkey), (cid, _, _) in repo.records.items()}
    if (commit["rev"], roots[0], wire.cid(commit["data"])) != (repo.rev, repo.commit, repo.data) or \
            not known.items() <= listed.items() or not all(cid in blocks for cid in listed.values()):
        lacking.append(did)
equal(lacking, [], f"{len(os.listdir(exports))} exports are whole, and what the stream says")
print(f"1..{count}")
sys.exit(1 if failed else 0)
