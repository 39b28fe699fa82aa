"""Pages that are broken on purpose, so that the check is known to find each of these faults."""

import base64
import hashlib
import html
import re


def styled(old, new):
    """Returns a function that changes the style, and allows the new one."""

    def breaks(record):
        changed = record.changed(old, new)
        return changed.changed(digest(record), digest(changed))

    return breaks


def digest(record):
    """Returns the digest of the style as a policy names it."""
    style = re.search(rb"<style>(.*?)</style>", record.response, re.DOTALL).group(1)
    return "sha256-" + base64.b64encode(hashlib.sha256(style).digest()).decode()


def texts_unescaped(record):
    """Writes the texts of a page into its markup as they are."""
    body = record.body.decode()
    unescaped = re.sub(r"(?<=>)([^<>]+)(?=</)", lambda text: html.unescape(text.group()), body)
    return record.changed(body, unescaped)


def with_line(line):
    """Returns a function that adds a line to a page."""
    return lambda record: record.changed("</main>", f"{line}\n</main>")


# The fault, with the page that has it, the function that breaks the page, and a part of what the check has to say.
BROKEN = {
    "an address that does not break": (
        "preview-of-much",
        styled("overflow-wrap:anywhere", "overflow-wrap:normal"),
        "pixels wide",
    ),
    "a page for wide windows only": ("not-found", styled("max-width:36rem", "min-width:36rem"), "pixels wide"),
    "no word about the width": (
        "not-found",
        lambda record: record.changed('<meta name="viewport" content="width=device-width, initial-scale=1">\n', ""),
        "is laid out for 980 pixels",
    ),
    "grey letters that are too light": (
        "preview",
        styled("--soft:#5b636b", "--soft:#8f979f"),
        "has the contrast 3.0 at: Leads to",
    ),
    "letters that are too small": ("preview", styled("font-size:.875rem", "font-size:.75rem"), "has letters of 12"),
    "no dark colors": ("ended", styled("prefers-color-scheme:dark", "prefers-color-scheme:no"), "is not dark"),
    "a style that the policy does not allow": (
        "ended",
        lambda record: record.changed("max-width:36rem", "max-width:35rem"),
        "Content Security Policy",
    ),
    "a script": (
        "unavailable",
        with_line("<script>document.title = 'run'</script>"),
        "Content Security Policy",
    ),
    "a picture of another server": (
        "unavailable",
        with_line('<img src="http://127.0.0.1:1/pixel">'),
        "fetches http://127.0.0.1:1/pixel",
    ),
    "a notice that is not escaped": ("legal", texts_unescaped, "has the element <b>"),
    "a destination that is not escaped": ("preview-of-much", texts_unescaped, "does not show: https://xn--bcher-kva"),
}
