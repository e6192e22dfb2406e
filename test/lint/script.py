#!/usr/bin/env python3
"""Reads the install script, or one of an update, and tells what is unsafe or missing.

    script.py FILE      the script, put together (or - for standard input)

What it wants, and why:
  - CREATE only.  OR REPLACE and IF NOT EXISTS take over what somebody else made.
  - A COMMENT on each object.
  - Expressions that are kept in the catalogue or run at once (tables, views,
    policies, indexes) are parsed while only pg_catalog is searched.  Otherwise an
    operator that fits better, in the schema of the extension, would be taken.
  - Functions in SQL and PL/pgSQL have a body that was parsed at creation, or a
    search_path of their own.
  - SECURITY DEFINER functions and DO blocks name the schemas of all functions
    and operators that they use.
  - In the schemas atproto and atproto_internal: every table has row security, and
    what is not IMMUTABLE is revoked from PUBLIC, but for OPEN.
"""
import re
import sys

TOKEN = re.compile(r"""
    (?P<skip>   --[^\n]* | /\*.*?\*/ | ^\\[^\n]*$ )
  | (?P<string> '(?:[^']|'')*' )
  | (?P<body>   \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ )
  | (?P<end>    ; )
  | (?P<other>  [^-'$;/\\]+ | . )
""", re.X | re.S | re.M)
# In views that other roles read; and what reads only what everybody may.
OPEN = ("atproto_internal.rate_now", "atproto_internal.repo_states", "atproto_internal.stream_status", "atproto_internal.consumer_pid",
        "atproto_internal.fetcher_status", "atproto.lexicon_valid",
        "atproto.aturi_from_web")
ATOMIC = re.compile(r"\bBEGIN\s+ATOMIC\b", re.I)
PINNED = "SET LOCAL search_path = pg_catalog, pg_temp"
CALL = re.compile(r"(?<![\w.])(?!(?:if|and|or|not|in|values|operator|exists|coalesce|case|when|row)\b)[a-z_]\w*\s*\(", re.I)
OPERATOR = re.compile(r"[-+*/<>=~!@#%^&|?]+")


def statements(script):
    """The statements, without comments, white space folded; bodies kept apart."""
    text, bodies = "", []
    for token in TOKEN.finditer(script):
        kind = token.lastgroup if token.lastgroup != "tag" else "body"
        if kind == "skip":
            text += " "
        elif kind == "body":
            bodies.append(token.group())
            text += token.group()
        elif kind == "end" and not (ATOMIC.search(text) and not re.search(r"\bEND\s*$", text)):
            if text.strip():
                yield re.sub(r"\s+", " ", text).strip(), bodies
            text, bodies = "", []
        else:
            text += token.group()
    if text.strip():
        yield re.sub(r"\s+", " ", text).strip(), bodies


def arguments(text):
    """The types of a function's arguments: no names, defaults, OUT."""
    depth, parts, part = 0, [], ""
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    types = []
    for part in parts + [part] if text.strip() else []:
        part = re.sub(r"\s+DEFAULT\b.*", "", part.strip(), flags=re.I)
        if re.match(r"OUT\b", part, re.I):
            continue
        types.append(re.search(r"(double precision|\S+)$", part, re.I).group(1))
    return ", ".join(types)


def in_parentheses(text, start):
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return text[start + 1:i]
    return text[start + 1:]


def created(statement):
    """What a statement makes, as COMMENT ON calls it; None if it makes nothing."""
    m = re.match(r"CREATE (?:FUNCTION|AGGREGATE) ([\w.@]+) ?\(", statement)
    if m:
        kind = statement.split()[1]
        return "%s %s(%s)" % (kind, m.group(1), arguments(in_parentheses(statement, m.end() - 1)))
    m = re.match(r"CREATE OPERATOR CLASS (\S+) .*? USING (\w+)", statement)
    if m:
        return "OPERATOR CLASS %s USING %s" % m.groups()
    m = re.match(r"CREATE OPERATOR (\S+) \(", statement)
    if m:
        left = re.search(r"LEFTARG = ([\w.]+)", statement)
        right = re.search(r"RIGHTARG = ([\w.]+)", statement)
        return "OPERATOR %s (%s, %s)" % (m.group(1), left.group(1) if left else "NONE", right.group(1))
    m = re.match(r"CREATE CAST (\([^)]*\))", statement)
    if m:
        return "CAST " + m.group(1)
    m = re.match(r"CREATE TYPE (\S+)( \(| AS)", statement)
    if m:
        return "TYPE " + m.group(1)
    m = re.match(r"CREATE (TABLE|VIEW|SCHEMA|SEQUENCE|MATERIALIZED VIEW) (\S+)", statement)
    if m:
        return "%s %s" % m.groups()
    return None


def without_ddl(body):
    """What of a DO block computes something."""
    body = re.sub(r"\$\w*\$", " ", body)
    body = re.sub(r"\b(CREATE|COMMENT|ALTER) [^;]*;", " ", re.sub(r"\s+", " ", body))
    body = re.sub(r"'(?:[^']|'')*'", "''", body)
    return re.sub(r"OPERATOR ?\(pg_catalog\.[^)]*\)|::|:=", " ", body, flags=re.I)


def faults(script):
    all_statements = list(statements(script))
    comments = {re.match(r"COMMENT ON (.*?) IS ", s).group(1)
                for s, _ in all_statements if s.startswith("COMMENT ON ")}
    for s, bodies in all_statements:        # objects made inside DO blocks have theirs there
        for body in bodies:
            comments |= set(re.findall(r"COMMENT ON (.*?) IS ", re.sub(r"\s+", " ", body)))
    secured = {s.split()[2] for s, _ in all_statements if s.endswith("ENABLE ROW LEVEL SECURITY")}
    revoked = " ".join(s for s, _ in all_statements if s.startswith("REVOKE ALL ON FUNCTION"))
    pinned = False

    for s, bodies in all_statements:
        shown = s if len(s) < 100 else s[:97] + "..."
        code = re.sub(r"'(?:[^']|'')*'", "''", s)
        for body in bodies:
            code = code.replace(re.sub(r"\s+", " ", body), "")
        if s.startswith("SET LOCAL search_path"):
            pinned = s == PINNED
        if re.search(r"\bOR REPLACE\b|\bIF NOT EXISTS\b", code):
            yield "takes over what is there: " + shown
        if re.match(r"CREATE (TABLE|VIEW|POLICY|(UNIQUE )?INDEX|MATERIALIZED VIEW)\b", s) and not pinned:
            yield "parsed with a search_path that others may write to: " + shown

        name = created(s)
        if name is not None and name not in comments:
            yield "no COMMENT ON " + name
        if name is not None and re.match(r"TABLE atproto(_internal)?\.", name) and name.split()[1] not in secured:
            yield "no row security: " + name

        if s.startswith("CREATE FUNCTION"):
            own_path = re.search(r"\bSET search_path\b", code)
            language = re.search(r"\bLANGUAGE '?(\w+)", s, re.I)
            language = language.group(1).lower() if language else "sql"
            if language == "sql" and not (own_path or ATOMIC.search(code) or re.search(r"\bRETURN\b", code)):
                yield "neither a parsed body nor a search_path: " + shown
            if language not in ("sql", "c", "internal") and not own_path:
                yield "no search_path of its own: " + shown
            if re.search(r"\bSECURITY DEFINER\b", code):
                if not own_path:
                    yield "SECURITY DEFINER without a search_path: " + shown
                bodies = bodies or [code[code.find("BEGIN ATOMIC"):]]
                if any(CALL.search(without_ddl(b)) or OPERATOR.search(without_ddl(b)) for b in bodies):
                    yield "SECURITY DEFINER with a function or operator whose schema is not named: " + shown
            if re.match(r"CREATE FUNCTION atproto(_internal)?\.", s) and not re.search(r"\bIMMUTABLE\b", code) \
                    and re.match(r"CREATE FUNCTION ([\w.]+)", s).group(1) + "(" not in revoked \
                    and re.match(r"CREATE FUNCTION ([\w.]+)", s).group(1) not in OPEN:
                yield "not revoked from PUBLIC: " + shown
        if s.startswith("DO "):
            for body in bodies:
                bad = CALL.search(without_ddl(body)) or OPERATOR.search(without_ddl(body))
                if bad:
                    yield "DO block uses %r without a schema: %s" % (bad.group(), shown)


def main():
    script = sys.stdin.read() if sys.argv[1] == "-" else open(sys.argv[1], encoding="utf-8").read()
    found = list(faults(script))
    for fault in found:
        print("%s: %s" % ("install script" if sys.argv[1] == "-" else sys.argv[1], fault))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
