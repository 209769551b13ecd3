"""GitHub's and GitLab's comment APIs on loopback: state, pages of 100, and the faults a test asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

TOKEN = "ghs_token_that_must_stay_secret"
SHA = "0123456789abcdef0123456789abcdef01234567"
BOT = {"login": "github-actions[bot]", "type": "Bot"}
Fault = Callable[[Request], "Response | None"]


class FakeForge:
    """Comments of one request, and every call that was made."""

    def __init__(self, server: HTTPServer, *, per_page: int = 100) -> None:
        self.server = server
        self.comments: list[dict[str, Any]] = []
        self.calls: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.most = 262_144  # bytes of a body
        self.per_page = per_page
        self.next_id = 1000
        server.expect_request(re.compile(".*")).respond_with_handler(self._answer)

    @property
    def url(self) -> str:
        return self.server.url_for("").rstrip("/")

    @property
    def bodies(self) -> list[str]:
        return [comment["body"] for comment in self.comments]

    def writes(self) -> list[str]:
        return [method for method, _ in self.calls if method != "GET"]

    def add(self, body: str, author: dict[str, str] = BOT) -> dict[str, Any]:
        self.next_id += 1
        comment = self.shape(self.next_id, body, author)
        self.comments.append(comment)
        return comment

    def shape(self, number: int, body: str, author: dict[str, str]) -> dict[str, Any]:
        return {"id": number, "body": body, "user": author, "html_url": f"https://forge/c/{number}"}

    def _answer(self, request: Request) -> Response:
        self.calls.append((request.method, request.full_path.rstrip("?")))
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return reply(401, {"message": "Bad credentials"})
        for fault in self.faults:
            if (answer := fault(request)) is not None:
                return answer
        return self.route(request)

    def route(self, request: Request) -> Response:
        raise NotImplementedError

    def page(self, request: Request, items: list[dict[str, Any]]) -> Response:
        size = min(int(request.args.get("per_page", 30)), self.per_page)
        number = int(request.args.get("page", 1))
        answer = reply(200, items[(number - 1) * size : number * size])
        if number * size < len(items):
            following = f"{request.base_url}?per_page={size}&page={number + 1}"
            answer.headers["Link"] = f'<{following}>; rel="next", <{request.base_url}>; rel="first"'
        return answer

    def write(self, request: Request, comment: dict[str, Any] | None, author: dict[str, str]) -> Response:
        body = json.loads(request.data)["body"]
        if len(body.encode()) > self.most:
            return reply(422, {"message": "Validation Failed", "errors": [{"message": "Body is too long"}]})
        if comment is None:
            return reply(201, self.add(body, author))
        comment["body"] = body
        return reply(200, comment)


class FakeGitHub(FakeForge):
    """Pull request 7 of owner/repo."""

    pulls: list[dict[str, Any]]
    checks: list[dict[str, Any]]  # check runs, as they are after their updates
    user: dict[str, str] | None = None  # whom GET /user names; a job's token may not ask

    def __init__(self, server: HTTPServer, *, per_page: int = 100) -> None:
        super().__init__(server, per_page=per_page)
        self.checks = []

    def route(self, request: Request) -> Response:
        path, method = request.path, request.method
        if path == "/user":
            if self.user is None:
                return reply(403, {"message": "Resource not accessible by integration"})
            return reply(200, self.user)
        if path.startswith("/repos/owner/repo/check-runs"):
            return self.check_run(request)
        if path == "/repos/owner/repo/pulls":
            head = request.args.get("head")
            named = [p for p in self.pulls if f"{p['head']['user']}:{p['head']['ref']}" == head]
            return self.page(request, named)
        if path == "/repos/owner/repo/issues/7/comments":
            if method == "GET":
                return self.page(request, self.comments)
            return self.write(request, None, self.user or BOT)
        found = [c for c in self.comments if path == f"/repos/owner/repo/issues/comments/{c['id']}"]
        if not found:
            return reply(404, {"message": "Not Found"})
        if method == "DELETE":
            self.comments.remove(found[0])
            return Response(status=204)
        return self.write(request, found[0], BOT)

    def check_run(self, request: Request) -> Response:
        said = json.loads(request.data)
        if len(said["output"]["annotations"]) > 50:
            return reply(422, {"message": "Invalid request. No more than 50 items are allowed"})
        if request.method == "POST":
            number = len(self.checks) + 1
            self.checks.append({"id": number, "html_url": f"https://forge/r/{number}", **said})
            return reply(201, self.checks[-1])
        run = self.checks[int(request.path.rsplit("/", 1)[1]) - 1]
        run["output"]["annotations"] += said["output"]["annotations"]
        return reply(200, run)


class FakeGitLab(FakeForge):
    """Merge request 7 of project 42."""

    def shape(self, number: int, body: str, author: dict[str, str]) -> dict[str, Any]:
        return {"id": number, "body": body, "author": {"username": author["login"]}, "system": False}

    def route(self, request: Request) -> Response:
        notes = "/api/v4/projects/42/merge_requests/7/notes"
        if request.path == "/api/v4/user":
            return reply(200, {"username": BOT["login"]})
        if request.path == notes:
            if request.method == "GET":
                return self.page(request, self.comments)
            return self.write(request, None, BOT)
        found = [c for c in self.comments if request.path == f"{notes}/{c['id']}"]
        if not found or request.method not in ("PUT", "DELETE"):
            return reply(404, {"message": "404 Not found"})
        return self.write(request, found[0], BOT)


def reply(status: int, document: object, **headers: str) -> Response:
    answer = Response(json.dumps(document), status, content_type="application/json")
    answer.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return answer


def times(many: int, *methods: str, answer: Callable[[], Response]) -> Fault:
    """Answer the first `many` calls of these methods with a fault."""
    left = [many]

    def fault(request: Request) -> Response | None:
        if request.method not in methods or not left[0]:
            return None
        left[0] -= 1
        return answer()

    return fault
