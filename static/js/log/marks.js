// Marks what the reader searches for in the lines on the page.

import { list } from "./page.js";

export const found = { text: "", lines: [], at: -1, counting: false, cursor: null };

export const folded = (text, like) => (like === like.toLowerCase() ? text.toLowerCase() : text);

export function mark(code) {
  if (!found.text) return;
  const text = code.textContent, inside = folded(text, found.text);
  const hits = [], length = found.text.length;
  for (let at = inside.indexOf(found.text); at >= 0; at = inside.indexOf(found.text, at + length)) hits.push(at);
  if (!hits.length || inside.length !== text.length) return;
  const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  let start = 0;
  for (const node of nodes) {  // a match may lie across pieces of different colours
    const end = start + node.length, parts = [];
    let from = start;
    for (const hit of hits) {
      const first = Math.max(hit, start), last = Math.min(hit + length, end);
      if (first >= last) continue;
      const marked = document.createElement("mark");
      marked.textContent = text.slice(first, last);
      parts.push(text.slice(from, first), marked);
      from = last;
    }
    if (parts.length) node.replaceWith(...parts, text.slice(from, end));
    start = end;
  }
}

export function remark() {
  for (const code of list.querySelectorAll("code")) {
    const note = code.querySelector("i");
    if (note) note.remove();
    for (const old of code.querySelectorAll("mark")) old.replaceWith(...old.childNodes);
    code.normalize();
    mark(code);
    if (note) code.append(note);
  }
}
