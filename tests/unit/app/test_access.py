"""Who comes in: the link, the cookie and the key, this machine, our own page."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from epsilens.app import access
from epsilens.app.access import KEY_HEADER, Gate, Guard

OURS = "http://127.0.0.1:8000"


async def hello(scope: Any, receive: Any, send: Any) -> None:
    if scope["path"] == "/broken":
        raise ValueError("could not convert string to float: 'HIV+'")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def stranger(gate: Gate) -> TestClient:
    return TestClient(Guard(hello, gate), base_url=OURS, follow_redirects=False)


@pytest.fixture
def guest(gate: Gate, stranger: TestClient) -> TestClient:
    cookie, key = gate.exchange(gate.token)
    stranger.cookies.set(gate.name, cookie)
    stranger.headers[KEY_HEADER] = key
    return stranger


def test_without_the_link_only_the_bare_page_is_shown(stranger: TestClient) -> None:
    for path in ("/api/session", "/api/tables", "/studies/0123456789abcdef/page", "/openapi.json"):
        answer = stranger.get(path)
        assert answer.status_code == 403
        assert "the link that the terminal shows" in answer.json()["error"]
    # The same for everybody: it is in the package.
    for path in ("/", "/static/main.js"):
        assert stranger.get(path).text == "hello"


def test_the_link_opens_the_page_again_in_any_browser(visitor: Any) -> None:
    browsers = [TestClient(visitor.client.app, base_url=OURS) for _ in range(2)]
    for browser in (*browsers, browsers[0]):
        entered = browser.post(
            "/api/enter", json={"token": visitor.gate.token}, headers={"origin": OURS}
        )
        assert entered.status_code == 200
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert visitor.gate.token not in cookie + entered.text
        key = entered.json()["key"]
        assert browser.get("/api/session", headers={KEY_HEADER: key}).status_code == 200


def test_the_link_keeps_its_token_out_of_requests(gate: Gate) -> None:
    link = gate.link(OURS)
    assert link == f"{OURS}/#token={gate.token}"
    assert gate.token not in urlsplit(link).path + urlsplit(link).query


@pytest.mark.parametrize("token", ["", "x", "ü" * 40, "\0"])
def test_another_token_is_refused(visitor: Any, token: str) -> None:
    stranger = TestClient(visitor.client.app, base_url=OURS)
    answer = stranger.post("/api/enter", json={"token": token}, headers={"origin": OURS})
    assert answer.status_code == 403
    assert "the link that the terminal shows now" in answer.json()["error"]
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [{}, {"origin": "http://127.0.0.1:9"}, {"origin": OURS, "sec-fetch-site": "same-site"}],
)
def test_the_link_is_exchanged_by_our_own_page_alone(visitor: Any, headers: dict[str, str]) -> None:
    stranger = TestClient(visitor.client.app, base_url=OURS)
    answer = stranger.post("/api/enter", json={"token": visitor.gate.token}, headers=headers)
    assert answer.status_code == 403
    assert "our own page" in answer.json()["error"]


VISITS = (
    {"sec-fetch-dest": "document", "sec-fetch-site": "cross-site"},
    {"accept": "text/html,*/*"},
)


@pytest.mark.parametrize("headers", VISITS)
@pytest.mark.parametrize("path", ["/studies/0123456789abcdef/page", "/api/session", "/favicon.ico"])
def test_somebody_who_opens_an_address_sees_a_page(
    stranger: TestClient, headers: dict[str, str], path: str
) -> None:
    answer = stranger.get(path, headers=headers)
    assert answer.status_code == 403
    assert answer.headers["content-type"].startswith("text/html")
    assert "This address cannot be opened by itself." in answer.text
    assert '<a href="/">' in answer.text
    elsewhere = stranger.get(path, headers={**headers, "host": "evil.example"})
    assert elsewhere.status_code == 400
    assert "<p>This server answers to 127.0.0.1 and localhost only." in elsewhere.text
    # A visit may begin in a terminal, in a file or on another page.
    assert stranger.get("/", headers=headers).text == "hello"


@pytest.mark.parametrize("dest", ["iframe", "script", "empty"])
def test_scripts_and_frames_are_refused_in_json(stranger: TestClient, dest: str) -> None:
    answer = stranger.get(
        "/studies/a/page", headers={"sec-fetch-dest": dest, "accept": "text/html"}
    )
    assert "not let in" in answer.json()["error"]


@pytest.mark.parametrize("cookie", ["", "epsilens=x", "=;=", "a" * 5000, "{name}=x", "{name}=ü"])
def test_another_cookie_is_refused(gate: Gate, stranger: TestClient, cookie: str) -> None:
    stranger.headers[KEY_HEADER] = gate.exchange(gate.token)[1]
    header = cookie.replace("{name}", gate.name).encode("latin-1")
    assert stranger.get("/api/session", headers={b"cookie": header}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:9999", "localhost", "[::1]:8000"])
def test_this_machine_is_answered_also_through_a_tunnel(guest: TestClient, host: str) -> None:
    assert guest.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example:8000",
        "localhost.evil.example",
        "10.0.0.1",
        "",
        "a b",
    ],
)
def test_other_names_are_not_answered(guest: TestClient, host: str) -> None:
    answer = guest.get("/", headers={"host": host})
    assert answer.status_code == 400
    assert "127.0.0.1 and localhost only" in answer.json()["error"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9000"},
        {"origin": "http://localhost:8000"},
        {"origin": "https://evil.example"},
        {"origin": OURS, "sec-fetch-site": "same-site"},
        {"origin": OURS, "sec-fetch-site": "cross-site"},
    ],
)
def test_a_change_must_come_from_our_page(
    guest: TestClient, method: str, headers: dict[str, str]
) -> None:
    answer = guest.request(method, "/api/studies", headers=headers)
    assert answer.status_code == 403
    assert "our own page" in answer.json()["error"]


def test_a_change_from_our_page_goes_through(guest: TestClient) -> None:
    assert guest.post("/api/studies", headers={"origin": OURS}).status_code == 200


@pytest.mark.parametrize("key", ["", "x", "ü"])
def test_the_cookie_alone_opens_nothing(guest: TestClient, key: str) -> None:
    # Browsers send it to every port of this machine, so other programs know it.
    headers = {KEY_HEADER: key.encode("latin-1"), "origin": OURS}
    for method, path in (
        ("GET", "/api/session"),
        ("GET", "/api/studies/0123456789abcdef/report.html"),
        ("POST", "/api/tickets"),
        ("GET", "/studies/0123456789abcdef/page"),
        ("GET", "/openapi.json"),
    ):
        answer = guest.request(method, path, headers=headers)
        assert answer.status_code == 403, path
        assert "the link that the terminal shows" in answer.json()["error"]
    assert guest.get("/", headers=headers).status_code == 200
    guest.cookies.clear()
    assert guest.get("/api/session").status_code == 403  # nor the key alone


def test_a_ticket_opens_one_report_once_and_soon(
    gate: Gate, guest: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    del guest.headers[KEY_HEADER]
    ticket = gate.ticket("/studies/a/page")
    assert guest.get("/studies/a/page", params={"ticket": ticket}).status_code == 200
    assert guest.get("/studies/a/page", params={"ticket": ticket}).status_code == 403
    other = gate.ticket("/studies/b/page")
    assert guest.get("/studies/a/page", params={"ticket": other}).status_code == 403
    assert (
        guest.get("/api/session", params={"ticket": gate.ticket("/api/session")}).status_code == 403
    )
    monkeypatch.setattr(access, "TICKET_SECONDS", 0.0)
    late = gate.ticket("/studies/a/page")
    assert guest.get("/studies/a/page", params={"ticket": late}).status_code == 403


@pytest.mark.parametrize("site", ["same-site", "cross-site", "anything"])
@pytest.mark.parametrize("path", ["/", "/api/session", "/static/main.js"])
def test_no_other_page_may_ask(guest: TestClient, path: str, site: str) -> None:
    # Another port of this machine is the same site.
    answer = guest.get(path, headers={"sec-fetch-site": site})
    assert answer.status_code == 403
    assert "our own page" in answer.json()["error"]
    for allowed in ("none", "same-origin"):
        assert guest.get(path, headers={"sec-fetch-site": allowed}).status_code == 200


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "://", "http://a@127.0.0.1:8000"])
def test_an_origin_that_is_none_is_refused(guest: TestClient, origin: str) -> None:
    assert guest.post("/api/studies", headers={"origin": origin}).status_code == 403


def test_a_length_of_thousands_of_digits_is_refused(guest: TestClient, visitor: Any) -> None:
    headers = {"origin": OURS, "content-length": "9" * 5000}
    assert guest.post("/api/studies", headers=headers).status_code == 413
    # Uploads are measured behind the door.
    assert visitor.client.post("/api/tables?name=a.csv", headers=headers).status_code == 413


def test_two_hosts_are_one_too_many(guest: TestClient) -> None:
    headers = [("host", "127.0.0.1:8000"), ("host", "evil.example")]
    assert guest.get("/", headers=headers).status_code == 400


def test_questions_are_short_and_say_how_long_they_are(guest: TestClient) -> None:
    ours = {"origin": OURS}
    assert guest.post("/api/studies", headers=ours, content=b"x" * 2**21).status_code == 413
    pieces = iter([b"x", b"y"])
    assert guest.post("/api/studies", headers=ours, content=pieces).status_code == 411


def test_every_answer_has_its_headers(guest: TestClient) -> None:
    for answer in (guest.get("/"), guest.get("/", headers={"host": "evil"}), guest.get("/broken")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy


def test_a_fault_of_ours_shows_a_number_and_no_value(
    guest: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = guest.get("/broken")
    assert answer.status_code == 500
    told = capsys.readouterr().err
    assert answer.json()["id"] in told
    assert "ValueError" in told
    assert "HIV" not in told + answer.text


def test_there_are_no_other_protocols(guest: TestClient) -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), guest.websocket_connect("/"):
        pass


@pytest.mark.parametrize("other", ['other={"a":"b"}', "a b=c", "=", "x"])
def test_other_programs_cookies_do_not_lock_anybody_out(other: str) -> None:
    gate = Gate()
    cookie, _ = gate.exchange(gate.token)
    assert gate.admits(f"{other}; {gate.name}={cookie}")
    assert gate.admits(f"{gate.name}={cookie}; {other}")
    assert not gate.admits(f"{other}; {gate.name}=wrong")
    # One of our name, set for another path: ours still opens, and no two wrong ones do.
    assert gate.admits(f"{gate.name}=wrong; {gate.name}={cookie}")
    assert not gate.admits(f"{gate.name}=wrong; {gate.name}=false")


def test_a_fault_behind_the_routes_reaches_the_page_with_its_number(
    serve: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(tmp_path / "state") as visitor:

        def broken() -> None:
            raise ValueError("HIV+")

        monkeypatch.setattr(visitor.service.store, "tables", broken)
        answer = visitor.ask("GET", "/api/tables")
    assert answer.status_code == 500
    told = capsys.readouterr().err
    assert answer.json()["id"] in told
    assert "HIV" not in told + answer.text


@pytest.mark.parametrize("name", ["host", "origin", "content-length", KEY_HEADER])
def test_what_stands_twice_is_refused_whichever_would_be_read(guest: TestClient, name: str) -> None:
    right = {
        "host": OURS.removeprefix("http://"),
        "origin": OURS,
        "content-length": "0",
        KEY_HEADER: guest.headers[KEY_HEADER],
    }
    assert guest.post("/api/tables", headers=list(right.items())).status_code == 200
    for wrong in ([(name, "evil.example"), *right.items()], [*right.items(), (name, right[name])]):
        answer = guest.post("/api/tables", headers=wrong)
        assert answer.status_code == 400
        assert "one Host and one Origin" in answer.json()["error"]
