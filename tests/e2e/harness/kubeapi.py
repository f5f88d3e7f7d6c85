# SPDX-License-Identifier: Apache-2.0
"""A double of the Kubernetes API server, for tests on every commit.

It keeps objects of any resource in memory and does what a real one (1.34) was seen to
do where a client must cope with it: pages and `continue`, watches in chunks with
bookmarks, 410 as HTTP status and as an ERROR event in an answer of 200, 429 with
Retry-After, 409 for old versions, wrong uids and taken names, deletion that waits for
finalizers, merge patches, the status sub-resource, dry runs, TokenReviews, fields of
devices that a feature gate drops (`gates`), 422 for names and labels that are none, and
for a status of those in `invalid`.  No
admission, no TLS, and of the schema only the length of status.consumers.

`writes` counts; `on_write` is called before each write is answered, with its number, and
may kill whoever sent it: the write has happened then, and its answer never arrives.
`before_write` is called with (method, resource, name) before a write happens; when it
returns True the link is cut instead.  `faults` counts what was played of the above, so
that a test can show that its subject has met it.
"""

import json
import re
import socket
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

PATH = re.compile(r"/(?:api/v1|apis/[^/]+/[^/]+)(?:/namespaces/([^/]+)(?=/))?/([a-z]+)"
                  r"(?:/([^/]+))?(?:/([a-z]+))?$")
CONSUMERS_MAX = 256  # maxItems of status.consumers in deploy/chart/gpupool/crds
NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,251})?[A-Za-z0-9]")


class Refusal(Exception):
    def __init__(self, code, reason, message):
        super().__init__(message)
        self.code, self.reason = code, reason


def merge(target, patch):
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            if not isinstance(target.get(key), dict):
                target[key] = {}
            merge(target[key], value)
        else:
            target[key] = value


class KubeApi:
    def __init__(self):
        self.lock = threading.Condition()
        self.objects = {}   # (resource, namespace or "", name) -> object
        self.history = []   # (revision, resource, type, object as JSON)
        self.revision = 100
        self.oldest = 0     # watches from before this are answered with 410
        self.busy = {}      # resource -> answers of 429 still to give
        self.unknown = set()  # resources whose CustomResourceDefinition is not there
        self.stale = {}     # resource -> changes still to be refused with 409
        self.invalid = set()  # (resource, namespace, name) whose status is refused with 422
        self.faults = Counter()
        self.watch_s = 20   # after which the server ends a watch
        self.tokens = {}    # token -> status of its TokenReview
        self.gates = set()  # DRAConsumableCapacity
        self.writes = 0
        self.requests = []  # (method, path)
        self.on_write = self.before_write = None
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                api.answer(self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # whoever asked was killed

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    # ------------------------------------------------------- for the tests

    def put(self, resource, obj):
        """Create or replace, as a user would."""
        with self.lock:
            meta = obj["metadata"]
            key = (resource, meta.get("namespace", ""), meta["name"])
            old = self.objects.get(key)
            meta.setdefault("uid", old["metadata"]["uid"] if old else f"uid-{self.revision}")
            meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
            self.store(key, obj, "MODIFIED" if old else "ADDED")

    def get(self, resource, name, ns=""):
        with self.lock:
            found = self.objects.get((resource, ns, name))
            return json.loads(json.dumps(found)) if found else None

    def all(self, resource):
        with self.lock:
            return [json.loads(json.dumps(o)) for k, o in sorted(self.objects.items())
                    if k[0] == resource]

    def delete(self, resource, name, ns=""):
        with self.lock:
            self.remove((resource, ns, name))

    def compact(self):
        """Forget the past: every watch ends with 410."""
        with self.lock:
            self.revision += 1
            self.oldest = self.revision
            self.lock.notify_all()

    # ------------------------------------------------------------- objects

    def store(self, key, obj, kind):
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        if kind == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = obj
        self.history.append((self.revision, key[0], kind, json.dumps(obj)))
        self.lock.notify_all()
        return obj

    def remove(self, key):
        obj = self.objects.get(key)
        if not obj:
            raise Refusal(404, "NotFound", f"{key[0]} {key[2]} not found")
        if obj["metadata"].get("finalizers"):
            obj["metadata"].setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
            return self.store(key, obj, "MODIFIED")
        return self.store(key, obj, "DELETED")

    def create(self, key, obj):
        if key[0] == "tokenreviews":
            found = self.tokens.get(obj["spec"]["token"], {"authenticated": False})
            # Those of the question that the token is for; a test may say otherwise.
            known = {"audiences": obj["spec"]["audiences"]} if found["authenticated"] else {}
            obj["status"] = {**known, **found}
            return obj
        if key in self.objects:
            raise Refusal(409, "AlreadyExists", f"{key[0]} {key[2]} already exists")
        for value in (key[2], *obj["metadata"].get("labels", {}).values()):
            if value and not NAME.fullmatch(value):
                raise Refusal(422, "Invalid", f"{key[0]}: {value!r} is no name or label value")
        obj["metadata"].update(uid=f"uid-{self.revision}",
                               creationTimestamp="2026-01-01T00:00:00Z")
        obj.pop("status", None)
        return self.store(key, obj, "ADDED")

    def change(self, key, patch, sub, whole):
        old = self.objects.get(key)
        if not old:
            raise Refusal(404, "NotFound", f"{key[0]} {key[2]} not found")
        meta = patch.get("metadata", {})
        if self.stale.get(key[0]) and "resourceVersion" in meta:
            self.stale[key[0]] -= 1
            raise Refusal(409, "Conflict", "somebody else has just changed it")
        for field in ("uid", "resourceVersion"):
            if field in meta and meta[field] != old["metadata"][field]:
                raise Refusal(409, "Conflict", f"{field} {meta[field]} is not that of {key[2]}")
        consumers = (patch.get("status") or {}).get("consumers") or []
        if sub == "status" and (key in self.invalid or len(consumers) > CONSUMERS_MAX):
            raise Refusal(422, "Invalid", f"{key[0]} {key[2]}: status: Too many")
        new = json.loads(json.dumps(old))
        if whole:
            new = dict(patch, metadata={**old["metadata"], **meta})
        else:
            merge(new, {"status": patch.get("status", {})} if sub == "status" else
                  {k: v for k, v in patch.items() if k != "status"})
        if new == old:
            return old
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            return self.store(key, new, "DELETED")
        return self.store(key, new, "MODIFIED")

    # ------------------------------------------------------------ requests

    def answer(self, http):
        try:
            self.dispatch(http)
        except Refusal as refusal:
            self.faults[f"{refusal.code} {refusal.reason}"] += 1
            self.send(http, refusal.code, {"kind": "Status", "reason": refusal.reason,
                                           "code": refusal.code, "message": str(refusal)},
                      {"Retry-After": "1"} if refusal.code == 429 else {})

    @staticmethod
    def send(http, code, obj, headers=()):
        body = json.dumps(obj).encode()
        http.send_response(code)
        for name, value in dict(headers).items():
            http.send_header(name, value)
        http.send_header("Content-Length", str(len(body)))
        http.end_headers()
        http.wfile.write(body)

    def dispatch(self, http):
        url = urlsplit(http.path)
        match = PATH.match(url.path)
        if not match:
            raise Refusal(404, "NotFound", f"no path {url.path}")
        ns, resource, name, sub = (unquote(x) if x else "" for x in match.groups())
        query = {k: v[0] for k, v in parse_qs(url.query).items()}
        length = int(http.headers.get("Content-Length") or 0)
        body = json.loads(http.rfile.read(length)) if length else {}
        with self.lock:
            self.requests.append((http.command, url.path))
            if resource in self.unknown:
                raise Refusal(404, "NotFound", "the server could not find the resource")
            if self.busy.get(resource):
                self.busy[resource] -= 1
                raise Refusal(429, "TooManyRequests", "storage is (re)initializing")
        label = query.get("labelSelector", "").partition("=")[::2]
        only = ns, query.get("fieldSelector", "").removeprefix("metadata.name=")
        select = lambda obj: self.selected(obj, label, only)  # noqa: E731
        if http.command == "GET" and query.get("watch"):
            self.watch(http, resource, int(query.get("resourceVersion") or 0), select)
        elif http.command == "GET":
            self.read(http, (resource, ns, name), query, select)
        else:
            self.write(http, resource, ns, name, sub, body, query.get("dryRun"))

    @staticmethod
    def selected(obj, label, only):
        """@only: a namespace and a name, each "" for all."""
        meta = obj["metadata"]
        return all(not wanted or meta.get(field) == wanted for wanted, field in
                   zip(only, ("namespace", "name"))) and (
            not label[0] or meta.get("labels", {}).get(label[0]) == label[1])

    def read(self, http, key, query, select):
        with self.lock:
            if key[2]:
                if key not in self.objects:
                    raise Refusal(404, "NotFound", f"{key[0]} {key[2]} not found")
                answer = json.loads(json.dumps(self.objects[key]))
            else:
                names = sorted(k for k, o in self.objects.items()
                               if k[0] == key[0] and select(o))
                start = int(query.get("continue") or 0)
                end = start + int(query.get("limit") or 500)
                meta = {"resourceVersion": str(self.revision)}
                if end < len(names):
                    meta["continue"] = str(end)
                answer = {"metadata": meta, "items": [self.objects[k] for k in names[start:end]]}
                answer = json.loads(json.dumps(answer))
        self.send(http, 200, answer)

    def drop_disabled(self, resource, body):
        if resource != "resourceslices" or "DRAConsumableCapacity" in self.gates:
            return
        for device in body.get("spec", {}).get("devices", []):
            device.pop("allowMultipleAllocations", None)
            for capacity in device.get("capacity", {}).values():
                capacity.pop("requestPolicy", None)

    def write(self, http, resource, ns, name, sub, body, dry_run):
        self.drop_disabled(resource, body)
        if self.before_write and self.before_write(http.command, resource, name or body.get(
                "metadata", {}).get("name", "")):
            http.connection.shutdown(socket.SHUT_RDWR)
            raise ConnectionResetError
        if dry_run:
            self.send(http, 201, body)
            return
        with self.lock:
            key = (resource, ns, name or body.get("metadata", {}).get("name", ""))
            if sub == "binding":
                self.change(key, {"spec": {"nodeName": body["target"]["name"]}}, "", False)
                self.send(http, 201, {"kind": "Status", "status": "Success"})
                return
            if http.command == "POST":
                obj = self.create(key, body)
            elif http.command == "DELETE":
                uid = body.get("preconditions", {}).get("uid")
                if uid and key in self.objects and uid != self.objects[key]["metadata"]["uid"]:
                    raise Refusal(409, "Conflict", "another object of that name")
                obj = self.remove(key)
            else:
                obj = self.change(key, body, sub, http.command == "PUT")
            obj = json.loads(json.dumps(obj))
            if resource not in ("leases", "events", "tokenreviews"):
                self.writes += 1
                number = self.writes
            else:
                number = 0
        if number and self.on_write:
            self.on_write(number)
        self.send(http, 201 if http.command == "POST" else 200, obj)

    def watch(self, http, resource, since, select):
        http.send_response(200)
        http.send_header("Transfer-Encoding", "chunked")
        http.end_headers()

        def chunk(text):
            data = text.encode()
            half = len(data) // 2  # never a whole line at a time
            for part in (data[:half], data[half:]):
                if part:
                    self.faults["half a line"] += 1
                    http.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            http.wfile.flush()

        end = time.monotonic() + self.watch_s
        try:
            while time.monotonic() < end:
                with self.lock:
                    if since < self.oldest:
                        self.faults["200 with ERROR 410"] += 1
                        chunk(json.dumps({"type": "ERROR", "object": {
                            "kind": "Status", "code": 410, "message": "too old"}}) + "\n")
                        break
                    events = [e for e in self.history if e[0] > since and e[1] == resource]
                    now = self.revision
                    if not events:
                        self.lock.wait(1)
                for revision, _, kind, obj in events:
                    since = revision
                    if select(json.loads(obj)):
                        chunk(f'{{"type":"{kind}","object":{obj}}}\n')
                if not events and now > since:
                    self.faults["BOOKMARK"] += 1
                    chunk(json.dumps({"type": "BOOKMARK", "object": {
                        "metadata": {"resourceVersion": str(now)}}}) + "\n")
                    since = now
            http.wfile.write(b"0\r\n\r\n")
        except OSError:
            http.close_connection = True
