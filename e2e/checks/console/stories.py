"""What people do in the console, in a headless Chromium, against the app, a worker and the stores of `make dev`."""

import argparse
import json
import sys
import tempfile
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "pages"))
from browser import Browser  # noqa: E402
from keys import KEYS, PROXY_SECRET  # noqa: E402
from user import User  # noqa: E402

WIDTHS = [(390, 844), (820, 1180), (1440, 900)]
SCHEMES = ["light", "dark"]
# The seconds for the service to follow a change.
PATIENCE = 180


class World:
    def __init__(self, browser, base, keys, axe):
        self.browser = browser
        self.base = base
        self.keys = keys
        self._axe = axe
        self.user = User(browser, base)

    def request(self, method, path, body=None, key="boss", media_type="application/json"):
        """Sends a request to the service; returns the status and the body. A body is an object, or text of another media type."""
        headers = {"authorization": f"Bearer {KEYS[key][0]}", "content-type": media_type}
        request = urllib.request.Request(f"{self.base}{path}", method=method, headers=headers)
        if body is not None:
            request.data = (body if isinstance(body, str) else json.dumps(body)).encode()
        try:
            with OPENER.open(request, timeout=30) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def create(self, code, key="boss", **fields):
        status, body = self.request("POST", "/api/admin/links", {"links": [{"url": "https://example.com/", "code": code, **fields}]}, key)
        assert status == 200 and json.loads(body)["results"][0]["status"] == 201, body

    def follow(self, code):
        return self.request("GET", f"/{code}")[0]

    def has_no_barrier(self, where):
        """Lets axe-core look at what is shown."""
        self.browser.evaluate(self._axe)
        expression = "axe.run().then((found) => JSON.stringify(found.violations))"
        answer = self.browser.command("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        violations = json.loads(answer["result"]["value"])
        found = [f"{it['id']} ({it['impact']}): {it['nodes'][0]['html'][:200]} {it['nodes'][0]['failureSummary']}" for it in violations]
        assert not found, f"{where}: " + "\n".join(found)

    def opens_console(self, **window):
        """Opens the console as in a new tab."""
        self.user.opens("/console", **window)
        self.user.value("sessionStorage.clear()")
        self.user.opens("/console", **window)

    def passes_a_proxy(self, person=None, groups=""):
        """Lets the browser send what a proxy adds to the requests of a person whom it has signed in, or nothing."""
        headers = {"x-auth-proxy-secret": PROXY_SECRET, "x-auth-request-user": person, "x-auth-request-groups": groups}
        self.browser.command("Network.enable")
        self.browser.command("Network.setExtraHTTPHeaders", headers=headers if person else {})

    def signs_in(self, name="boss", **window):
        self.opens_console(**window)
        self.user.fills("Key", KEYS[name][0])
        self.user.presses("Sign in")
        self.user.sees("Sign out")


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


OPENER = urllib.request.build_opener(NoRedirect)


def until(condition, what):
    """Waits until the service has done something."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, f"after {PATIENCE} s: {what}"
        time.sleep(0.2)
    return value


def a_wrong_key_is_refused_and_a_right_one_is_forgotten_with_the_tab(world):
    user = world.user
    world.opens_console()
    user.fills("Key", "not-a-key-of-this-service-0123456789")
    user.presses("Sign in")
    user.sees("The service does not accept this key.")
    world.has_no_barrier("a refused key")
    user.fills("Key", KEYS["shop"][0])
    user.presses("Sign in")
    user.sees("This key may not manage links")
    user.fills("Key", KEYS["boss"][0])
    user.presses("Sign in")
    user.sees("Sign out", "boss")
    user.opens("/console")
    user.sees("boss")
    assert user.value("document.cookie + JSON.stringify(localStorage)") == "{}"
    user.presses("Sign out")
    user.sees("You have signed out.")
    assert user.value("sessionStorage.length") == 0


def a_link_is_created_and_followed(world):
    user = world.user
    world.signs_in()
    user.fills("Destination", "https://example.com/spring?x=1")
    user.fills("Code", "spring")
    user.presses("Expiry, title, tags and more")
    user.fills("Title", "Spring <b>sale</b>")
    user.fills("Tags", "Shop, spring")
    # Noon in New York.
    user.sets("Expires", "2028-01-01T12:00")
    user.presses("Shorten")
    user.sees("/spring", "Spring <b>sale</b>")
    assert world.follow("spring") == 302
    link = json.loads(world.request("GET", "/api/admin/links/spring")[1])
    assert link["tags"] == ["shop", "spring"] and link["expires_at"] == "2028-01-01T17:00:00Z" and link["created_by"] == "boss", link
    user.fills("Destination", "https://example.com/other")
    user.fills("Code", "spring")
    user.presses("Shorten")
    user.sees("Code is taken by another link.")
    user.fills("Code", "")
    user.fills("Destination", f"{world.base}/loop")
    user.presses("Shorten")
    user.sees("Check the marked fields.")
    world.has_no_barrier("an invalid field")


def a_link_is_found_by_code_tag_title_and_host(world):
    user = world.user
    for place, code in enumerate(["find-a", "find-b", "find-c"]):
        world.create(code, url=f"https://host{place}.example/", title=f"Needle {code[-1]}", tags=["needle", code])
    world.signs_in()
    for by, text, found, missing in [
        ("code", "find-", "find-c", "spring"),
        ("tag", "find-b", "find-b", "find-a"),
        ("title", "needle", "find-a", "spring"),
        ("host", "host2.example", "find-c", "find-a"),
    ]:
        user.goes_to("#/links")
        user.sets("Search by", by)
        user.fills("Text", text)
        user.presses("Search")
        user.sees(found)
        user.sees_no(missing)
    user.fills("Text", "nowhere.example")
    user.presses("Search")
    user.sees("No link matches.")
    user.value("history.back()")
    user.sees("find-c")


def a_link_is_disabled_while_it_is_followed_and_comes_back(world):
    user = world.user
    world.create("busy")
    assert world.follow("busy") == 302
    world.signs_in()
    user.goes_to("#/links/busy")
    user.presses("Disable")
    user.fills("Reason", "phishing")
    user.ticks("For legal reasons")
    user.fills("Notice", "Order 17")
    user.types("Enter")
    user.sees("disabled for legal reasons", "Reason: phishing", "Notice: Order 17")
    assert world.follow("busy") == 451
    user.presses("Enable")
    user.fills("Reason", "an error")
    user.types("Enter")
    user.sees("Live")
    assert world.follow("busy") == 302
    user.presses("Delete")
    user.sees("The destination is removed for good")
    user.types("Escape")
    user.sees_no("The destination is removed for good")
    assert world.follow("busy") == 302
    user.presses("Delete")
    user.fills("Reason", "tidy")
    user.types("Enter")
    user.sees("Deleted")
    user.sees_no("Edit")
    assert world.follow("busy") == 410
    reasons = [entry["reason"] for entry in json.loads(world.request("GET", "/api/admin/audit?subject=busy")[1])["entries"]]
    assert reasons == ["tidy", "an error", "phishing"], reasons


def a_link_is_edited(world):
    user = world.user
    world.create("edited", title="Before", tags=["a"], note="one\ntwo", expires_at="2028-05-05T10:10:10.5Z")
    world.signs_in()
    user.goes_to("#/links/edited")
    user.presses("Edit")
    user.sees("Separated by commas")
    world.has_no_barrier("the dialog of an edit")
    user.fills("Title", "After")
    user.fills("Tags", "")
    user.presses("Save")
    user.sees("After")
    link = json.loads(world.request("GET", "/api/admin/links/edited")[1])
    assert (link["title"], link["tags"], link["note"]) == ("After", [], "one\ntwo"), link
    assert link["expires_at"] == "2028-05-05T10:10:10.5Z", link
    # The clock in New York shows this minute twice, and the form cannot tell which one it is.
    world.create("repeated", expires_at="2027-11-07T06:30:00Z")
    user.goes_to("#/links/repeated")
    user.presses("Edit")
    user.fills("Title", "Repeated")
    user.presses("Save")
    user.sees("Repeated")
    link = json.loads(world.request("GET", "/api/admin/links/repeated")[1])
    assert (link["title"], link["expires_at"]) == ("Repeated", "2027-11-07T06:30:00Z"), link


def the_chart_has_the_clicks(world):
    user = world.user
    world.create("clicked")
    for _ in range(3):
        world.follow("clicked")
    until(lambda: json.loads(world.request("GET", "/api/admin/links/clicked")[1])["clicks"]["bots"] == 3, "the clicks are counted")
    world.signs_in()
    user.goes_to("#/links/clicked")
    user.sees("0 by people, 3 by programs")
    until(lambda: user.value("document.querySelectorAll('.chart g').length") == 30, "the chart has a month")
    assert user.value("[...document.querySelectorAll('.chart .bots')].filter((bar) => bar.getAttribute('height') > 0).length") == 1
    user.sets("Days", "365")
    until(lambda: user.value("document.querySelectorAll('.chart g').length") == 365, "the chart has a year")
    picture = "(() => { const it = document.querySelector('.qr img'); return it.complete && it.naturalWidth; })()"
    until(lambda: user.value(picture), "the QR code is drawn")


def dead_letters(world):
    """Returns the identifiers of the jobs that were given up."""
    return {letter["id"] for letter in json.loads(world.request("GET", "/api/admin/dead-letters")[1])["dead_letters"]}


def a_dead_letter_is_replayed_and_another_one_dropped(world):
    user = world.user
    jobs = []
    for _ in range(2):
        status, body = world.request("POST", "/jobs", {"task": "wait", "ms": 60000})
        assert status == 202, body
        jobs.append(json.loads(body)["id"])
    until(lambda: dead_letters(world) == set(jobs), "the jobs are given up")
    world.signs_in()
    user.goes_to("#/service")
    user.sees("Every part is up.", "2 dead letters")
    user.goes_to("#/jobs")
    user.fills("Identifier", jobs[0])
    user.presses("Find")
    user.sees("failed", "wait")
    user.presses("Body")
    user.sees('"ms"')
    world.has_no_barrier("a job and a dead letter with its body")
    user.ticks(f"Choose {jobs[0]}")
    user.presses("Replay 1")
    user.fills("Reason", "try again")
    user.types("Enter")
    user.sees("Replayed: 1.", "There are 1 now.")
    assert dead_letters(world) == {jobs[1]}
    user.presses("Drop all")
    user.presses("Drop")
    user.sees("Dropped: 1.", "There are 0 now.")
    audit = json.loads(world.request("GET", "/api/admin/audit?limit=2")[1])["entries"]
    assert [entry["action"] for entry in audit] == ["dead_letter_dropped", "dead_letter_replayed"], audit


def a_service_that_is_down_is_not_shown_as_up(world):
    user = world.user
    world.signs_in()
    user.goes_to("#/service")
    user.sees("Every part is up.")
    world.browser.command("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    try:
        user.sees("The service did not answer", "from the last answer")
        user.sees_no("Every part is up.")
    finally:
        world.browser.command("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    user.sees("Every part is up.")


def many_links_are_shown_page_by_page_and_searches_do_not_mix(world):
    user = world.user
    lines = [{"code": f"page-{number:03}", "url": "https://example.com/", "tags": ["paged"]} for number in range(120)]
    world.request("POST", "/api/admin/import/links", "\n".join(map(json.dumps, lines)), media_type="application/x-ndjson")
    world.signs_in()
    user.goes_to("#/links?tag=paged")
    until(lambda: user.value("document.querySelector('[name=text]').value") == "paged", "the search is shown")
    rows = "document.querySelectorAll('tbody tr').length"
    for shown in (50, 100, 120):
        until(lambda: user.value(rows) == shown, f"{shown} links are shown")
        if shown < 120:
            user.presses("More links")
    user.sees_no("More links")
    user.goes_to("#/links?tag=paged&state=disabled")
    user.sees("No link matches.")
    user.goes_to("#/links?tag=paged&state=deleted")
    user.sees("state")
    assert user.value(rows) == 0


def links_are_imported_exported_and_created_from_a_table(world):
    user = world.user
    lines = [{"code": f"im-{number}", "url": f"https://example.com/{number}"} for number in range(2500)]
    lines[7]["url"] = "ftp://example.com/"
    world.signs_in()
    user.goes_to("#/transfer")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "links.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        user.sees("Import and export")
        user.chooses_file("File", folder / "links.jsonl", 1)
        user.presses("Import")
        user.sees("This would happen: 2,499 created, 1 invalid", "line 8: im-7 url")
        assert world.follow("im-1") == 404
        user.ticks("Only try it, and store nothing")
        user.presses("Import")
        user.sees("Done: 2,499 created, 1 invalid")
        assert world.follow("im-2499") == 302
        rows = ["url,code,title,tags", '"https://example.com/a,b",csv-a,"Say ""hi""","x, y"', "nonsense,csv-b,,", "https://example.com/c,,,"]
        (folder / "links.csv").write_text("\r\n".join(rows))
        user.chooses_file("File", folder / "links.csv", 0)
        user.presses("Create")
        user.sees("Done: 2 created, 1 refused", "row 3: url")
        world.has_no_barrier("rows with a fault")
        link = json.loads(world.request("GET", "/api/admin/links/csv-a")[1])
        assert (link["url"], link["title"], link["tags"]) == ("https://example.com/a,b", 'Say "hi"', ["x", "y"]), link
        world.browser.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        user.presses("Export")
        user.sees("Saved:")
        saved = folder / "links.jsonl"
        saved.unlink()
        user.presses("Export")
        exported = until(lambda: saved.exists() and saved.read_text(), "the export is saved")
        assert json.loads(exported.splitlines()[0])["code"] < json.loads(exported.splitlines()[-1])["code"]
        assert len(exported.splitlines()) >= 2501


def a_member_manages_own_links_and_no_others(world):
    user = world.user
    world.create("of-boss")
    world.create("of-jane", key="jane")
    world.signs_in("jane")
    user.sees("of-jane")
    user.sees_no("of-boss")
    user.goes_to("#/links/of-boss")
    user.sees("The link belongs to another client")
    user.goes_to("#/jobs")
    user.sees("Dead letters need a key with the scope admin.")
    user.goes_to("#/transfer")
    user.sees("Export")
    user.sees_no("Only try it")


def a_session_ends_when_the_key_is_revoked(world):
    user = world.user
    world.signs_in("jane")
    entry = world.keys / "jane"
    key = entry.read_text()
    entry.write_text("another-key-0123456789abcdef0123456789")
    try:
        until(lambda: world.request("GET", "/api/admin/overview", key="jane")[0] == 401, "the key is revoked")
        user.goes_to("#/service")
        user.sees("Your session has ended")
        assert user.value("sessionStorage.length") == 0
    finally:
        entry.write_text(key)
    until(lambda: world.request("GET", "/api/admin/overview", key="jane")[0] == 200, "the key is back")


def a_person_is_signed_in_by_a_proxy(world):
    user = world.user
    world.passes_a_proxy("ann@example.com", "editors")
    world.opens_console()
    user.sees("ann@example.com", "Shorten")
    user.sees_no("Sign out")
    user.fills("Destination", "https://example.com/ann")
    user.fills("Code", "of-ann")
    user.presses("Shorten")
    user.sees("/of-ann")
    link = json.loads(world.request("GET", "/api/admin/links/of-ann")[1])
    assert link["created_by"] == "user/ann@example.com", link
    world.has_no_barrier("a page of a person")
    world.passes_a_proxy("ann@example.com", "guests")
    user.opens("/console")
    user.sees("none of your groups may manage links")
    world.passes_a_proxy("ann@example.com", "editors")
    user.opens("/console")
    user.sees("of-ann")
    world.passes_a_proxy(None)
    user.goes_to("#/links/of-ann")
    user.sees("Your session has ended.", "Sign in again")
    world.has_no_barrier("a session of a person that has ended")
    world.passes_a_proxy("ann@example.com", "editors")
    user.presses("Sign in again")
    user.sees("ann@example.com", "What visitors see")


def a_webhook_that_fails_is_shown_and_sent_again(world):
    user = world.user
    world.create("announced")
    world.signs_in()
    user.goes_to("#/webhooks")
    user.sees("crm", "https://10.0.0.1/links", "announced")
    # The messages of the other stories come first, one at a time, because the receiver is down.
    user.sets("State", "failing")

    def attempted():
        user.presses("Refresh")
        return user.value("document.body.innerText.includes('the address is private')")

    until(attempted, "an attempt has failed")
    user.presses(user.value("document.querySelector('button[aria-label^=\"Retry msg_\"]').ariaLabel"))
    user.fills("Reason", "the receiver works again")
    world.has_no_barrier("the retry of a webhook")
    user.presses("Retry")
    user.sees("Due now: 1.")
    assert "webhook_retried" in world.request("GET", "/api/admin/audit")[1]


def the_keyboard_alone_is_enough(world):
    user = world.user
    world.opens_console()
    user.sees("Sign in")
    until(lambda: user.focused() == "Key", "the field has the focus")
    world.browser.command("Input.insertText", text=KEYS["boss"][0])
    user.types("Enter")
    user.sees("Sign out")
    names = []
    while "Destination" not in names:
        user.types("Tab")
        names.append(user.focused())
        assert len(names) < 20, names
    world.browser.command("Input.insertText", text="https://example.com/keyboard")
    user.types("Tab")
    world.browser.command("Input.insertText", text="keyboard")
    user.types("Enter")
    user.sees("/keyboard")
    assert world.follow("keyboard") == 302
    user.goes_to("#/links/keyboard")
    user.sees("Disable")
    for _ in range(20):
        if user.focused() == "Disable":
            break
        user.types("Tab")
    user.types("Enter")
    until(lambda: user.focused() == "Reason", "the dialog has the focus")
    world.browser.command("Input.insertText", text="by hand")
    user.types("Enter")
    user.sees("Reason: by hand")
    until(lambda: user.value("document.activeElement.id") == "content", "the focus is on the page, without the button that is gone")


def a_slow_line_is_enough(world):
    """Opens the console over the line that Lighthouse simulates (slow 4G) with an empty cache, and prints what it took."""
    user, browser = world.user, world.browser
    world.opens_console()
    browser.command("Network.clearBrowserCache")
    line = {"latency": 150, "downloadThroughput": 1_638_400 / 8, "uploadThroughput": 750_000 / 8}
    browser.command("Network.emulateNetworkConditions", offline=False, **line)
    try:
        user.opens("/console")
        user.sees("Sign in")
        finished = [event["params"]["encodedDataLength"] for event in browser.events if event["method"] == "Network.loadingFinished"]
        seconds = user.value("performance.now()") / 1000
    finally:
        browser.command("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    assert sum(finished) < 150 * 1024, finished
    print(f"   {len(finished)} files of {sum(finished) / 1024:.0f} KiB in all, uncompressed; the first use after {seconds:.1f} s on a slow line")


def every_page_is_drawn_at_every_width_without_a_fault(world, pictures):
    """Takes pictures of all pages, and lets axe-core look at them."""
    world.create("pictured", title="Spring sale in the shop", tags=["shop", "spring"], note="A note\nof two lines")
    for width, height in WIDTHS:
        for scheme in SCHEMES:
            window = {"width": width, "height": height, "scheme": scheme}
            world.opens_console(**window)
            world.user.sees("Sign in")
            look(world, pictures, "sign-in", width, height, scheme)
            world.signs_in(**window)
            for name, hash, text in [
                ("links", "#/links", "pictured"),
                ("link", "#/links/pictured", "by programs"),
                ("transfer", "#/transfer", "Create links from a table"),
                ("jobs", "#/jobs", "Dead letters"),
                ("webhooks", "#/webhooks", "Messages that were not delivered"),
                ("service", "#/service", "Every part is up."),
            ]:
                world.user.goes_to(hash)
                world.user.sees(text)
                world.user.sees_no("Loading …")
                look(world, pictures, name, width, height, scheme)
            world.user.goes_to("#/links/pictured")
            world.user.presses("Disable")
            world.user.sees("Whoever follows")
            look(world, pictures, "dialog", width, height, scheme)


def look(world, pictures, name, width, height, scheme):
    """Takes a picture of the page; fails if it is wider than the window, or if axe-core finds a fault."""
    shown = world.browser.screenshot(width, height)
    (pictures / f"console-{name}-{width}-{scheme}.png").write_bytes(shown)
    where = f"{name} at {width} pixels, {scheme}"
    wide = world.user.value("document.documentElement.scrollWidth")
    assert wide <= width, f"{where}: {wide} pixels wide"
    world.has_no_barrier(where)


def draw(world, folder):
    """Draws the pictures of the pages, of a service that people have used for a while."""
    today = datetime.now(timezone.utc).date()
    days = [today - timedelta(days=29 - number) for number in range(30)]
    links = [
        ("start", "https://docs.example.com/start", "Getting started", ["docs"], 3),
        ("newsletter", "https://www.example.com/newsletter?utm_source=mail", "Newsletter of the month", ["mail", "spring"], 9),
        ("careers", "https://jobs.example.com/open-positions", "Open positions", ["people"], 2),
        ("k7Qm2xB", "https://shop.example.com/cart/restore", None, [], 1),
        ("talk-2026", "https://events.example.com/talks/operators-in-rust", "Operators in Rust: the slides", ["talk", "rust"], 12),
        ("spring-sale", "https://shop.example.com/collections/spring?ref=poster", "Spring sale", ["shop", "spring"], 20),
    ]
    lines = []
    for place, (code, url, title, tags, scale) in enumerate(links):
        clicks = [
            {"day": f"{day}", "people": scale * (5 + (number * 7 + place * 3) % 9 + number // 3), "bots": scale * ((number * 5 + place) % 4)}
            for number, day in enumerate(days)
        ]
        created = f"{days[0] + timedelta(days=place)}T09:{10 + place}:00Z"
        lines.append({"code": code, "url": url, "title": title, "tags": tags, "created_by": "jane", "created_at": created, "clicks": clicks})
    text = "\n".join(json.dumps(line) for line in lines)
    status, body = world.request("POST", "/api/admin/import/links", text, media_type="application/x-ndjson")
    assert status == 200 and json.loads(body)["created"] == len(links), body
    world.request("POST", "/api/admin/links/careers/disable", {"reason": "all positions are filled"})
    for name, hash, text, scheme in [("links", "#/links", "k7Qm2xB", "light"), ("link", "#/links/spring-sale", "at most", "dark")]:
        world.signs_in(width=1280, height=900, scheme=scheme)
        world.user.goes_to(hash)
        world.user.sees(text)
        world.user.sees_no("Loading …")
        until(lambda: world.user.value("[...document.images].every((image) => image.complete)"), "the pictures of the page are drawn")
        (folder / f"console-{name}.png").write_bytes(world.browser.screenshot(1280, 900))


STORIES = [
    a_wrong_key_is_refused_and_a_right_one_is_forgotten_with_the_tab,
    a_link_is_created_and_followed,
    a_link_is_found_by_code_tag_title_and_host,
    a_link_is_disabled_while_it_is_followed_and_comes_back,
    a_link_is_edited,
    the_chart_has_the_clicks,
    a_dead_letter_is_replayed_and_another_one_dropped,
    a_service_that_is_down_is_not_shown_as_up,
    many_links_are_shown_page_by_page_and_searches_do_not_mix,
    links_are_imported_exported_and_created_from_a_table,
    a_member_manages_own_links_and_no_others,
    a_session_ends_when_the_key_is_revoked,
    a_person_is_signed_in_by_a_proxy,
    a_webhook_that_fails_is_shown_and_sent_again,
    the_keyboard_alone_is_enough,
    a_slow_line_is_enough,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", required=True, help="program of the browser")
    parser.add_argument("--base", required=True, help="address of the service")
    parser.add_argument("--keys", required=True, type=Path, help="folder with the keys of the service")
    parser.add_argument("--axe", required=True, type=Path, help="axe-core as a script")
    parser.add_argument("--pictures", required=True, type=Path, help="folder for the pictures")
    parser.add_argument("--story", help="part of the names of the stories to be told")
    parser.add_argument("--draw", type=Path, help="folder for the pictures of the pages; no story is told")
    arguments = parser.parse_args()
    told, failed = 0, 0
    with Browser(arguments.browser) as browser:
        world = World(browser, arguments.base, arguments.keys, arguments.axe.read_text())
        # Neither UTC nor without summer time.
        browser.command("Emulation.setTimezoneOverride", timezoneId="America/New_York")
        if arguments.draw:
            draw(world, arguments.draw)
            return 0
        stories = [(story.__name__, lambda story=story: story(world)) for story in STORIES]
        last = every_page_is_drawn_at_every_width_without_a_fault
        stories.append((last.__name__, lambda: last(world, arguments.pictures)))
        for name, story in stories:
            if arguments.story and arguments.story not in name:
                continue
            told += 1
            world.passes_a_proxy(None)
            begin = time.monotonic()
            try:
                story()
                found = list(world.user.errors())
                assert not found, f"the browser reports: {found}"
            except (AssertionError, RuntimeError) as fault:
                failed += 1
                print(f"FAILED {name}: {fault}", file=sys.stderr)
                (arguments.pictures / f"failed-{name}.png").write_bytes(browser.screenshot(1280, 900))
            else:
                print(f"ok {name} ({time.monotonic() - begin:.1f} s)")
    print(f"{told} stories, {failed} failed")
    # No story at all is a mistake in the name.
    return 1 if failed or not told else 0


if __name__ == "__main__":
    sys.exit(main())
