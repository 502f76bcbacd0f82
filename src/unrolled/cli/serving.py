"""The lab with a model behind it, for this machine alone: a page, and one address that looks into a text.

    GET  /           the page
    POST /inspect    {"text": "…", "prompt": "…" or null} → {"model": …, "generation": … or null}, or {"error": "…"}

It listens on 127.0.0.1 and answers only who asks for it by that name: a page from elsewhere cannot reach it through the
reader's browser, neither by its own address (Origin) nor by a name that was made to point here (Host). It reads no
file that a request names. A request must have come within twice SLOWEST seconds, in no more than LARGEST bytes.
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
SLOWEST = 10.0  # seconds in which a request must have come: without it, a few that never end would keep others out
CROWD = 32  # connections at once
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
    """The ASGI application, behind the checks of Host and Origin, which every path and method goes through."""
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
        said = {name: request.headers.getlist(name) for name in ("host", "origin")}
        host, origin = (", ".join(values) if values else None for values in said.values())
        if host is None or host.lower() not in hosts:
            return refused(421, expected("Host", " or ".join(sorted(hosts)), host))
        if origin not in origins and (request.method not in ("GET", "HEAD") or origin is not None):
            return refused(403, expected("Origin", " or ".join(sorted(origins)), origin))
        return None

    async def show(_: Request) -> Response:
        return HTMLResponse(page, headers=HEADERS)

    async def look(request: Request) -> Response:
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

    async def elsewhere(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        return refused(status, expected("request", "GET / or POST /inspect", f"{request.method} {request.url.path}"))

    routes = [Route("/", show, methods=["GET"]), Route("/inspect", look, methods=["POST"])]
    inner = Starlette(routes=routes, exception_handlers={404: elsewhere, 405: elsewhere})
    inner.router.redirect_slashes = False

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        refusal = stranger(Request(scope)) if scope["type"] == "http" else None
        await (inner if refusal is None else refusal)(scope, receive, send)

    return guarded


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


def settings() -> dict[str, Any]:
    """How uvicorn is run: its plainest protocol, no proxy believed, no second protocol spoken, and time limited."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Hurried(H11Protocol):
        """Closes a connection whose request has not come in time."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.loop.call_later(SLOWEST, self._look, None)

        def _look(self, before: Any) -> None:
            """Is it still the same request that is being sent? `cycle` is the newest whose head has come."""
            if self.transport.is_closing():
                return
            sending = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
            if sending and before is self.cycle:
                self.transport.abort()
            else:
                self.loop.call_later(SLOWEST, self._look, self.cycle if sending else self)

    limits = {"limit_concurrency": CROWD, "timeout_keep_alive": 5, "h11_max_incomplete_event_size": 16 * 1024}
    quiet = {"log_level": "warning", "access_log": False, "server_header": False}
    return {"http": Hurried, "ws": "none", "lifespan": "off", "proxy_headers": False, **limits, **quiet}


def serve_lab(page: str, answers: Answers, port: int, *, opened: bool) -> None:
    """Serve until Ctrl-C."""
    import uvicorn

    with listen(port) as made:
        own = made.getsockname()[1]
        address = f"http://{HERE}:{own}/"
        say(f"the lab is at {address}, for this machine only; Ctrl-C ends it")
        if opened:
            threading.Timer(0.5, webbrowser.open, [address]).start()
        uvicorn.Server(uvicorn.Config(application(page, answers, own), **settings())).run(sockets=[made])
