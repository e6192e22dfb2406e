#!/usr/bin/python3
"""A feed generator: Bluesky asks this web server which posts are in a feed.

    FEED_HOST=feeds.example.org FEED_PUBLISHER=did:plc:... DATABASE_URL=postgresql:///mydb python3 feed.py

Behind a web server with TLS for FEED_HOST.  FEED_PUBLISHER is the account that announces the feeds: for each of them, the
record at://FEED_PUBLISHER/app.bsky.feed.generator/NAME names did:web:FEED_HOST.
"""

import os

import psycopg
from aiohttp import web

HOST = os.environ["FEED_HOST"]
PUBLISHER = os.environ["FEED_PUBLISHER"]
FEEDS = f"at://{PUBLISHER}/app.bsky.feed.generator/"

routes = web.RouteTableDef()


def refused(error, message):
    return web.json_response({"error": error, "message": message}, status=400)


async def rows(request, sql, *parameters):
    async with await psycopg.AsyncConnection.connect(os.environ.get("DATABASE_URL", ""), autocommit=True) as db:
        return [row[0] async for row in await db.execute(sql, parameters)]


async def feeds(request):
    return await rows(request, "SELECT DISTINCT feed FROM feed.topic ORDER BY feed")


@routes.get("/.well-known/did.json")
async def document(request):
    """did:web:FEED_HOST, the identity of this server."""
    service = {"id": "#bsky_fg", "type": "BskyFeedGenerator", "serviceEndpoint": f"https://{HOST}"}
    return web.json_response({"@context": ["https://www.w3.org/ns/did/v1"], "id": f"did:web:{HOST}", "service": [service]})


@routes.get("/xrpc/app.bsky.feed.describeFeedGenerator")
async def describe(request):
    return web.json_response({"did": f"did:web:{HOST}", "feeds": [{"uri": FEEDS + name} for name in await feeds(request)]})


@routes.get("/xrpc/app.bsky.feed.getFeedSkeleton")
async def skeleton(request):
    name = request.query.get("feed", "").removeprefix(FEEDS)
    limit = request.query.get("limit", "50")
    cursor = request.query.get("cursor")
    if name not in await feeds(request):
        return refused("UnknownFeed", "this server has no such feed")
    if not (limit.isdecimal() and 1 <= int(limit) <= 100):
        return refused("InvalidRequest", "limit must be a number from 1 to 100")
    try:
        posts = await rows(request, "SELECT post FROM feed.skeleton(%s, %s, %s)", name, cursor, int(limit))
    except psycopg.errors.InvalidTextRepresentation:
        return refused("InvalidRequest", "cursor is none of this server")
    page = {"feed": [{"post": uri} for uri in posts]}
    if posts:
        page["cursor"] = posts[-1]
    return web.json_response(page)


app = web.Application()
app.add_routes(routes)

if __name__ == "__main__":
    web.run_app(app, host=os.environ.get("HOST", "127.0.0.1"), port=int(os.environ.get("PORT", 8080)))
