"""The lab's server under attack: other names and origins, sizes, slowness, paths, methods, crowds.

It runs as `unrolled lab RUN --serve` runs it, with the time that a request may take cut to a second.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unrolled.cli import serving
from unrolled.errors import DataError

SECRET = "what no request may read"
FAST = 0.5


class Echo:
    """Answers as a model would, without one."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __call__(self, asked: Any) -> dict[str, Any]:
        if not isinstance(asked, dict) or not isinstance(asked.get("text"), str):
            raise DataError("request: expected a text")
        asked["text"].encode()
        self.asked.append(asked)
        return {"model": {"text": asked["text"]}, "generation": None}


class Served:
    def __init__(self, port: int, echo: Echo) -> None:
        self.port, self.echo, self.own = port, echo, f"127.0.0.1:{port}"

    def connect(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def raw(self, content: bytes) -> bytes:
        """What comes back for these bytes, until the server closes or has said its answer."""
        with self.connect() as made:
            made.sendall(content)
            return answer_of(made)

    def status(self, content: bytes) -> int:
        """The status of the answer; 0 where the connection was closed without one."""
        answer = self.raw(content)
        assert SECRET.encode() not in answer
        assert b"Traceback" not in answer
        return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0

    def get(self, target: str = "/", *headers: str) -> int:
        return self.status(request("GET", target, f"Host: {self.own}", *headers))

    def post(self, body: bytes, *headers: str, length: int | None = None) -> int:
        size = len(body) if length is None else length
        own = [f"Host: {self.own}", f"Origin: http://{self.own}", "Content-Type: application/json"]
        return self.status(request("POST", "/inspect", *own, f"Content-Length: {size}", *headers) + body)


def request(method: str, target: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", *headers, "Connection: close", "", ""]).encode("latin-1")


def answer_of(made: socket.socket) -> bytes:
    parts = []
    try:
        while part := made.recv(65536):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    import uvicorn

    folder = tmp_path_factory.mktemp("secrets")
    (folder / "model.safetensors").write_text(SECRET)
    (folder / "link").symlink_to("/etc/passwd")
    echo = Echo()
    patched = pytest.MonkeyPatch()
    patched.chdir(folder)
    patched.setattr(serving, "SLOWEST", FAST)
    with serving.listen(0) as made:
        port = made.getsockname()[1]
        app = serving.application("<p>the page</p>", echo, port)  # type: ignore[arg-type]  # stands in for a model
        server = uvicorn.Server(uvicorn.Config(app, **(serving.settings() | {"log_level": "critical"})))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [made]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield Served(port, echo)
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()
    patched.undo()


def test_it_answers(served: Served) -> None:
    assert served.get() == 200
    assert served.post(b'{"text": "ab"}') == 200
    assert served.post(b'{"text": "ab"}', f"Origin: http://{served.own}") == 403  # two of them


class TestNames:
    """A name that an attacker owns can be made to point at this machine; the browser still says it in Host."""

    def test_other_hosts(self, served: Served) -> None:
        port = served.port
        others = ["evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", f"127.0.0.1:0{port}",
                  f"localhost.:{port}", f"localhost.evil.example:{port}", f"evil@127.0.0.1:{port}", f"[::1]:{port}",
                  f"0.0.0.0:{port}", f"127.1:{port}", f"2130706433:{port}", f"127.0.0.1:{port},evil.example", "",
                  f"127.0.0.1:{port}/", f"127.0.0.1:{port}#",
                  f"ⓛocalhost:{port}".encode().decode("latin-1"), "127.0.0.1:"]  # fmt: skip
        for host in others:
            for target in ("/", "/nowhere"):
                assert served.status(request("GET", target, f"Host: {host}")) in (400, 421), host

    def test_the_own_names(self, served: Served) -> None:
        for host in (f"127.0.0.1:{served.port}", f"localhost:{served.port}", f"LOCALHOST:{served.port}"):
            assert served.status(request("GET", "/", f"Host: {host}")) == 200

    def test_no_host_or_two(self, served: Served) -> None:
        assert served.status(request("GET", "/")) == 400
        assert served.status(b"GET / HTTP/1.0\r\n\r\n") == 421
        assert served.status(request("GET", "/", f"Host: {served.own}", "Host: evil.example")) == 400
        assert served.status(request("GET", "/", "Host: evil.example", f"X-Forwarded-Host: {served.own}")) == 421
        assert served.status(request("GET", f"http://{served.own}/", "Host: evil.example")) == 421

    @pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "file://", "http://127.0.0.1", "HTTP://OWN",
                                        "https://OWN", "http://OWN/", "http://OWN http://evil.example",
                                        "http://OWN, http://evil.example", "http://OWN.evil.example"])  # fmt: skip
    def test_other_origins(self, origin: str, served: Served) -> None:
        said = origin.replace("OWN", served.own)
        before = len(served.echo.asked)
        own = [f"Host: {served.own}", f"Origin: {said}", "Content-Type: application/json", "Content-Length: 13"]
        assert served.status(request("POST", "/inspect", *own) + b'{"text": "a"}') == 403
        assert served.get("/", f"Origin: {said}") == 403
        assert len(served.echo.asked) == before

    def test_a_form_and_a_preflight(self, served: Served) -> None:
        own = [f"Host: {served.own}", f"Origin: http://{served.own}", "Content-Length: 13"]
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx"):
            assert served.status(request("POST", "/inspect", *own, f"Content-Type: {kind}") + b'{"text": "a"}') == 415
        asked = [f"Host: {served.own}", "Origin: http://evil.example", "Access-Control-Request-Method: POST"]
        answer = served.raw(request("OPTIONS", "/inspect", *asked))
        assert answer.startswith(b"HTTP/1.1 403")
        assert b"access-control" not in answer.lower()


class TestSizes:
    def test_what_a_length_says_is_not_believed(self, served: Served) -> None:
        assert served.post(b"x", length=10**12) == 413
        assert served.post(b"x", length=2**70) in (400, 413)
        for length in ("-1", "+5", "1_0", "0x10", "5, 6", "abc", "", "9" * 500):
            assert served.post(b"xxxxx", f"Content-Length: {length}") == 400
        own = [f"Host: {served.own}", f"Origin: http://{served.own}", "Content-Type: application/json"]
        for length in ("-1", "abc", "9" * 5000):
            assert served.status(request("POST", "/inspect", *own, f"Content-Length: {length}") + b"xx") in (400, 413)

    def test_more_than_was_said(self, served: Served) -> None:
        """What follows is another request of the connection, which is no request."""
        answer = served.raw(request("GET", "/", f"Host: {served.own}", "Content-Length: 0") + b"GET /x HTTP/1.1\r\n")
        assert answer.count(b"HTTP/1.1 200") == 1

    def test_both_ways_to_say_a_length(self, served: Served) -> None:
        """Two servers could take the end of such a request for two different places."""
        chunks = b'd\r\n{"text": "a"}\r\n0\r\n\r\n'
        before = len(served.echo.asked)
        assert served.post(chunks, "Transfer-Encoding: chunked", length=5) in (200, 400)
        assert served.post(chunks, "Transfer-Encoding: chunked, identity", length=5) in (400, 501)
        assert len(served.echo.asked) - before <= 1

    def test_chunks_without_end(self, served: Served) -> None:
        own = [f"Host: {served.own}", f"Origin: http://{served.own}", "Content-Type: application/json"]
        head = request("POST", "/inspect", *own, "Transfer-Encoding: chunked")
        assert served.status(head + (b"400\r\n" + b"a" * 1024 + b"\r\n") * 80) == 413
        for bad in (b"zz\r\n", b"-1\r\n", b"fffffffffffffffffffff\r\n"):
            assert served.status(head + bad) in (0, 400)

    def test_headers(self, served: Served) -> None:
        assert served.get("/", "X: " + "a" * 2_000_000) in (0, 400)
        assert served.get("/" + "a" * 2_000_000) in (0, 400)
        many = [f"X{n}: 1" for n in range(200_000)]
        assert served.status(request("GET", "/", *many, f"Host: {served.own}")) in (0, 400)

    def test_a_text_that_no_file_could_hold(self, served: Served) -> None:
        for body in (b'{"text": "\\ud800"}', b'{"text": ' + b"9" * 5000 + b"}", b"[" * 60_000, b'{"text": NaN}', b"\0"):
            assert served.post(body) == 400


BEGUN = (
    b"POST /inspect HTTP/1.1\r\nHost: OWN\r\nOrigin: http://OWN\r\nContent-Type: application/json\r\n"
    b"Content-Length: 100\r\n\r\n{"
)


class TestTime:
    """Connections that never end their request would keep others out."""

    @pytest.mark.parametrize(
        "begin",
        [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: OWN\r\n",
         BEGUN,
         b"GET / HTTP/1.1\r\nHost: OWN\r\n\r\nGET / HT"],
    )  # fmt: skip
    def test_a_request_that_does_not_end(self, begin: bytes, served: Served) -> None:
        start = time.monotonic()
        with served.connect() as made:
            made.sendall(begin.replace(b"OWN", served.own.encode()))
            answer_of(made)  # returns when the server closes
        assert time.monotonic() - start < 10

    def test_a_byte_now_and_then(self, served: Served) -> None:
        start, letters = time.monotonic(), iter(b"X-Slow: " + b"a" * 10_000)
        with served.connect() as made:
            made.sendall(f"GET / HTTP/1.1\r\nHost: {served.own}\r\n".encode())
            made.settimeout(0.05)
            while time.monotonic() - start < 10:
                try:
                    made.sendall(bytes([next(letters)]))
                    if not made.recv(1):
                        break
                except TimeoutError:
                    continue
                except ConnectionError:
                    break
        assert time.monotonic() - start < 9

    def test_a_crowd(self, served: Served) -> None:
        """Two hundred at once: some are told that it is full, and when they have gone it answers as before."""
        crowd = [served.connect() for _ in range(200)]
        try:
            for made in crowd:
                made.sendall(b"POST /inspect HTTP/1.1\r\n")
            assert served.get() in (200, 503)
        finally:
            for made in crowd:
                made.close()
        deadline = time.monotonic() + 10
        while served.get() != 200:
            assert time.monotonic() < deadline

    def test_many_at_work(self, served: Served) -> None:
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(served.post(b'{"text": "ab"}'))) for _ in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(found) == 24
        assert set(found) <= {200, 503}
        assert 200 in found


class TestPaths:
    @pytest.mark.parametrize(
        "target",
        ["/model.safetensors", "/link", "/../model.safetensors", "/..%2fmodel.safetensors", "/%2e%2e/etc/passwd",
         "/%252e%252e/etc/passwd", "/..\\..\\etc\\passwd", "/..%5cetc", "//etc/passwd", "///etc/passwd", "/etc/passwd",
         "/%00", "/model.safetensors%00.html", "/?file=/etc/passwd&../../", "file:///etc/passwd", "*", "etc/passwd",
         "/static/../../etc/passwd", "/.%2e/.%2e/etc/passwd", "/inspect/../model.safetensors", "/%ff%fe", "/inspect/",
         "/%c0%ae%c0%ae/etc/passwd", "/;/etc/passwd", "/index.html", "/favicon.ico", "http://evil.example/x"],
    )  # fmt: skip
    def test_no_file(self, target: str, served: Served) -> None:
        answer = served.raw(request("GET", target, f"Host: {served.own}"))
        assert b"root:" not in answer
        assert SECRET.encode() not in answer
        page = target.startswith("/?")
        assert int(answer.split(b" ", 2)[1]) in ((200,) if page else (400, 404, 405))
        assert (b"the page" in answer) == page

    @pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PROPFIND", "get", "X" * 500])
    def test_other_methods(self, method: str, served: Served) -> None:
        for target in ("/", "/inspect"):
            headers = [f"Host: {served.own}", f"Origin: http://{served.own}", "X-Secret: mirrored"]
            answer = served.raw(request(method, target, *headers))
            assert int(answer.split(b" ", 2)[1]) in (400, 404, 405)
            assert b"mirrored" not in answer

    def test_head_and_get(self, served: Served) -> None:
        answer = served.raw(request("HEAD", "/", f"Host: {served.own}"))
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"\r\n\r\n")
        assert served.get("/inspect") == 405

    def test_no_other_protocol(self, served: Served) -> None:
        upgrade = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
        upgrade.append("Sec-WebSocket-Key: " + "A" * 24)
        assert served.get("/", *upgrade) in (200, 400)
        assert served.status(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") in (0, 400, 421)
        assert served.status(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)) in (0, 400)


class TestAnswers:
    def test_headers_of_every_answer(self, served: Served) -> None:
        own = f"Host: {served.own}"
        asked = [request("GET", "/", own), request("GET", "/x", own), request("GET", "/", "Host: evil.example"),
                 request("PUT", "/", own, f"Origin: http://{served.own}")]  # fmt: skip
        for one in asked:
            head = served.raw(one).split(b"\r\n\r\n")[0].lower()
            for line in (b"x-frame-options: deny", b"x-content-type-options: nosniff", b"cache-control: no-store"):
                assert line in head, one
            assert b"server:" not in head
            assert b"set-cookie" not in head

    def test_nothing_asked_comes_back_as_a_header(self, served: Served) -> None:
        for target in ("/%0d%0aX-Injected:%201", "/x\\r\\nX-Injected: 1"):
            head = served.raw(request("GET", target, f"Host: {served.own}")).split(b"\r\n\r\n")[0].lower()
            assert b"\r\nx-injected" not in head

    def test_what_is_said_of_a_request_is_no_page(self, served: Served) -> None:
        answer = served.raw(request("GET", "/<script>alert(1)</script>", f"Host: {served.own}"))
        head, body = answer.split(b"\r\n\r\n", 1)
        assert b"content-type: application/json" in head.lower()
        assert json.loads(body)["error"]


def test_it_listens_on_loopback_alone() -> None:
    with serving.listen(0) as made:
        address, port = made.getsockname()
        assert address == "127.0.0.1"
        made.listen()
        for other in own_addresses():
            with pytest.raises((ConnectionError, TimeoutError)):
                socket.create_connection((other, port), timeout=1).close()


def own_addresses() -> set[str]:
    """This machine's addresses beside loopback, where it has any."""
    found = {entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    return {str(address) for address in found if not str(address).startswith("127.")}


def test_no_other_server_is_started() -> None:
    """All that listens is in one file, and binds to one address."""
    source = Path(serving.__file__).parent.parent
    signs = ("uvicorn", "http.server", "socketserver", ".bind((")
    texts = {str(path.relative_to(source)): path.read_text(encoding="utf-8") for path in source.rglob("*.py")}
    users = {name for name, text in texts.items() if any(sign in text for sign in signs)}
    assert users - {"cli/laboratory.py"} == {"cli/serving.py"}
    assert 'HERE = "127.0.0.1"' in Path(serving.__file__).read_text(encoding="utf-8")
