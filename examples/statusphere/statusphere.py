#!/usr/bin/python3
"""Statusphere's web server: a page that changes by itself.  DATABASE_URL=postgresql:///mydb python3 statusphere.py"""

import asyncio
import contextlib
import os
import pathlib

import psycopg
from aiohttp import web

DATABASE = os.environ.get("DATABASE_URL", "")
page = "[]"
browsers = set()                # a queue for each: None, when the page has changed


async def follow(changed):
    """Sends the page to the browsers when it has changed; looks every two seconds, too, because handles come later."""
    global page
    async with await psycopg.AsyncConnection.connect(DATABASE, autocommit=True) as db:
        while True:
            changed.clear()
            (now,) = await (await db.execute("SELECT statusphere.page()::text")).fetchone()
            if now != page:
                page = now
                for queue in filter(asyncio.Queue.empty, browsers):     # nothing piles up for a browser that does not read
                    queue.put_nowait(None)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(changed.wait(), 2)


async def listen(changed):
    async with await psycopg.AsyncConnection.connect(DATABASE, autocommit=True) as db:
        await db.execute("LISTEN statusphere")
        async for _ in db.notifies():
            changed.set()


async def keep(task, *arguments):
    while True:
        try:
            await task(*arguments)
        except psycopg.Error as error:      # the database restarts, say
            print(error, flush=True)
        await asyncio.sleep(1)


async def background(app):
    changed = asyncio.Event()
    tasks = [asyncio.create_task(keep(task, changed)) for task in (listen, follow)]
    yield
    for task in tasks:
        task.cancel()


async def events(request):
    """Server-sent events: the page at once, and after each change."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    browsers.add(queue := asyncio.Queue())
    line = f"data: {page}\n\n"
    try:
        while True:
            await response.write(line.encode())
            line = ": nothing new\n\n"          # without a line now and then, proxies end the connection
            with contextlib.suppress(asyncio.TimeoutError):
                line = f"data: {await asyncio.wait_for(queue.get(), 20) or page}\n\n"
    except ConnectionError:                     # the browser is gone
        return response
    finally:
        browsers.discard(queue)


async def index(request):
    return web.FileResponse(pathlib.Path(__file__).with_name("index.html"))


app = web.Application()
app.cleanup_ctx.append(background)
app.add_routes([web.get("/", index), web.get("/events", events)])
web.run_app(app, host=os.environ.get("HOST", "127.0.0.1"), port=int(os.environ.get("PORT", 8080)), shutdown_timeout=1)
