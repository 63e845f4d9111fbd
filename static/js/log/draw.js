// Draws one line.

import { alone, attempts, clock, idOf, root, single, sources } from "./page.js";

const day = new Intl.DateTimeFormat("en-GB", { timeZone: root.dataset.zone, dateStyle: "medium", timeStyle: "medium" });

// One of 16 million colours: its class is the nearest of 256.
export function tint(span, colour, background) {
  if (colour) span.style.color = colour;
  if (background) span.style.backgroundColor = background;
}

export function draw(row, before) {
  const item = document.createElement("li"), source = sources[row.s];
  item.id = idOf(row);
  item.className = [row.kind || "", alone ? "" : `s${source.colour}`].join(" ").trim();
  if (before && sources[before.s].attempt !== source.attempt) item.dataset.attempt = attempts[source.attempt];
  const link = document.createElement("a");
  link.href = `#${item.id}`;
  link.tabIndex = -1;
  if (!alone) {
    const name = document.createElement("b");
    name.textContent = source.label;
    link.append(name);
  }
  link.append(single ? String(row.number) : span(String(row.number)));
  item.append(link, when(row), text(row));
  if (source.stream === "stderr" && !single) item.classList.add("stderr");
  return item;
}

// Says what a gap hides. Its times are those of the lines beside it, as far as they are known.
export function wordsOfGap(gap, rowAt) {
  const lines = gap.to - gap.from, times = [rowAt(gap.from - 1), rowAt(gap.to)].map((row) => row?.time);
  const [from, to] = times.map((time) => time && clock.format(new Date(time)).slice(0, 8));
  const when = from && to ? `, ${from} to ${to}` : from ? `, from ${from} on` : to ? `, until ${to}` : "";
  return `${lines.toLocaleString("en")} line${lines === 1 ? "" : "s"} without a match${when}.`;
}

export function drawGap(words, index) {
  const item = document.createElement("li"), button = document.createElement("button");
  item.className = "gap";
  button.type = "button";
  button.dataset.index = index;
  button.textContent = "Show them";
  item.append("⋯ ", words, " ", button);
  return item;
}

function span(words) {
  const node = document.createElement("span");
  node.textContent = words;
  return node;
}

function when(row) {
  const time = document.createElement("time");
  if (row.time) {
    const moment = new Date(row.time);
    time.dateTime = moment.toISOString();
    time.textContent = clock.format(moment);
    time.title = day.format(moment);
  }
  return time;
}

function text(row) {
  const code = document.createElement("code");
  for (const [words, css, colour, background] of row.pieces ?? [[row.text, ""]]) {
    if (!css) { code.append(words); continue; }
    const piece = span(words);
    piece.className = css;
    tint(piece, colour, background);
    code.append(piece);
  }
  if (row.marks) mark(code, row.marks);
  if (row.note) {
    const note = document.createElement("i");
    note.textContent = row.note;
    code.append(note);
  }
  return code;
}

// Marks are places in the text; one may lie across pieces of different colours.
function mark(code, marks) {
  const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  let start = 0;
  for (const node of nodes) {
    const words = node.data, end = start + words.length, parts = [];
    let from = start;
    for (const [first, last] of marks) {
      const begin = Math.max(first, start), stop = Math.min(last, end);
      if (begin >= stop) continue;
      const marked = document.createElement("mark");
      marked.textContent = words.slice(begin - start, stop - start);
      parts.push(words.slice(from - start, begin - start), marked);
      from = stop;
    }
    if (parts.length) node.replaceWith(...parts, words.slice(from - start));
    start = end;
  }
}
