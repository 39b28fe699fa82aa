"""Looks at recorded pages in a headless Chromium.

A record is a response as the app sent it (`<name>.http`), and the texts that a visitor must see, one a line
(`<name>.txt`). Each is opened as wide as a phone and as a desktop, light and dark. Then copies of them are opened that
are broken on purpose: every fault has to be found.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import picture
from broken import BROKEN
from browser import Browser
from records import Record, serve

SIZES = [(390, 844), (1280, 800)]
SCHEMES = ["light", "dark"]
# WCAG 2.2, success criterion 1.4.3, for text of every size.
CONTRAST = 4.5
# CSS pixels.
SMALLEST = 14
# Everything that a page consists of. What else appears in it was markup in a text.
ELEMENTS = {
    *("html lang", "head", "meta charset", "meta name content", "title", "style"),
    *("body", "main", "h1", "p", "dl", "dt", "dd", "a rel href"),
}
FACTS = (Path(__file__).parent / "facts.js").read_text()


def luminance(color):
    """Returns the relative luminance of a color as WCAG defines it, or `None` if something shines through."""
    parts = re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", color or "")
    if not parts:
        return None
    linear = [int(part) / 255 for part in parts.groups()]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in linear]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """Returns the contrast of two colors, from 1 to 21, or 0 if something shines through one of them."""
    found = [luminance(one), luminance(other)]
    if None in found:
        return 0
    return (max(found) + 0.05) / (min(found) + 0.05)


def messages(events, address):
    """Returns what the page has written to the console, itself or by the browser."""
    for event in events:
        parameters = event["params"]
        if event["method"] == "Runtime.consoleAPICalled":
            yield json.dumps(parameters["args"])
        elif event["method"] == "Runtime.exceptionThrown":
            yield parameters["exceptionDetails"]["text"]
        elif event["method"] == "Log.entryAdded":
            entry = parameters["entry"]
            # That the page's own status is an error is its purpose.
            if not (entry["source"] == "network" and entry.get("url") == address):
                yield entry["text"]


def faults(record, facts, events, width, scheme, address):
    """Returns everything that is wrong with a page as a browser shows it."""
    if facts["window"] != width:
        yield f"is laid out for {facts['window']} pixels and not for {width}"
    if facts["width"] > width:
        yield f"is {facts['width']} pixels wide"
    for message in messages(events, address):
        yield f"has a message in the console: {message}"
    requests = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    for request in requests:
        if request != address:
            yield f"fetches {request}"
    for element in sorted(set(facts["elements"]) - ELEMENTS):
        yield f"has the element <{element}>"
    for text in record.texts:
        if text not in facts["shown"]:
            yield f"does not show: {text}"
    paper = luminance(facts["paper"])
    if paper is None or (paper > 0.5) != (scheme == "light"):
        yield f"is not {scheme}: its background is {facts['paper']}"
    for text in facts["texts"]:
        found = contrast(text["color"], text["ground"])
        if found < CONTRAST or text["opacity"] < 1:
            yield f"has the contrast {found:.1f} at: {text['text']}"
        if text["size"] < SMALLEST:
            yield f"has letters of {text['size']} pixels at: {text['text']}"


def views(browser, server, record):
    """Opens a record in every way; yields the size, the colors and what is wrong."""
    for width, height in SIZES:
        for scheme in SCHEMES:
            address = server.address(record)
            browser.open(address, width, height, scheme)
            # What the page does before this answer is among the events.
            facts = browser.evaluate(FACTS)
            found = list(faults(record, facts, browser.events, width, scheme, address))
            yield width, height, scheme, found


def look(browser, server, records, pictures):
    """Takes a picture of every page in every way; returns the number of faults."""
    wrong = 0
    for record in records:
        for width, height, scheme, found in views(browser, server, record):
            shown = browser.screenshot(width, height)
            (pictures / f"{record.name}-{scheme}-{width}.png").write_bytes(shown)
            for fault in found:
                print(f"error: the page {record.name} ({scheme}, {width} pixels) {fault}", file=sys.stderr)
            wrong += len(found)
    return wrong


def prove(browser, server, records):
    """Opens the broken copies; returns the number of faults that were not found."""
    missed = 0
    for name, (of, breaks, expected) in BROKEN.items():
        broken = breaks(records[of])
        if broken.body == records[of].body:
            raise RuntimeError(f"the page {of} has nothing to be broken: {name}")
        complaints = [fault for *_, found in views(browser, server, broken) for fault in found]
        if not any(expected in complaint for complaint in complaints):
            print(f"error: the check does not find in {of}: {name}, only {complaints}", file=sys.stderr)
            missed += 1
    return missed


def documented(browser, server, record, path, is_written):
    """Compares the picture in the documents with the page that it shows, or writes it; returns the number of faults."""
    if is_written:
        width, height = SIZES[0]
        browser.open(server.address(record), width, height, SCHEMES[0])
        end = browser.evaluate("document.querySelector('main').getBoundingClientRect().bottom")
        shown = browser.screenshot(width, int(end))
        path.write_bytes(picture.marked(shown, record.body))
    if picture.is_of(path.read_bytes(), record.body):
        return 0
    print(f"error: {path} shows another page than the app: run e2e/checks/pages.sh --write", file=sys.stderr)
    return 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--browser", required=True, help="the program")
    parser.add_argument("--records", required=True, type=Path, help="the folder of the records")
    parser.add_argument("--gateway", required=True, type=Path, help="a configuration of the gateway's nginx")
    parser.add_argument("--pictures", required=True, type=Path, help="the folder for pictures of every page")
    parser.add_argument("--document", required=True, type=Path, help="the picture in the documents")
    parser.add_argument("--write", action="store_true", help="write the picture in the documents")
    return parser.parse_args()


def main():
    given = arguments()
    records = {path.stem: Record.read(path) for path in sorted(given.records.glob("*.http"))}
    if not records:
        raise RuntimeError(f"there are no records in {given.records}: see e2e/checks/pages.sh")
    # The gateway shows the app's page in its place.
    records["gateway"] = Record.of_gateway(given.gateway.read_text(), records["unavailable"].texts)
    with serve() as server, Browser(given.browser) as browser:
        wrong = look(browser, server, records.values(), given.pictures)
        wrong += prove(browser, server, records)
        wrong += documented(browser, server, records["preview"], given.document, given.write)
        ways = len(SIZES) * len(SCHEMES)
        print(f"{browser.version}: {len(records)} pages in {ways} ways each, and {len(BROKEN)} broken ones")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(f"error: {error}")
