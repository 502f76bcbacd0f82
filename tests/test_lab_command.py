"""`unrolled lab`: the file, what is refused, and the server, which answers this machine's own page and nobody else."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from small_data import documents, reviews
from test_cli_commands import run  # noqa: F401  (a fixture)
from unrolled.cli import serving
from unrolled.training import Recipe, load, train

SMALL: dict[str, Any] = {"hidden": 4, "embedding": 3, "epochs": 1, "batch_size": 8}
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from unrolled.cli import main; main(sys.argv[1:])"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    text = str(documents(folder / "a.txt"))
    train(Recipe(task="lm", data=text, cell="gru", format="documents", chunk=16, **SMALL), out=folder / "song")
    train(Recipe(task="classify", data=str(reviews(folder / "a.csv")), min_count=1, **SMALL), out=folder / "mood")
    return folder


def data_of(page: str) -> dict[str, Any]:
    """What a page was given."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


class TestFile:
    def test_without_a_run_it_needs_no_torch(self, tmp_path: Path) -> None:
        command = [sys.executable, "-c", WITHOUT_TORCH, "lab", "--no-open", "-o", str(tmp_path / "x.html")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        data = data_of((tmp_path / "x.html").read_text(encoding="utf-8"))
        assert [model["name"] for model in data["models"]] == ["RNN", "GRU", "LSTM"]

    def test_a_run_stands_before_the_demo(self, runs: Path, run: Any, tmp_path: Path) -> None:  # noqa: F811
        file = tmp_path / "lab.html"
        text = "abc</script>🙂שלום"
        done = run("lab", str(runs / "song"), "--text", text, "--language", "zh", "-o", str(file), "--no-open")
        assert done.code == 0, done.err
        data = data_of(file.read_text(encoding="utf-8"))
        assert [model["name"] for model in data["models"]] == ["song", "RNN", "GRU", "LSTM"]
        assert data["models"][0]["items"][0]["text"] == text
        assert data["models"][0]["items"][0]["unknown"]
        assert data["language"] == "zh"
        assert done.out.strip() == str(file)

    def test_several_runs_side_by_side(self, runs: Path, run: Any, tmp_path: Path) -> None:  # noqa: F811
        file = tmp_path / "lab.html"
        done = run("lab", str(runs / "song"), str(runs / "mood" / "model.safetensors"), "-o", str(file), "--no-open")
        assert done.code == 0, done.err
        data = data_of(file.read_text(encoding="utf-8"))
        assert [model["name"] for model in data["models"]][:2] == ["song", "mood"]
        assert data["generation"][0]["name"] == "song"

    def test_one_text_for_runs_of_two_kinds(self, runs: Path, run: Any, tmp_path: Path) -> None:  # noqa: F811
        rows = "".join(f"{step},{step % 7}\n" for step in range(90))
        (tmp_path / "a.csv").write_text("time,target\n" + rows, encoding="utf-8")
        fields: dict[str, Any] = {"horizon": 3, "lookback": 6, "epoch_windows": 8, "compare_with": "none"}
        train(Recipe(task="forecast", data=str(tmp_path / "a.csv"), **fields, **SMALL), out=tmp_path / "shop")
        done = run("lab", str(runs / "mood"), str(tmp_path / "shop"), "--text", "good", "--no-open")
        assert done.code == 2
        assert "--text: expected runs that read texts, as mood, found shop, which reads series" in done.err

    def test_a_long_text_is_cut_and_said(self, runs: Path, run: Any, tmp_path: Path) -> None:  # noqa: F811
        file = tmp_path / "lab.html"
        done = run("lab", str(runs / "mood"), "--text", "good " * 700, "-o", str(file), "--no-open")
        assert "cut to 512 steps" in done.err
        assert data_of(file.read_text(encoding="utf-8"))["models"][0]["items"][0]["cut"] == 188

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--text", "abc"], "a run that reads the text"),
            (["--serve"], "one run"),
            (["RUN", "--serve", "-o", "x.html"], "--serve or --out"),
            (["--language", "fr"], "en or zh"),
        ],
    )
    def test_what_is_refused(self, runs: Path, run: Any, arguments: list[str], said: str) -> None:  # noqa: F811
        done = run("lab", *(str(runs / "song") if one == "RUN" else one for one in arguments), "--no-open")
        assert done.code == 2
        assert said in done.err
        assert "Traceback" not in done.err

    def test_a_folder_that_is_no_run(self, run: Any, tmp_path: Path) -> None:  # noqa: F811
        done = run("lab", str(tmp_path), "--no-open")
        assert done.code == 1
        assert "model.safetensors" in done.err


class Client:
    """A browser's part: what it sends is what a page could make it send."""

    def __init__(self, port: int, answers: Any = None) -> None:
        self.port, self.own, self.answers = port, f"127.0.0.1:{port}", answers

    def ask(self, method: str, path: str, body: Any = None, **headers: str | None) -> tuple[int, dict[str, str], bytes]:
        given = {"host": self.own} | {name.replace("_", "-"): value for name, value in headers.items()}
        if method == "POST":
            given = {"origin": f"http://{self.own}", "content-type": "application/json"} | given
        sent = body if isinstance(body, bytes | type(None)) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            if sent is not None:
                given = {"content-length": str(len(sent))} | given
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(sent)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def client(runs: Path) -> Iterator[Client]:
    import uvicorn

    answers = serving.Answers("song", load(runs / "song", "cpu"))
    with serving.listen(0) as made:
        port = made.getsockname()[1]
        app = serving.application("<p>the page</p>", answers, port)
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [made]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield Client(port, answers)
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


class TestServer:
    def test_the_page(self, client: Client) -> None:
        status, headers, body = client.ask("GET", "/")
        assert (status, body) == (200, b"<p>the page</p>")
        assert headers["cache-control"] == "no-store"
        assert headers["x-frame-options"] == "DENY"
        for name in ("localhost", "LocalHost"):
            assert client.ask("GET", "/", host=f"{name}:{client.port}")[0] == 200

    def test_a_text(self, client: Client) -> None:
        text = 'abc</script>🙂 שלום "'
        status, headers, body = client.ask("POST", "/inspect", {"text": text, "prompt": "ab"})
        assert status == 200
        assert headers["content-type"] == "application/json"
        found = json.loads(body)
        assert found["model"]["items"][0]["text"] == text
        assert found["model"]["name"] == "song"
        assert "".join(found["generation"]["prompt"][1:]) == "ab"
        again = json.loads(client.ask("POST", "/inspect", {"text": text, "prompt": "ab"})[2])
        assert again == found

    @pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80", None])
    def test_other_hosts(self, client: Client, host: str | None) -> None:
        for method, path in (("GET", "/"), ("POST", "/inspect")):
            assert client.ask(method, path, {"text": "ab"} if method == "POST" else None, host=host)[0] in (400, 421)

    @pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:1", None])
    def test_other_origins(self, client: Client, origin: str | None) -> None:
        assert client.ask("POST", "/inspect", {"text": "ab"}, origin=origin)[0] == 403

    def test_another_page_cannot_read_the_page(self, client: Client) -> None:
        assert client.ask("GET", "/", origin="http://evil.example")[0] == 403

    def test_a_second_look_is_told_to_wait(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(serving, "PATIENCE", 0.01)
        with client.answers._one:
            status, _, answer = client.ask("POST", "/inspect", {"text": "ab"})
        assert status == 503
        assert "still looking" in json.loads(answer)["error"]
        assert client.ask("POST", "/inspect", {"text": "ab"})[0] == 200

    def test_a_form_of_another_page(self, client: Client) -> None:
        for kind in ("text/plain", "application/x-www-form-urlencoded", None):
            assert client.ask("POST", "/inspect", {"text": "ab"}, content_type=kind)[0] == 415

    def test_a_request_that_is_too_large(self, client: Client) -> None:
        body = json.dumps({"text": "a" * serving.LARGEST}).encode()
        assert client.ask("POST", "/inspect", body)[0] == 413
        chunk = b"a" * 1024
        chunks = (f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n") * 80 + b"0\r\n\r\n"
        headers = {"content_length": None, "transfer_encoding": "chunked"}
        assert client.ask("POST", "/inspect", chunks, **headers)[0] == 413  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "body", [b"", b"{", b"[]", b'{"text": 3}', b'{"text": "ab", "prompt": []}', b"\xff", b"[" * 60_000]
    )
    def test_a_request_that_is_none(self, client: Client, body: bytes) -> None:
        status, _, answer = client.ask("POST", "/inspect", body)
        assert status == 400
        assert json.loads(answer)["error"]

    @pytest.mark.parametrize(
        "path",
        ["/lab.html", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/static/lab.js", "//etc/passwd"],
    )
    def test_no_other_file(self, client: Client, path: str) -> None:
        status, _, body = client.ask("GET", path)
        assert status in (404, 307, 405)
        assert b"root:" not in body

    def test_other_methods(self, client: Client) -> None:
        assert client.ask("GET", "/inspect")[0] == 405
        assert client.ask("DELETE", "/")[0] == 403  # nothing but GET goes without an Origin
        assert client.ask("DELETE", "/", origin=f"http://{client.own}")[0] == 405

    def test_it_listens_here_only(self, client: Client) -> None:
        with serving.listen(0) as made:
            assert made.getsockname()[0] == "127.0.0.1"
        with pytest.raises(Exception, match="a port that is free"):
            serving.listen(client.port)


def test_serving_from_the_command(runs: Path) -> None:
    """The command starts, answers, and ends with Ctrl-C's code."""
    import signal

    command = [sys.executable, "-m", "unrolled", "lab", str(runs / "song"), "--serve", "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stderr is not None
            lines = []
            for line in process.stderr:
                lines.append(line)
                if found := re.search(r"http://127\.0\.0\.1:(\d+)/", line):
                    break
            assert found, "".join(lines)
            client = Client(int(found[1]))
            deadline = time.monotonic() + 30
            while True:
                try:
                    status, _, body = client.ask("GET", "/")
                    break
                except ConnectionError:
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
            assert status == 200
            assert data_of(body.decode())["serve"] == {"path": "/inspect", "name": "song"}
            process.send_signal(signal.SIGINT)
            assert process.wait(20) in (0, 130)
        finally:
            process.kill()
