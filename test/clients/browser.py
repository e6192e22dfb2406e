#!/usr/bin/python3
"""A headless Chromium with one page, driven by lines of standard input.

    browser.py URL

    evaluate EXPRESSION    evaluates JavaScript in the page, and prints the value as a line of JSON
    picture FILE           writes a PNG of the page, and prints null

Ends with its standard input.  Needs python3-aiohttp, and chromium in PATH.
"""

import asyncio
import base64
import itertools
import json
import os
import subprocess
import sys
import tempfile

import aiohttp

# There is one trusted page, and a sandbox needs rights that a test need not have.
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
           "--disable-background-networking", "--remote-debugging-port=0", "--window-size=720,640", "--force-device-scale-factor=1"]


async def debugging_port(directory, browser):
    """Chromium writes the port into a file as soon as it listens."""
    path = os.path.join(directory, "DevToolsActivePort")
    while not (os.path.exists(path) and (lines := open(path).read().split())):
        if browser.poll() is not None:
            sys.exit(f"chromium ended with status {browser.returncode}")
        await asyncio.sleep(0.05)
    return lines[0]


async def drive(url, directory, browser):
    async with aiohttp.ClientSession() as session:
        root = f"http://127.0.0.1:{await debugging_port(directory, browser)}"
        async with session.get(f"{root}/json") as answer:
            (page,) = [p for p in await answer.json() if p["type"] == "page"]
        async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as ws:
            numbers = itertools.count(1)

            async def call(method, **params):
                number = next(numbers)
                await ws.send_json({"id": number, "method": method, "params": params})
                while (message := await ws.receive_json()).get("id") != number:
                    pass
                return message.get("result") or sys.exit(f"{method}: {message}")

            await call("Page.navigate", url=url)
            loop = asyncio.get_running_loop()
            while line := await loop.run_in_executor(None, sys.stdin.readline):
                what, _, argument = line.rstrip("\n").partition(" ")
                value = None
                if what == "picture":
                    picture = await call("Page.captureScreenshot", format="png")
                    with open(argument, "wb") as f:
                        f.write(base64.b64decode(picture["data"]))
                else:
                    value = (await call("Runtime.evaluate", expression=argument, returnByValue=True))["result"].get("value")
                print(json.dumps(value), flush=True)


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        command = ["chromium", *OPTIONS, f"--user-data-dir={directory}", "about:blank"]
        browser = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**os.environ, "HOME": directory})
        try:
            asyncio.run(drive(sys.argv[1], directory, browser))
        finally:
            browser.terminate()
            browser.wait()


if __name__ == "__main__":
    main()
