#!/usr/bin/python3
"""A feed generator: Bluesky asks this web server which posts are in a feed.

    FEED_HOST=feeds.example.org FEED_PUBLISHER=did:plc:... DATABASE_URL=postgresql:///mydb python3 feed.py

Behind a web server with TLS for FEED_HOST.  FEED_PUBLISHER is the account that announces the feeds: for each of them, the
record at://FEED_PUBLISHER/app.bsky.feed.generator/NAME names did:web:FEED_HOST.
"""

import os

import psycopg
from aiohttp import web
from psycopg_pool import AsyncConnectionPool

HOST = os.environ["FEED_HOST"]
PUBLISHER = os.environ["FEED_PUBLISHER"]
FEEDS = f"at://{PUBLISHER}/app.bsky.feed.generator/"

pool = AsyncConnectionPool(os.environ.get("DATABASE_URL", ""), open=False, kwargs={"autocommit": True})
routes = web.RouteTableDef()


def refused(error, message):
    return web.json_response({"error": error, "message": message}, status=400)


async def rows(sql, *parameters, again=True):
    try:
        async with pool.connection() as db:
            return [row[0] async for row in await db.execute(sql, parameters)]
    except psycopg.OperationalError:        # the database was restarted: the pool needs other connections
        if not again:
            raise
        await pool.check()
        return await rows(sql, *parameters, again=False)


async def feeds():
    return await rows("SELECT DISTINCT feed FROM feed.topic ORDER BY feed")


@routes.get("/.well-known/did.json")
async def document(request):
    """did:web:FEED_HOST, the identity of this server."""
    service = {"id": "#bsky_fg", "type": "BskyFeedGenerator", "serviceEndpoint": f"https://{HOST}"}
    return web.json_response({"@context": ["https://www.w3.org/ns/did/v1"], "id": f"did:web:{HOST}", "service": [service]})


@routes.get("/xrpc/app.bsky.feed.describeFeedGenerator")
async def describe(request):
    return web.json_response({"did": f"did:web:{HOST}", "feeds": [{"uri": FEEDS + name} for name in await feeds()]})


@routes.get("/xrpc/app.bsky.feed.getFeedSkeleton")
async def skeleton(request):
    feed = request.query.get("feed", "")
    limit = request.query.get("limit", "50")
    cursor = request.query.get("cursor")
    if feed not in [FEEDS + name for name in await feeds()]:
        return refused("UnknownFeed", "this server has no such feed")
    if not (limit.isdecimal() and len(limit) <= 3 and 1 <= int(limit) <= 100):
        return refused("InvalidRequest", "limit must be a number from 1 to 100")
    try:
        posts = await rows("SELECT post FROM feed.skeleton(%s, %s, %s)", feed.removeprefix(FEEDS), cursor, int(limit))
    except psycopg.DataError:
        return refused("InvalidRequest", "cursor is none of this server")
    page = {"feed": [{"post": uri} for uri in posts]}
    if posts:
        page["cursor"] = posts[-1]
    return web.json_response(page)


async def database(app):
    async with pool:
        yield


app = web.Application()
app.cleanup_ctx.append(database)
app.add_routes(routes)

if __name__ == "__main__":
    web.run_app(app, host=os.environ.get("HOST", "127.0.0.1"), port=int(os.environ.get("PORT", 8080)))
