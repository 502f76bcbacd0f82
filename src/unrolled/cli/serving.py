"""The lab with a model behind it, for this machine alone: a page, and one address that looks into a text.

    GET  /           the page
    POST /inspect    {"text": "…", "prompt": "…" or null} → {"model": …, "generation": … or null}, or {"error": "…"}

It listens on 127.0.0.1 and answers only who asks for it by that name: a page from elsewhere cannot reach it through the
reader's browser, neither by its own address (Origin) nor by a name that was made to point here (Host). It reads no
file that a request names.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import webbrowser
from typing import Any

from unrolled.cli.show import say
from unrolled.errors import DataError, UnrolledError, expected

__all__ = ["LARGEST", "Answers", "application", "serve_lab"]

HERE = "127.0.0.1"
NAMES = (HERE, "localhost")
LARGEST = 64 * 1024  # bytes of a request; an item of 512 steps is far below
PATIENCE = 5.0  # seconds that a request waits for the one before it
HEADERS = {
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Busy(UnrolledError):
    """Another look is not done yet."""


class Answers:
    """A model that looks into texts, one at a time."""

    def __init__(self, name: str, trained: Any) -> None:
        self.name, self.trained, self._one = name, trained, threading.Lock()

    def __call__(self, asked: Any) -> dict[str, Any]:
        """What a request wants: an inspection of its text, and what a language model writes after it.

        Raises:
            DataError: the request is not of the form above, or its text cannot be read.
            Busy: the look before it takes longer than PATIENCE.
        """
        from unrolled.cli.inspecting import value_of
        from unrolled.training.inspection.lab_data import lab_data

        if not isinstance(asked, dict) or not isinstance(asked.get("text"), str):
            raise DataError(expected("request", '{"text": "…"}', type(asked).__name__))
        if not isinstance(asked.get("prompt"), str | None):
            raise DataError(expected("prompt", "a text or null", type(asked["prompt"]).__name__))
        item = value_of(self.trained, asked["text"], "the text")
        if not self._one.acquire(timeout=PATIENCE):
            raise Busy("the model is still looking into the text before; wait for it, and send shorter texts")
        try:
            found = lab_data([(self.name, self.trained)], [item], prompt=asked.get("prompt"))
        finally:
            self._one.release()
        return {"model": found["models"][0], "generation": next(iter(found["generation"]), None)}


def application(page: str, answers: Answers, port: int) -> Any:
    """The ASGI application, behind the checks of Host and Origin."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    hosts = {f"{name}:{port}" for name in NAMES}
    origins = {f"http://{host}" for host in hosts}

    def refused(status: int, why: str) -> Response:
        return JSONResponse({"error": why}, status, HEADERS)

    def stranger(request: Request) -> Response | None:
        if request.headers.get("host", "").lower() not in hosts:
            return refused(421, expected("Host", " or ".join(sorted(hosts)), request.headers.get("host")))
        origin = request.headers.get("origin")
        if origin not in origins and (request.method == "POST" or origin is not None):
            return refused(403, expected("Origin", " or ".join(sorted(origins)), origin))
        return None

    async def show(request: Request) -> Response:
        return stranger(request) or HTMLResponse(page, headers=HEADERS)

    async def look(request: Request) -> Response:
        if (refusal := stranger(request)) is not None:
            return refusal
        if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
            return refused(415, expected("Content-Type", "application/json", request.headers.get("content-type")))
        body = await _body(request)
        if body is None:
            return refused(413, expected("request", f"at most {LARGEST:,} bytes", "more", "Send a shorter text."))
        try:
            found = await run_in_threadpool(answers, json.loads(body))
        except Busy as error:
            return refused(503, str(error))
        except RecursionError:
            return refused(400, expected("request", '{"text": "…"}', "something nested too deeply"))
        except (ValueError, UnrolledError) as error:  # what the text or the request can cause
            return refused(400, str(error).splitlines()[0] if str(error) else type(error).__name__)
        text = json.dumps(found, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        return Response(text, media_type="application/json", headers=HEADERS)

    return Starlette(routes=[Route("/", show, methods=["GET"]), Route("/inspect", look, methods=["POST"])])


async def _body(request: Any) -> bytes | None:
    """The request's body; None as soon as it is too large, whatever its length says of itself."""
    told = request.headers.get("content-length", "")
    if told.isdigit() and int(told) > LARGEST:
        return None
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > LARGEST:
            return None
        parts.append(part)
    return b"".join(parts)


def listen(port: int) -> socket.socket:
    """A socket on this machine's own address.

    Raises:
        DataError: the port is taken.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if sys.platform != "win32":
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HERE, port))
    except OSError as error:
        made.close()
        way_out = "Leave out --port for a free one."
        raise DataError(expected("--port", "a port that is free", f"{port} ({error.strerror})", way_out)) from None
    return made


def serve_lab(page: str, answers: Answers, port: int, *, opened: bool) -> None:
    """Serve until Ctrl-C."""
    import uvicorn

    with listen(port) as made:
        own = made.getsockname()[1]
        address = f"http://{HERE}:{own}/"
        say(f"the lab is at {address}, for this machine only; Ctrl-C ends it")
        if opened:
            threading.Timer(0.5, webbrowser.open, [address]).start()
        settings: dict[str, Any] = {"log_level": "warning", "access_log": False, "server_header": False}
        server = uvicorn.Server(
            uvicorn.Config(application(page, answers, own), limit_concurrency=32, timeout_keep_alive=5, **settings)
        )
        server.run(sockets=[made])
