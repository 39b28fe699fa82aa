"""A headless Chromium, driven by the DevTools protocol over a pipe."""

import base64
import json
import os
import select
import subprocess
import tempfile
import time

# The seconds after which a browser that has not answered has failed.
PATIENCE = 60
# A browser of a test fetches nothing of its own. Chromium refuses to start its sandbox as root.
FLAGS = ["--headless", "--disable-background-networking", "--disable-component-update", "--no-first-run"]
ROOT_FLAGS = ["--no-sandbox"]


class Browser:
    """A browser with one tab. Everything that the tab reports is in `events`, in the order in which it occurred."""

    def __init__(self, program):
        self.events = []
        self._number = 0
        self._session = None
        self._received = b""
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._log = open(os.path.join(self._folder.name, "log"), "w+b")
        flags = FLAGS + (ROOT_FLAGS if os.geteuid() == 0 else [])
        profile = os.path.join(self._folder.name, "profile")
        # The browser reads commands from the file descriptor 3 and writes to 4. The shell moves them there, because the
        # interpreter may use these numbers itself.
        moved = 'exec 3<&0 4>&1 </dev/null >&2; exec "$@"'
        self._process = subprocess.Popen(
            ["sh", "-c", moved, "sh", program, *flags, "--remote-debugging-pipe", f"--user-data-dir={profile}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            bufsize=0,
        )

    def __enter__(self):
        try:
            self.version = self.command("Browser.getVersion")["product"]
            target = self.command("Target.createTarget", url="about:blank")["targetId"]
            attached = self.command("Target.attachToTarget", targetId=target, flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.command(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # Without its pipe the browser ends by itself.
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()
        self._folder.cleanup()

    def command(self, method, **parameters):
        """Sends a command; returns its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\0")
        except BrokenPipeError:
            raise RuntimeError(f"the browser has ended before {method}: {self._last_words()}") from None
        end = time.monotonic() + PATIENCE
        while True:
            answer = self._next(end, method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"the browser refuses {method}: {answer['error']['message']}")
                return answer["result"]

    def evaluate(self, expression):
        """Returns the value of an expression in the page. The page's policy does not apply to it."""
        answer = self.command("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"an expression failed: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def open(self, address, width, height, scheme):
        """Opens an address in a window of this size, with the light or the dark colors that its user prefers."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            # A phone, which lays out a page without `viewport` as wide as a desktop's.
            mobile=width < 600,
        )
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        opened = self.command("Page.navigate", url=address)
        if "errorText" in opened:
            raise RuntimeError(f"{address} did not open: {opened['errorText']}")
        end = time.monotonic() + PATIENCE
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._next(end, f"loading {address}")

    def screenshot(self, width, height):
        """Returns a picture (PNG) of this part of the window, from its upper left corner."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        return base64.b64decode(self.command("Page.captureScreenshot", format="png", clip=clip)["data"])

    def _next(self, end, what):
        """Returns the next message, and remembers it if it is an event of the tab."""
        while b"\0" not in self._received:
            readable, _, _ = select.select([self._process.stdout], [], [], max(0, end - time.monotonic()))
            if not readable:
                raise RuntimeError(f"the browser has not ended this in {PATIENCE} s: {what}")
            received = os.read(self._process.stdout.fileno(), 1 << 20)
            if not received:
                raise RuntimeError(f"the browser has ended during {what}: {self._last_words()}")
            self._received += received
        message, _, self._received = self._received.partition(b"\0")
        message = json.loads(message)
        if "id" not in message and message.get("sessionId") == self._session:
            self.events.append(message)
        return message

    def _last_words(self):
        self._log.seek(0)
        return self._log.read()[-2000:].decode(errors="replace").strip()
