// New lines as they are written, while the page can be seen.

import { follow, showFollow } from "./follow.js";
import { isAtEnd, refresh } from "./list.js";
import { address, alone, counts, part, root, say, single, view } from "./page.js";
import { add, passOver } from "./rows.js";
import { showSize } from "./size.js";

let source = null, resume = "", lost = null;

function take(rows) {
  if (!view.total) say("");  // why there was no line
  const fresh = add(rows);
  if (view.following || isAtEnd()) view.unseen = 0;
  else view.unseen += fresh;
  after();
}

function skip(data) {
  passOver(data.s, data.to, data.lines);
  const lines = data.lines.toLocaleString("en");
  if (view.following) say(`${lines} lines were written too fast to show. Scroll up for them.`);
  else view.unseen += data.lines;
  after();
}

function after() {
  showSize();
  showFollow();
  refresh();
}

// Where each log goes on: at the last line that the page has, which may have been half written.
const begins = () => Object.entries(counts).filter(([s]) => !view.hidden.has(Number(s)))
  .map(([s, lines]) => `${s}:${Math.max(1, lines)}`).join("-");

// The address of this page for another attempt; one of all attempts has it when it is loaded again.
function attemptOf(number) {
  const url = new URL(location.href);
  for (const name of ["from", "hide"]) url.searchParams.delete(name);
  if (single || alone || url.searchParams.has("attempt")) url.searchParams.set("attempt", number);
  url.hash = "";
  return url;
}

export function open() {
  if (source || view.over) return;
  const first = view.next || begins();
  view.next = "";
  const begin = resume ? { offset: resume } : { from: first };
  source = new EventSource(address(root.dataset.stream, { then: 1, ...begin }));
  const on = (kind, act) => source.addEventListener(kind, (event) => {
    if (event.lastEventId) resume = event.lastEventId;
    act(JSON.parse(event.data));
  });
  on("lines", take);
  on("skip", skip);
  on("note", (data) => say(data.text));
  on("again", reopen);
  on("end", () => {
    view.ended = true;
    part("state").textContent = "All there is";
    if (view.following) follow(true);
    view.following = false;
    after();
  });
  on("newer", ({ attempt }) => {
    finish();
    say(`The job goes on with attempt ${attempt}. `, "Open its log", attemptOf(attempt));
  });
  on("over", finish);
  source.onopen = () => {
    lost = null;
    if (!view.ended) part("state").textContent = "Live";
  };
  source.onerror = () => {
    if (view.ended) { if (source?.readyState === EventSource.CLOSED) close(); return; }
    lost = lost || new Date();
    part("state").textContent = `Not live since ${lost.toTimeString().slice(0, 5)}, trying again`;
    if (source && source.readyState === EventSource.CLOSED) {  // refused: the browser will not try by itself
      close();
      setTimeout(open, 5000);
    }
  };
}

function finish() { view.over = true; close(); }

export function close() {
  if (source) source.close();
  source = null;
}

// After what is shown has changed: other logs, or another search.
export function reopen() {
  close();
  resume = "";
  open();
}

document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
addEventListener("pagehide", close);
addEventListener("pageshow", open);
