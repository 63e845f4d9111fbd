// New lines as the log grows: an event stream, opened while the page can be seen.

import { isFull, learn, place, replace, row, trim } from "./lines.js";
import { showFollow } from "./follow.js";
import { box, number, part, root, say, view } from "./page.js";
import { matchNew } from "./search.js";

function take(lines) {
  const keep = view.following, fresh = [];
  let known = view.last;
  for (const line of lines) {
    if (line.number <= view.last) {
      const old = document.getElementById(`L${line.number}`);
      if (old && line.number >= view.first) old.replaceWith(row(line));
    } else if (view.atEnd && line.number === known + 1) {
      fresh.push(line);
      known = line.number;
    } else {
      view.atEnd = false;
    }
    matchNew(line);
  }
  place(fresh, "after");
  const before = view.total;
  view.last = known;
  learn(lines[lines.length - 1].number, lines[lines.length - 1].end);
  if (keep) {
    trim("top");
    box.scrollTop = box.scrollHeight;
  } else {
    view.unseen += view.total - before;
    if (isFull()) trim("bottom");
  }
  showFollow();
}

function skip(data) {
  view.total = Math.max(view.total, data.to);
  if (view.following) {
    replace([], 0);
    view.first = data.to + 1;
    view.last = data.to;
    learn(data.to);
    say(`${data.lines.toLocaleString("en")} lines were written too fast to show. Scroll up for them.`);
  } else {
    view.unseen += data.lines;
    learn(data.to);
  }
  showFollow();
}

let source = null, resume = "", lost = null;

export function open() {
  if (source || view.ended) return;
  const url = new URL(root.dataset.stream, location.href);
  if (resume) url.searchParams.set("offset", resume);
  else url.searchParams.set("from", number("next") || 1);
  source = new EventSource(url);
  const on = (kind, act) => source.addEventListener(kind, (event) => {
    if (event.lastEventId) resume = event.lastEventId;
    act(JSON.parse(event.data));
  });
  on("lines", take);
  on("skip", skip);
  on("note", (data) => say(data.text));
  on("end", (data) => {
    view.ended = true;
    close();
    learn(data.lines, data.size);
    part("state").textContent = "All there is";
    view.following = false;
    showFollow();
  });
  source.onopen = () => {
    lost = null;
    part("state").textContent = "Live";
  };
  source.onerror = () => {
    lost = lost || new Date();
    part("state").textContent = `Not live since ${lost.toTimeString().slice(0, 5)}, trying again`;
    if (source && source.readyState === EventSource.CLOSED) {  // refused: the browser will not try by itself
      close();
      setTimeout(open, 5000);
    }
  };
}

export function close() {
  if (source) source.close();
  source = null;
}

document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
addEventListener("pagehide", close);
addEventListener("pageshow", open);
