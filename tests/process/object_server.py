"""A small HTTP server of objects, as a store is one: ranges, tags, conditions;
on request the S3 interface (buckets in the path, listings in pages, signatures
that it computes anew), and faults. What it was asked is kept."""

import hashlib
import hmac
import http.server
import ssl
import threading
import urllib.parse
from xml.sax.saxutils import escape

KEYS = ("AKIDOFATEST", "hush/of+a/test", "token/of+a/session==")
REGION = "eu-test-1"


class Objects(http.server.ThreadingHTTPServer):
    """Serves `objects`, {path: bytes}, where a path is "/a/b". `faults`: of
    (number of the request, path) -> None or the name of what goes wrong:
    "500", "503", "drop" (half of a body, then the end), "stall" (half of it,
    then nothing), "slow" (a tenth of a second late), "refuse" (403)."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, objects, s3=False, faults=None, ranges=True, tls=None,
                 page=3, tagged=True, quotes="&quot;",
                 endless=False):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects = dict(objects)
        self.s3 = s3
        self.faults = faults or (lambda number, path: None)
        self.ranges = ranges
        self.page = page
        self.tagged = tagged
        self.quotes = quotes  # about the tags of listings
        self.endless = endless  # listings have a further page, always empty
        self.lock = threading.Lock()
        self.asked = []  # (path, Range or None, status)
        self.struck = []  # the faults that were played
        self.ended = threading.Event()
        self.scheme = "https" if tls else "http"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.thread = threading.Thread(target=self.serve_forever,
                                       args=(0.02,), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass  # who is killed leaves connections half-open

    @property
    def place(self):
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    @property
    def environment(self):
        """What a process needs to find it as an S3 store."""
        return {"AWS_ACCESS_KEY_ID": KEYS[0], "AWS_SECRET_ACCESS_KEY": KEYS[1],
                "AWS_SESSION_TOKEN": KEYS[2], "AWS_REGION": REGION,
                "AWS_ENDPOINT_URL": self.place}

    def requests(self, path=None):
        with self.lock:
            return [x for x in self.asked if path is None or x[0] == path]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def note(self, status):
        with self.server.lock:
            self.server.asked.append((urllib.parse.unquote(
                urllib.parse.urlsplit(self.path).path),
                self.headers.get("Range"), status))

    def answer(self, status, body=b"", **fields):
        self.note(status)
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def s3_error(self, status, code):
        self.answer(status, f"<?xml version='1.0'?><Error><Code>{code}</Code>"
                    f"<Message>of {KEYS[0]}</Message></Error>".encode())

    def do_GET(self):
        parts = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(parts.path)
        query = dict(urllib.parse.parse_qsl(parts.query,
                                            keep_blank_values=True))
        with self.server.lock:
            number = len(self.server.asked)
        fault = self.server.faults(number, path)
        if fault:
            with self.server.lock:
                self.server.struck.append(fault)
        if fault in ("500", "503"):
            return self.answer(int(fault))
        if fault == "refuse":
            return self.s3_error(403, "AccessDenied")
        if fault == "slow":
            self.server.ended.wait(0.1)
        if self.server.s3 and not self.is_signed(parts):
            return self.s3_error(403, "SignatureDoesNotMatch")
        if self.server.s3 and query.get("list-type") == "2":
            return self.list(path, query)
        body = self.server.objects.get(path)
        if body is None:
            return self.s3_error(404, "NoSuchKey")
        tag = f'"{hashlib.md5(body).hexdigest()}"'
        if self.headers.get("If-Match", tag) != tag:
            return self.answer(412)
        fields = {"ETag": tag} if self.server.tagged else {}
        wanted = self.headers.get("Range")
        if wanted is None or not self.server.ranges:
            return self.send(200, body, fault, fields)
        first, last = wanted.removeprefix("bytes=").split("-")
        first, last = int(first), min(int(last), len(body) - 1)
        if first > last:
            fields["Content_Range"] = f"bytes */{len(body)}"
            return self.answer(416, **fields)
        fields["Content_Range"] = f"bytes {first}-{last}/{len(body)}"
        return self.send(206, body[first:last + 1], fault, fields)

    def send(self, status, body, fault, fields):
        if fault not in ("drop", "stall"):
            return self.answer(status, body, **fields)
        self.note(status)
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:len(body) // 2])
        self.wfile.flush()
        if fault == "stall":
            self.server.ended.wait(30)
        self.close_connection = True

    # --- S3 -------------------------------------------------------------------

    def list(self, path, query):
        bucket = path.rstrip("/")
        keys = sorted(x[len(bucket) + 1:] for x in self.server.objects
                      if x.startswith(bucket + "/"))
        if self.server.endless:
            page = int(query.get("continuation-token", 0)) + 1
            self.answer(200, (
                "<ListBucketResult><IsTruncated>true</IsTruncated>"
                f"<NextContinuationToken>{page}</NextContinuationToken>"
                "</ListBucketResult>").encode())
            return
        prefix = query.get("prefix", "")
        keys = [x for x in keys if x.startswith(prefix)]
        if query.get("delimiter") == "/":
            keys = [x for x in keys if "/" not in x[len(prefix):]]
        keys = [x for x in keys if x > query.get("continuation-token", "")]
        page, rest = keys[:self.server.page], keys[self.server.page:]
        text = "".join(
            f"<Contents><Key>{escape(urllib.parse.quote_plus(x))}</Key><ETag>"
            f"{self.server.quotes}"
            f"{hashlib.md5(self.server.objects[bucket + '/' + x]).hexdigest()}"
            f"{self.server.quotes}"
            f"</ETag><Size>{len(self.server.objects[bucket + '/' + x])}"
            "</Size></Contents>" for x in page)
        more = f"<NextContinuationToken>{escape(page[-1])}" \
            "</NextContinuationToken>" if rest else ""
        self.answer(200, (
            "<?xml version='1.0' encoding='UTF-8'?><ListBucketResult>"
            f"<EncodingType>url</EncodingType><IsTruncated>"
            f"{'true' if rest else 'false'}</IsTruncated>{more}{text}"
            "</ListBucketResult>").encode())

    def is_signed(self, parts):
        """As Amazon's "Signature Version 4 signing process" says."""
        given = self.headers.get("Authorization", "")
        if not given.startswith("AWS4-HMAC-SHA256 "):
            return False
        words = dict(x.strip().split("=", 1)
                     for x in given.split(" ", 1)[1].split(","))
        key, day, region, service, end = words["Credential"].split("/")
        if (key, region, service, end) != (KEYS[0], REGION, "s3",
                                           "aws4_request"):
            return False
        if self.headers.get("X-Amz-Security-Token") != KEYS[2]:
            return False
        names = words["SignedHeaders"].split(";")
        query = sorted(urllib.parse.parse_qsl(parts.query,
                                              keep_blank_values=True))
        canonical = "\n".join([
            "GET", parts.path,
            "&".join(f"{urllib.parse.quote(k, '-_.~')}="
                     f"{urllib.parse.quote(v, '-_.~')}" for k, v in query),
            *(f"{x}:{' '.join(self.headers[x].split())}" for x in names), "",
            words["SignedHeaders"], self.headers["x-amz-content-sha256"]])
        to_sign = "\n".join([
            "AWS4-HMAC-SHA256", self.headers["X-Amz-Date"],
            f"{day}/{region}/{service}/{end}",
            hashlib.sha256(canonical.encode()).hexdigest()])
        secret = ("AWS4" + KEYS[1]).encode()
        for part in (day, region, service, end):
            secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
        right = hmac.new(secret, to_sign.encode(), hashlib.sha256).hexdigest()
        return hmac.compare_digest(right, words["Signature"])
