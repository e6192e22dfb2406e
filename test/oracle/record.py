"""Records: are they valid (B-20 to B-28), and what is their JSON?"""

import base64
import json

import cbor2

import wire

RECORD_MAX = 1_000_000  # bytes, B-28
MEMBERS_MAX = 131_072  # of a container
KEY_MAX = 8192  # bytes, B-24


class NoJson(Exception):
    """The record is valid, but jsonb cannot hold it; str() says why."""


def check(block):
    """The record in a block; wire.Malformed with the class of the fault."""
    if len(block) > RECORD_MAX:
        raise wire.Malformed("size")
    value = wire.decode(block)
    check_value(value)
    if not isinstance(value, dict) or "$type" not in value:
        raise wire.Malformed("type")
    return value


def check_value(value):
    if isinstance(value, float):
        raise wire.Malformed("float")
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise wire.Malformed("integer")
    if isinstance(value, (dict, list)) and len(value) > MEMBERS_MAX:
        raise wire.Malformed("size")
    if isinstance(value, list):
        for member in value:
            check_value(member)
    if isinstance(value, dict):
        for key, member in value.items():
            if len(key.encode()) > KEY_MAX:
                raise wire.Malformed("size")
            check_value(member)
        if "$type" in value and (type(value["$type"]) is not str or value["$type"] == ""):
            raise wire.Malformed("type")
        if value.get("$type") == "blob":
            check_blob(value)


def check_blob(value):
    ref = value.get("ref")
    mime = value.get("mimeType")
    size = value.get("size")
    if (
        not isinstance(ref, cbor2.CBORTag)
        or wire.cid(ref)[1] != 0x55
        or type(mime) is not str
        or mime == ""
        or type(size) is not int
        or size < 0
    ):
        raise wire.Malformed("blob")


def plain(value):
    """The value in JSON's own types: atproto's $link and $bytes."""
    if isinstance(value, cbor2.CBORTag):
        return {"$link": wire.cid_text(wire.cid(value))}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode().rstrip("=")}
    if isinstance(value, str) and "\0" in value:
        raise NoJson("nul in a text")
    if isinstance(value, list):
        return [plain(member) for member in value]
    if isinstance(value, dict):
        if any("\0" in key for key in value):
            raise NoJson("nul in a key")
        if "$link" in value or "$bytes" in value:
            raise NoJson("ambiguous map")
        return {key: plain(member) for key, member in value.items()}
    return value


def canonical(value):
    """One text for each JSON value: keys sorted, no spaces, characters as they are."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def json_text(value):
    return canonical(plain(value))


def canonical_of_text(text):
    """The same for JSON text from the database; a number with a fraction stays as written."""

    def fraction(number):
        return f"<not an integer: {number}>"

    return canonical(json.loads(text, parse_float=fraction, parse_constant=fraction))
