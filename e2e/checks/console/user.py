"""A person in front of the console: finds what is on the page by the words that are shown, and uses mouse and keyboard."""

import json
import time

# The seconds after which something that should be on the page is missing.
PATIENCE = 30
# What the functions below have in common: elements that are shown, the newest dialog first.
FIND = """
const shown = (element) => element.checkVisibility() && element.getClientRects().length > 0;
const scope = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document;
const named = (selector, name) => [...scope.querySelectorAll(selector)].filter(shown).find(
  (element) => (element.getAttribute("aria-label") ?? element.textContent).trim() === name);
const field = (label) => {
  const found = named("label", label);
  return found ? found.control ?? document.getElementById(found.htmlFor) : named("select[aria-label]", label);
};
"""


class Missing(AssertionError):
    """Something is not on the page."""


class User:
    def __init__(self, browser, base):
        self._browser = browser
        self._base = base

    def opens(self, path, width=1280, height=900, scheme="light"):
        """Opens a path as in a tab that was just opened."""
        self._browser.open(f"{self._base}{path}", width, height, scheme)

    def goes_to(self, hash):
        """Follows a link within the console."""
        self._evaluate(f"location.hash = {json.dumps(hash)}")

    def sees(self, *texts):
        """Waits until the page shows each of the texts."""
        for text in texts:
            self._until(f"scope.innerText?.includes({json.dumps(text)}) ?? document.body?.innerText.includes({json.dumps(text)})", f"the text: {text}")

    def sees_no(self, text):
        """Waits until the page does not show the text."""
        self._until(f"document.body && !document.body.innerText.includes({json.dumps(text)})", f"a page without the text: {text}")

    def presses(self, name):
        """Presses the button or the link of this name."""
        self._clicks(f"named('button, a, summary', {json.dumps(name)})", f"the button: {name}")

    def ticks(self, label):
        """Changes a check box."""
        self._clicks(f"named('label', {json.dumps(label)}) ?? named('input', {json.dumps(label)})", f"the check box: {label}")

    def fills(self, label, text):
        """Writes into a field in place of what it has."""
        self._until(f"(field({json.dumps(label)})?.focus(), field({json.dumps(label)})?.select?.(), document.activeElement === field({json.dumps(label)}))", f"the field: {label}")
        if text:
            self._browser.command("Input.insertText", text=text)
        else:
            self.types("Delete")

    def sets(self, label, value):
        """Gives a field a value that is not typed: of a list, or a date."""
        self._until(f"field({json.dumps(label)})", f"the field: {label}")
        self._evaluate(
            f"(() => {{ {FIND} const it = field({json.dumps(label)}); it.value = {json.dumps(value)};"
            "it.dispatchEvent(new Event('input', {bubbles: true})); it.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def chooses_file(self, label, path, place=0):
        """Chooses a file for a field; `place` is that of the field among those of its label."""
        self._until(f"document.querySelectorAll('input[type=file]')[{place}]", f"the field: {label}")
        document = self._browser.command("DOM.getDocument")["root"]["nodeId"]
        nodes = self._browser.command("DOM.querySelectorAll", nodeId=document, selector="input[type=file]")["nodeIds"]
        self._browser.command("DOM.setFileInputFiles", nodeId=nodes[place], files=[str(path)])

    def types(self, *keys):
        """Presses keys of the keyboard."""
        for key in keys:
            text = {"Enter": "\r", "Space": " "}.get(key)
            name = " " if key == "Space" else key
            code = {"Tab": 9, "Enter": 13, "Space": 32, "Escape": 27, "Delete": 46}[key]
            event = {"key": name, "code": key, "windowsVirtualKeyCode": code}
            self._browser.command("Input.dispatchKeyEvent", type="keyDown", **event, **({"text": text} if text else {}))
            self._browser.command("Input.dispatchKeyEvent", type="keyUp", **event)

    def focused(self):
        """Returns the name of the element that has the focus."""
        return self._evaluate(
            "(() => { const it = document.activeElement; return it.getAttribute('aria-label') ?? it.labels?.[0]?.textContent ?? it.textContent; })()"
        ).strip()

    def value(self, expression):
        """Returns the value of an expression."""
        return self._evaluate(expression)

    def errors(self):
        """Returns what the browser has reported since the page was opened, except for answers of the service that are errors."""
        for event in self._browser.events:
            parameters = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                yield parameters["exceptionDetails"].get("exception", {}).get("description", "an exception")
            elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
                yield json.dumps(parameters["args"])
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["source"] != "network":
                yield parameters["entry"]["text"]

    def _clicks(self, element, what):
        # A place that moves while the page is drawn is looked for again.
        middle = (
            f"(() => {{ {FIND} const it = {element}; if (!it || it.disabled) return null; it.scrollIntoView({{block: 'center', behavior: 'instant'}});"
            "const box = it.getBoundingClientRect(); const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];"
            "const top = document.elementFromPoint(x, y); return top && (it.contains(top) || top.contains(it)) ? [x, y] : null; })()"
        )
        x, y = self._until_value(middle, what)
        for kind in ("mousePressed", "mouseReleased"):
            self._browser.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _until(self, condition, what):
        self._until_value(f"(() => {{ {FIND} return Boolean({condition}); }})()", what)

    def _until_value(self, expression, what):
        end = time.monotonic() + PATIENCE
        while not (value := self._evaluate(expression)):
            if time.monotonic() > end:
                raise Missing(f"after {PATIENCE} s there is not {what}\n--- the page:\n{self._evaluate('document.body.innerText')}")
            time.sleep(0.05)
        return value

    def _evaluate(self, expression):
        return self._browser.evaluate(expression)
