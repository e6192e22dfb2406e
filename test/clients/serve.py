#!/usr/bin/python3
"""Runs a web server of examples/ for a test, on a free port.

    serve.py PORT_FILE PROGRAM

The program finds its port in the environment (PORT).  PORT_FILE is written when the server answers.  The server ends with
its standard input, so that no server outlives its test.
"""

import os
import runpy
import socket
import sys
import threading
import time


def end_with_input():
    while os.read(0, 1):        # not sys.stdin, whose lock would outlive the program
        pass
    os._exit(0)


def tell_when_it_answers(port, path):
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionError:
            time.sleep(0.02)
    with open(path + ".new", "w") as f:
        f.write(str(port))
    os.rename(path + ".new", path)


def main():
    port_file, program = sys.argv[1:]
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    os.environ["PORT"] = str(port)
    for function, arguments in ((end_with_input, ()), (tell_when_it_answers, (port, port_file))):
        threading.Thread(target=function, args=arguments, daemon=True).start()
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
