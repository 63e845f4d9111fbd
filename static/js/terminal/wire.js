// The WebSocket of a terminal: binary messages are its bytes, texts are JSON (jobs/terminal/shell.py).
//
// Neither side runs ahead of the other: the shell waits until what it wrote is on the screen, and what is pasted goes
// in pieces of which a few may be under way. When the connection breaks it is opened again, while the shell waits.

const PIECE = 16 * 1024, AHEAD = 64 * 1024;  // bytes that are typed
const TOLD = 32 * 1024;  // bytes on the screen after which the shell is told
const GIVEN_UP = 75000;  // milliseconds of trying again
const PAUSES = [300, 700, 1500, 3000, 5000];
const FINAL = 4000;  // codes from here on are the portal's: it does not help to try again

export class Wire {
  // told: open(first, goesOn, isOther), bytes(data, shown), message(object), away(), over(code, reason),
  // failed(sentence)
  constructor(address, size, told) {
    this.address = address;
    this.size = size;  // () => [columns, rows]
    this.told = told;
    this.key = `terminal:${address}`;
    this.have = null;  // bytes of this shell that came; null: none on this page
    this.shown = 0;
    this.said = 0;
    this.queue = [];
    this.tries = 0;
    this.connect();
  }

  connect() {
    const url = new URL(this.address, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const [columns, rows] = this.size();
    const shell = this.shell ?? sessionStorage.getItem(this.key);
    const query = { cols: columns, rows, flow: 1, ...(shell && { shell }) };
    if (shell && this.have !== null) query.after = this.have;
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.was = false;
    this.queue = [];
    this.sent = this.taken = 0;
    socket.onmessage = ({ data }) => this.receive(data);
    socket.onclose = ({ code, reason }) => { if (this.socket === socket) this.lost(code, reason); };
  }

  receive(data) {
    if (typeof data === "string") { this.hear(JSON.parse(data)); return; }
    this.have += data.byteLength;
    const upTo = this.have, socket = this.socket;
    this.told.bytes(new Uint8Array(data), () => {
      this.shown = upTo;
      if (socket === this.socket && (upTo - this.said >= TOLD || upTo === this.have)) this.tellShown();
    });
  }

  hear(message) {
    if (message.shell) this.first(message);
    if (message.taken) { this.taken = message.taken; this.flush(); }
    if ("left" in message && !message.shell) this.told.message(message);
  }

  first(message) {
    this.was = true;
    this.tries = 0;
    this.since = 0;
    const goesOn = this.shell === message.shell && this.have === message.from;
    const isOther = Boolean(this.shell) && this.shell !== message.shell;  // ours ended while nobody was connected
    this.shell = message.shell;
    sessionStorage.setItem(this.key, message.shell);
    if (!goesOn) this.shown = this.have = message.from;
    this.said = message.from;
    this.told.open(message, goesOn, isOther);
  }

  tellShown() { this.said = this.shown; this.say({ shown: this.shown }); }

  say(message) { if (this.isOpen()) this.socket.send(JSON.stringify(message)); }

  isOpen() { return this.was && this.socket.readyState === WebSocket.OPEN; }

  type(bytes) {
    if (!this.isOpen()) return;
    if (bytes.length === 1 && bytes[0] === 3) this.queue = [];  // Ctrl-C: the rest of a paste is not wanted
    for (let at = 0; at < bytes.length; at += PIECE) this.queue.push(bytes.subarray(at, at + PIECE));
    this.flush();
  }

  flush() {
    while (this.queue.length && this.sent - this.taken < AHEAD && this.isOpen()) {
      const piece = this.queue.shift();
      this.sent += piece.length;
      this.socket.send(piece);
    }
  }

  end() { this.say({ close: true }); }

  again() {
    sessionStorage.removeItem(this.key);
    this.shell = this.have = null;
    this.tries = this.since = 0;
    this.connect();
  }

  takeBack() { this.tries = this.since = 0; this.connect(); }

  async lost(code, reason) {
    if (code >= FINAL && code < FINAL + 1000) { this.told.over(code, reason); return; }
    this.told.away();
    if (!this.was && (await this.refused())) return;
    this.since ||= Date.now();
    if (Date.now() - this.since > GIVEN_UP) { this.told.failed("Not connected. Press Enter to try again."); return; }
    setTimeout(() => this.connect(), PAUSES[Math.min(this.tries++, PAUSES.length - 1)]);
  }

  // A browser does not tell a script why a socket was refused; a GET of its address does.
  async refused() {
    try {
      const answer = await fetch(this.address, { headers: { Accept: "application/json" } });
      if (answer.status < 400 || answer.status >= 500) return false;
      const said = await answer.json().catch(() => ({}));
      const sentence = said.message || `The portal answered ${answer.status}.`;
      this.told.failed(answer.status === 401 ? "You are not signed in any more. Load the page again." : sentence);
      return true;
    } catch {
      return false;  // the portal is away
    }
  }
}
