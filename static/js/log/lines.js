// The rows of the window: drawn, put in place, and taken off the page far from the reader.

import { mark } from "./marks.js";
import { box, list, part, view } from "./page.js";

const MOST = 4000;

// One of 16 million colours: its class is the nearest of 256.
export function tint(span, colour, background) {
  if (colour) span.style.color = colour;
  if (background) span.style.backgroundColor = background;
}

export function row(line) {
  const item = document.createElement("li");
  item.id = `L${line.number}`;
  if (line.kind) item.className = line.kind;
  const link = document.createElement("a");
  link.href = `#L${line.number}`;
  link.textContent = line.number;
  link.tabIndex = -1;
  const code = document.createElement("code");
  for (const [text, css, colour, background] of line.pieces ?? [[line.text, ""]]) {
    if (!css) { code.append(text); continue; }
    const span = document.createElement("span");
    span.className = css;
    span.textContent = text;
    tint(span, colour, background);
    code.append(span);
  }
  mark(code);
  if (line.note) {
    const note = document.createElement("i");
    note.textContent = line.note;
    code.append(note);
  }
  item.append(link, code);
  return item;
}

// The tab key passes the lines by, as there are hundreds of them: j and k go from line to line.
export function skipLines() {
  for (const link of list.querySelectorAll("li > a")) link.tabIndex = -1;
}

export function stepLine(by) {
  const from = document.activeElement.closest("#log-lines > li");
  const top = box.getBoundingClientRect().top;
  const next = !from
    ? [...list.children].find((item) => item.getBoundingClientRect().bottom > top)
    : by > 0 ? from.nextElementSibling : from.previousElementSibling;
  next?.querySelector("a").focus();
}

export function place(lines, where) {
  const rows = document.createDocumentFragment();
  for (const line of lines) rows.append(row(line));
  if (where === "before") list.prepend(rows);
  else list.append(rows);
}

export function replace(lines, total) {
  list.replaceChildren();
  place(lines, "after");
  view.first = lines.length ? lines[0].number : 1;
  view.last = lines.length ? lines[lines.length - 1].number : 0;
  learn(total);
}

export function learn(total, size) {
  view.total = Math.max(view.total, total || 0, view.last);
  view.size = Math.max(view.size, size || 0);
  view.atEnd = view.last >= view.total;
  part("older").hidden = view.first <= 1;
  part("newer").hidden = view.atEnd;
  const lines = `${view.total.toLocaleString("en")} line${view.total === 1 ? "" : "s"}`;
  part("size").textContent = view.size ? `${megabytes(view.size)}, ${lines}` : lines;
}

function megabytes(size) {
  if (size < 1024) return `${size} bytes`;
  return size < 1048576 ? `${(size / 1024).toFixed(1)} KB` : `${(size / 1048576).toFixed(1)} MB`;
}

// Lines far from the reader leave the page; they are loaded again when the reader scrolls there.
export function trim(end) {
  while (isFull()) {
    if (end === "top") { list.firstElementChild.remove(); view.first += 1; }
    else { list.lastElementChild.remove(); view.last -= 1; }
  }
  learn();
}

export const isFull = () => list.children.length > MOST;
