"""Responses as files, and a server that sends them to a browser byte for byte."""

import contextlib
import re
import socketserver
import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Record:
    """A response, and the texts that a visitor must see."""

    name: str
    response: bytes
    texts: list

    @staticmethod
    def read(path):
        texts = path.with_suffix(".txt").read_text().splitlines()
        return Record(path.stem, path.read_bytes(), texts)

    @staticmethod
    def of_gateway(configuration, texts):
        """Returns the response that a configuration of nginx contains for browsers while the app cannot be reached."""
        place = r"location = /gateway-problem/page \{(.*?)return 200 '(.*?)';"
        found = re.search(place, configuration, re.DOTALL)
        if not found:
            raise RuntimeError("the gateway's configuration has no page: see problem.conf of the operator")
        directives, body = found.groups()
        kind = re.search(r'default_type "(.*?)";', directives).group(1)
        # Values with variables do not matter to a browser.
        fields = re.findall(r'add_header (\S+) "?([^$]*?)"? always;', directives)
        lines = ["HTTP/1.1 503 Service Unavailable", f"content-type: {kind}", "connection: close"]
        lines += [f"{name}: {value}" for name, value in fields]
        response = "\r\n".join(lines) + "\r\n\r\n" + body
        return Record("gateway", with_length(response.encode()), texts)

    @property
    def body(self):
        """The response without its head."""
        return self.response.partition(b"\r\n\r\n")[2]

    def changed(self, old, new):
        """Returns a copy with another text in its place, and with the length of the new body."""
        response = self.response.replace(old.encode(), new.encode())
        return Record(self.name, with_length(response), self.texts)


def with_length(response):
    """Returns a response whose `Content-Length` is that of its body."""
    head, _, body = response.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length:")]
    lines.append(b"content-length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Server(socketserver.ThreadingTCPServer):
    """A server on loopback of one response at a time."""

    daemon_threads = True

    def address(self, record):
        """Makes a record the response to every request; returns an address with its name."""
        self.response = record.response
        return f"http://127.0.0.1:{self.server_address[1]}/{record.name}"


class Handler(socketserver.BaseRequestHandler):
    """Answers one request."""

    def handle(self):
        received = b""
        while b"\r\n\r\n" not in received:
            more = self.request.recv(65536)
            if not more:
                return
            received += more
        self.request.sendall(self.server.response)


@contextlib.contextmanager
def serve():
    """Runs the server until the block ends."""
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
