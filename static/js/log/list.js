// The virtual list: the page has only the lines that can be seen, however many there are.
//
// What the reader sees is said by one line at the top and the pixels of it that are above the window (top, above), or
// by being at the end. The scroll bar is an image of that: browsers draw no element of 10 million lines, so beyond MOST
// pixels a small movement goes by pixels, and a large one by its share of the whole.

import { draw } from "./draw.js";
import { box, keyOf, list, view } from "./page.js";
import { need, onChange, rowAt } from "./rows.js";

const LINE = 20, MOST = 8_000_000, OVER = 12;
const space = document.getElementById("log-space");
const nodes = new Map();  // place -> [row, node]
let top = 0, above = 0, atEnd = false, lastScroll = 0, unsettled = 0, drawing = false;
export let current = "";  // key of the line that the reader was led to

const whole = () => Math.min(MOST, Math.max(view.total * LINE, 1));
const fits = () => Math.ceil(box.clientHeight / LINE) + 1;
const most = () => Math.max(0, box.scrollHeight - box.clientHeight);
export const isAtEnd = () => atEnd;
export const topPlace = () => (atEnd ? Math.max(0, view.total - fits()) : top);

function scrollTo(pixels) {
  box.scrollTop = pixels;
  lastScroll = box.scrollTop;
}

export function showEnd() {
  atEnd = true;
  refresh();
}

export function show(place, key = "") {
  current = key;
  atEnd = false;
  const room = Math.floor(box.clientHeight / LINE / 2);
  top = Math.max(0, place - Math.max(0, room));
  above = 0;
  refresh();
}

export function refresh() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    render();
  });
}
onChange(refresh);

export function clear() {
  nodes.clear();
  list.replaceChildren();
}

function render() {
  space.style.height = `${whole()}px`;
  document.getElementById("log-empty").hidden = view.total > 0;
  if (!view.total) return clear();
  const count = fits();
  if (top >= view.total) top = Math.max(0, view.total - 1);
  const from = atEnd ? Math.max(0, view.total - count - OVER) : Math.max(0, top - OVER);
  const to = Math.min(view.total, atEnd ? view.total : top + count + OVER);
  drawRows(from, to);
  place(from);
  need(from, to);
}

function drawRows(from, to) {
  for (const [at, [, node]] of nodes)
    if (at < from || at >= to) { node.remove(); nodes.delete(at); }
  let next = list.firstElementChild;
  for (let at = from; at < to; at += 1) {
    const row = rowAt(at), known = nodes.get(at);
    let node = known && known[0] === row ? known[1] : null;
    if (!node) {
      node = row ? draw(row, rowAt(at - 1)) : waiting();
      if (known) {
        if (next === known[1]) next = known[1].nextElementSibling;
        known[1].remove();
      }
      nodes.set(at, [row, node]);
    }
    const isHere = Boolean(row) && keyOf(row) === current;
    node.classList.toggle("at", isHere);
    const hit = node.querySelector("mark");
    if (hit) hit.classList.toggle("cur", isHere);
    if (node === next) next = next.nextElementSibling;
    else list.insertBefore(node, next);
  }
}

function waiting() {
  const item = document.createElement("li");
  item.className = "wait";
  item.append(document.createElement("a"), document.createElement("time"), document.createElement("code"));
  return item;
}

// Puts the drawn lines where the reader looks, and the scroll bar where they are among all.
function place(from) {
  const height = list.offsetHeight, room = box.clientHeight;
  if (atEnd) scrollTo(most());
  else if (whole() < MOST) {
    const at = top * LINE + above;
    if (Math.abs(box.scrollTop - at) > room) scrollTo(Math.min(most(), at));
  } else if (isOff()) align();
  const bottom = box.scrollTop + room - height;  // where the list begins when the last line is at the bottom
  let at = bottom;
  if (!atEnd) {
    const node = nodes.get(top)?.[1];
    at = box.scrollTop - (node ? node.offsetTop : 0) - above;
    if (from + nodes.size >= view.total) at = Math.max(at, bottom);  // there is nothing behind the last line
  }
  if (from === 0) at = height < room ? 0 : Math.min(at, box.scrollTop);
  list.style.transform = `translateY(${at}px)`;
}

const shareOf = (place) => Math.round((place / Math.max(1, view.total - fits() + 1)) * most());
const isOff = () => Math.abs(box.scrollTop - shareOf(top)) > box.clientHeight * 4;

let settle = 0, moved = () => {};
export const onMove = (act) => { moved = act; };
box.addEventListener("scroll", () => {
  const by = box.scrollTop - lastScroll;
  if (!by) return;
  lastScroll = box.scrollTop;
  // The window has another height, and the list is placed for it next: nobody has scrolled.
  if (atEnd && (box.scrollTop >= most() - 2 || unsettled)) return;
  if (atEnd) { top = Math.max(0, view.total - fits() + 1); above = 0; }
  if (Math.abs(by) > box.clientHeight * 2) jump();
  else slide(by);
  atEnd = by > 0 && (box.scrollTop >= most() - 2 || isLastSeen());
  render();
  moved(by);
  clearTimeout(settle);
  if (whole() >= MOST && !atEnd) settle = setTimeout(align, 150);
}, { passive: true });

const align = () => scrollTo(Math.min(most() - 3, Math.max(top ? 1 : 0, shareOf(top))));

function jump() {
  const share = most() ? box.scrollTop / most() : 0;
  top = whole() < MOST ? Math.floor(box.scrollTop / LINE) : Math.round(share * Math.max(0, view.total - fits() + 1));
  top = Math.min(top, Math.max(0, view.total - 1));
  above = 0;
}

// By pixels, through lines that may be higher than others.
function slide(by) {
  above += by;
  const high = (at) => nodes.get(at)?.[1].offsetHeight || LINE;
  while (above < 0 && top > 0) { top -= 1; above += high(top); }
  while (above >= high(top) && top < view.total - 1) { above -= high(top); top += 1; }
  if (above < 0) above = 0;
  if (box.scrollTop <= 0) { top = whole() < MOST ? 0 : top; above = 0; }
}

function isLastSeen() {
  const last = nodes.get(view.total - 1)?.[1];
  return Boolean(last) && last.getBoundingClientRect().bottom <= box.getBoundingClientRect().bottom + 1;
}

new ResizeObserver(() => refresh()).observe(box);

// The browser scrolls when the window gets another height, and tells of it up to two frames later.
window.addEventListener("resize", () => {
  if (!unsettled) requestAnimationFrame(placeAgain);
  unsettled = 3;
});

function placeAgain() {
  render();
  unsettled -= 1;
  if (unsettled) requestAnimationFrame(placeAgain);
}
