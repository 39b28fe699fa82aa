"""Signs people in by a real oauth2-proxy, and tries what an outsider and a member without rights would try."""

import argparse
import http.cookiejar
import json
import socket
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

USER, GROUPS, SECRET = "X-Auth-Request-User", "X-Auth-Request-Groups", "X-Auth-Proxy-Secret"


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Browser:
    """Keeps cookies, and follows redirects only where it is asked to."""

    def __init__(self):
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._follows = urllib.request.build_opener(cookies)
        self._stays = urllib.request.build_opener(cookies, NoRedirect)

    def ask(self, method, url, body=None, headers=None, follows=False):
        """Returns the status, the header fields and the body."""
        request = urllib.request.Request(url, method=method, headers={"content-type": "application/json", **(headers or {})})
        if body is not None:
            request.data = json.dumps(body).encode()
        opener = self._follows if follows else self._stays
        try:
            with opener.open(request, timeout=30) as response:
                return response.status, response.headers, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read().decode()


class World:
    def __init__(self, arguments):
        self.app, self.control = arguments.app, arguments.control
        self.proxy, self.asked, self.sign_in = arguments.proxy, arguments.asked, arguments.sign_in
        self.secret, self.key = arguments.secret.read_text(), arguments.key.read_text().strip()

    def signed_in(self, email, groups, at=None):
        """Returns the browser of a person who has signed in."""
        form = urllib.parse.urlencode({"email": email, "groups": groups}).encode()
        urllib.request.urlopen(f"{self.control}/next", data=form, timeout=30).close()
        browser = Browser()
        status, _, _ = browser.ask("GET", f"{at or self.proxy}/console/", follows=True)
        assert status in (200, 202), status
        return browser

    def raw(self, head):
        """Sends the head of a request to the app as it stands; returns the status."""
        host, port = urllib.parse.urlsplit(self.app).netloc.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(head.replace("\n", "\r\n").encode())
            return int(connection.makefile("rb").readline().split()[1])


def client(answer):
    status, _, body = answer
    assert status == 200, answer
    return json.loads(body)["client"]


def nobody_passes_the_proxy_without_signing_in(world):
    for path in ("/console/", "/api/admin/overview", "/some-code"):
        status, headers, _ = Browser().ask("GET", f"{world.proxy}{path}", headers={USER: "eve", GROUPS: "staff", SECRET: world.secret})
        assert status == 302 and "/oidc/authorize" in headers["location"], (path, status)


def a_person_has_the_scopes_of_the_groups_and_is_the_creator(world):
    ann = world.signed_in("ann@example.com", "editors,others")
    overview = f"{world.proxy}/api/admin/overview"
    assert client(ann.ask("GET", overview)) == {"name": "user/ann@example.com", "scopes": ["links:own"]}
    body = {"links": [{"url": "https://example.com/", "code": "of-ann"}]}
    status, _, answer = ann.ask("POST", f"{world.proxy}/api/admin/links", body)
    assert status == 200, answer
    _, _, answer = ann.ask("GET", f"{world.proxy}/api/admin/links/of-ann")
    assert json.loads(answer)["created_by"] == "user/ann@example.com", answer


def a_person_cannot_pass_for_another_one(world):
    eve = world.signed_in("eve@example.com", "editors")
    forged = {USER: "ann@example.com", GROUPS: "staff", SECRET: world.secret, "X_Auth_Request_User": "ann@example.com"}
    overview = client(eve.ask("GET", f"{world.proxy}/api/admin/overview", headers=forged))
    assert overview == {"name": "user/eve@example.com", "scopes": ["links:own"]}, overview


def a_member_changes_no_link_of_others_and_manages_nothing_else(world):
    eve = world.signed_in("eve@example.com", "editors")
    link = f"{world.proxy}/api/admin/links/of-ann"
    for method, path, body in [
        ("GET", "", None),
        ("PATCH", "", {"ttl_seconds": 60}),
        ("DELETE", "", None),
        ("POST", "/disable", {"reason": "mine now"}),
        ("GET", "/clicks", None),
    ]:
        status, _, answer = eve.ask(method, link + path, body)
        assert status == 403, (method, path, status, answer)
    for method, path in [
        ("GET", "/api/admin/audit"),
        ("POST", "/api/admin/transfer"),
        ("POST", "/api/admin/erase"),
        ("POST", "/api/admin/import/links"),
        ("GET", "/api/admin/dead-letters"),
    ]:
        status, _, answer = eve.ask(method, world.proxy + path, {} if method == "POST" else None)
        assert status == 403, (path, status, answer)
    stranger = world.signed_in("kim@example.com", "visitors")
    assert stranger.ask("GET", f"{world.proxy}/api/admin/overview")[0] == 403


def the_headers_alone_let_nobody_in(world):
    person = f"{USER}: ann@example.com\n{GROUPS}: staff\n"
    for path in ("/api/admin/overview", "/api/admin/audit", "/api/admin/links"):
        for more in [
            "",
            f"{SECRET}: \n",
            f"{SECRET}: {world.secret[:-1]}\n",
            f"{SECRET}: {world.secret}\n{SECRET}: {world.secret}\n",
            f"{SECRET}: {world.secret}, {world.secret}\n",
            f"X_Auth_Proxy_Secret: {world.secret}\n",
            f"{SECRET}: {world.secret}\n{USER}: staff@example.com\n",
            f"Authorization: Bearer {world.secret}\n",
            f"X-Api-Key: {world.secret}\n",
        ]:
            status = world.raw(f"GET {path} HTTP/1.1\nHost: go.example.com\nConnection: close\n{person}{more}\n")
            assert status == 401, (path, more, status)


def no_other_site_acts_with_the_cookie_of_a_person(world):
    ann = world.signed_in("ann@example.com", "staff")
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        for path in ("/api/admin/links/of-ann/disable", "/api/admin/links", "/shorten"):
            status, _, answer = ann.ask("POST", world.proxy + path, {"reason": "x"}, headers)
            assert status == 403 and "cross-origin" in answer, (path, headers, status, answer)
    status, headers, _ = ann.ask("GET", f"{world.proxy}/api/admin/links", headers={"Origin": "https://evil.example"})
    assert status == 200 and "access-control-allow-origin" not in headers


def a_session_that_ended_is_over(world):
    ann = world.signed_in("ann@example.com", "staff")
    assert ann.ask("GET", f"{world.proxy}/api/admin/overview")[0] == 200
    ann.ask("GET", f"{world.proxy}/oauth2/sign_out")
    assert ann.ask("GET", f"{world.proxy}/api/admin/overview")[0] == 302


def only_a_controller_may_ask_who_is_signed_in(world):
    """The responses have the secret, so browsers sign in by another instance, which has it not."""
    assert Browser().ask("GET", f"{world.asked}/oauth2/auth")[0] == 401
    ann = world.signed_in("ann@example.com", "editors", world.sign_in)
    status, headers, _ = ann.ask("GET", f"{world.asked}/oauth2/auth")
    assert status == 202 and headers[USER] == "ann@example.com" and headers[GROUPS] == "editors", (status, headers)
    assert headers[SECRET] == world.secret
    # What a controller passes on.
    lines = "".join(f"{name}: {headers[name]}\n" for name in (USER, GROUPS, SECRET))
    assert world.raw(f"GET /api/admin/overview HTTP/1.1\nHost: console.example.com\nConnection: close\n{lines}\n") == 200
    # nginx takes the path for /oauth2/start, and oauth2-proxy does not.
    hidden = "/oauth2/x/%2e%2e/start"
    assert ann.ask("GET", world.asked + hidden)[1][SECRET] == world.secret
    for path in (hidden, "/oauth2/auth", "/oauth2/userinfo", "/oauth2/x/..%2fstart", "/", "/oauth2/start", "/oauth2/callback", "/oauth2/sign_out"):
        for browser in (Browser(), ann):
            _, headers, body = browser.ask("GET", world.sign_in + path)
            assert world.secret not in str(headers) + body, path


def a_key_still_works_behind_the_proxy(world):
    ann = world.signed_in("ann@example.com", "editors")
    key = {"X-Api-Key": world.key}
    assert client(ann.ask("GET", f"{world.proxy}/api/admin/overview", headers=key))["name"] == "ops"
    assert client(Browser().ask("GET", f"{world.app}/api/admin/overview", headers=key))["name"] == "ops"


def a_person_is_named_until_erased(world):
    key = {"X-Api-Key": world.key}
    erase = {"client": "user/ann@example.com", "reason": "asked for it"}
    status, _, answer = Browser().ask("POST", f"{world.app}/api/admin/erase", erase, key)
    assert status == 200 and not json.loads(answer)["remaining"], answer
    _, _, link = Browser().ask("GET", f"{world.app}/api/admin/links/of-ann", headers=key)
    assert "ann@example.com" not in link and "erased/" in link, link


TRIALS = [
    nobody_passes_the_proxy_without_signing_in,
    a_person_has_the_scopes_of_the_groups_and_is_the_creator,
    a_person_cannot_pass_for_another_one,
    a_member_changes_no_link_of_others_and_manages_nothing_else,
    the_headers_alone_let_nobody_in,
    no_other_site_acts_with_the_cookie_of_a_person,
    a_session_that_ended_is_over,
    only_a_controller_may_ask_who_is_signed_in,
    a_key_still_works_behind_the_proxy,
    a_person_is_named_until_erased,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("app", "control", "proxy", "asked", "sign-in"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("secret", "key"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    world = World(parser.parse_args())
    for trial in TRIALS:
        trial(world)
        print(f"ok {trial.__name__}")
    print(f"{len(TRIALS)} trials held")


if __name__ == "__main__":
    main()
