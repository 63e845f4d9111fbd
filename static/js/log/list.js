// The virtual list: the page has only the lines that can be seen, however many there are.
//
// What the reader sees is said by the index (shown.js) of one line at the top and the pixels of it that are above the
// window (top, above), or by being at the end. The scroll bar is an image of that: browsers draw no element of 10
// million lines, so beyond MOST pixels a small movement goes by pixels, and a large one by its share of the whole. Up
// to FEW lines are all drawn, and scrolled as any text.

import { draw, drawGap, wordsOfGap } from "./draw.js";
import { box, keyOf, list, view } from "./page.js";
import { isMarked } from "./range.js";
import { need, onChange, rowAt } from "./rows.js";
import { count, gapIn, indexOf, placeIn, places, renew } from "./shown.js";

const LINE = 20, MOST = 8_000_000, OVER = 12, FEW = 200;
const space = document.getElementById("log-space");
const nodes = new Map();  // index -> [row, or words of a gap, and node]
let top = 0, above = 0, atEnd = false, lastScroll = 0, unsettled = 0, drawing = false;
let exact = 0;  // the height of all lines, where all are drawn
export let current = "";  // key of the line that the reader was led to

const whole = () => exact || Math.min(MOST, Math.max(count() * LINE, 1));
const fits = () => Math.ceil(box.clientHeight / LINE) + 1;
const most = () => Math.max(0, box.scrollHeight - box.clientHeight);
export const isAtEnd = () => atEnd;
export const topPlace = () => placeIn(atEnd ? Math.max(0, count() - fits()) : top);

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
  renew(0);
  top = Math.max(0, indexOf(place) - Math.max(0, room));
  above = 0;
  refresh();
}

// Lets other lines be shown, and the one at the top stay there.
export function keepTop(change) {
  const place = placeIn(top);
  change();
  renew(0);
  top = Math.max(0, indexOf(Math.min(place, Math.max(0, view.total - 1))));
  above = 0;
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
  top = renew(top);
  document.getElementById("log-empty").hidden = view.total > 0;
  if (!view.total) { space.style.height = "1px"; return clear(); }
  const room = fits(), all = count(), isFew = all <= FEW;
  if (top >= all) top = Math.max(0, all - 1);
  const from = isFew ? 0 : atEnd ? Math.max(0, all - room - OVER) : Math.max(0, top - OVER);
  const to = isFew ? all : Math.min(all, atEnd ? all : top + room + OVER);
  drawRows(from, to);
  exact = isFew ? list.offsetHeight : 0;
  space.style.height = `${whole()}px`;
  if (exact) placeAll();
  else place(from);
  need(places(from, to));
}

function drawRows(from, to) {
  for (const [at, [, node]] of nodes)
    if (at < from || at >= to) { node.remove(); nodes.delete(at); }
  let next = list.firstElementChild;
  for (let at = from; at < to; at += 1) {
    const gap = gapIn(at), known = nodes.get(at), row = gap ? null : rowAt(placeIn(at));
    const is = gap ? wordsOfGap(gap, rowAt) : row;
    let node = known && known[0] === is ? known[1] : null;
    if (!node) {
      node = gap ? drawGap(is, at) : row ? draw(row, rowBefore(at)) : waiting();
      if (known) {
        if (next === known[1]) next = known[1].nextElementSibling;
        known[1].remove();
      }
      nodes.set(at, [is, node]);
    }
    const isHere = Boolean(row) && keyOf(row) === current;
    node.classList.toggle("at", isHere || Boolean(row && isMarked(row)));
    const hit = node.querySelector("mark");
    if (hit) hit.classList.toggle("cur", isHere);
    if (node === next) next = next.nextElementSibling;
    else list.insertBefore(node, next);
  }
}

// The line above; of what lies behind a gap the last one before it. None above the first.
function rowBefore(at) {
  const gap = at ? gapIn(at - 1) : null;
  return gap ? rowAt(gap.from - 1) : rowAt(placeIn(at) - 1);
}

function waiting() {
  const item = document.createElement("li");
  item.className = "wait";
  item.append(document.createElement("a"), document.createElement("time"), document.createElement("code"));
  return item;
}

function placeAll() {
  list.style.transform = "translateY(0)";
  const at = atEnd ? most() : Math.min(most(), (nodes.get(top)?.[1].offsetTop ?? 0) + above);
  if (Math.abs(box.scrollTop - at) > 1) scrollTo(at);
}

// Puts the drawn lines where the reader looks, and the scroll bar where they are among all.
function place(from) {
  const height = list.offsetHeight, room = box.clientHeight;
  if (atEnd) scrollTo(most());
  else if (whole() < MOST) {
    const at = Math.max(0, Math.min(top * LINE + above, most() - room));
    if (Math.abs(box.scrollTop - at) > room) scrollTo(at);
  } else if (isOff()) align();
  const bottom = box.scrollTop + room - height;  // where the list begins when the last line is at the bottom
  let at = bottom;
  if (!atEnd) {
    const node = nodes.get(top)?.[1];
    at = box.scrollTop - (node ? node.offsetTop : 0) - above;
    if (from + nodes.size >= count()) at = Math.max(at, bottom);  // there is nothing behind the last line
  }
  if (from === 0) at = height < room ? 0 : Math.min(at, box.scrollTop);
  list.style.transform = `translateY(${at}px)`;
}

const shareOf = (place) => Math.round((place / Math.max(1, count() - fits() + 1)) * most());
const isOff = () => Math.abs(box.scrollTop - shareOf(top)) > box.clientHeight * 4;

let settle = 0, moved = () => {};
export const onMove = (act) => { moved = act; };
box.addEventListener("scroll", () => {
  const by = box.scrollTop - lastScroll;
  if (!by) return;
  lastScroll = box.scrollTop;
  // The window has another height, and the list is placed for it next: nobody has scrolled.
  if (atEnd && (box.scrollTop >= most() - 2 || unsettled)) return;
  if (exact) look();
  else {
    if (atEnd) { top = Math.max(0, count() - fits() + 1); above = 0; }
    if (Math.abs(by) > box.clientHeight * 2) jump();
    else slide(by);
  }
  atEnd = by > 0 && ((exact || Math.abs(by) > box.clientHeight * 2) ? box.scrollTop >= most() - 2 : isLastSeen());
  if (!exact && !atEnd) leaveRoom();
  render();
  if (by > 0 && !atEnd && !exact && isLastSeen()) { atEnd = true; render(); }
  moved(by);
  clearTimeout(settle);
  if (whole() >= MOST && !atEnd) settle = setTimeout(align, 150);
}, { passive: true });

const align = () => scrollTo(Math.min(most() - 3, Math.max(top ? 1 : 0, shareOf(top))));

// The line at the top, where all are drawn.
function look() {
  let low = 0, high = count() - 1;
  const topOf = (at) => nodes.get(at)?.[1].offsetTop ?? 0;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (topOf(middle) <= box.scrollTop) low = middle; else high = middle - 1;
  }
  top = low;
  above = box.scrollTop - topOf(low);
}

// Lines that are higher than LINE reach an end of the scroll bar before their own: it must be left to go on.
function leaveRoom() {
  if (whole() >= MOST) return;
  if (box.scrollTop <= 0 && top > 0) scrollTo(Math.min(most(), top * LINE + above));
  else if (box.scrollTop >= most() - 2) scrollTo(Math.max(1, most() - box.clientHeight));
}

function jump() {
  const share = most() ? box.scrollTop / most() : 0;
  top = whole() < MOST ? Math.floor(box.scrollTop / LINE) : Math.round(share * Math.max(0, count() - fits() + 1));
  top = Math.min(top, Math.max(0, count() - 1));
  above = 0;
}

// By pixels, through lines that may be higher than others.
function slide(by) {
  above += by;
  const high = (at) => nodes.get(at)?.[1].offsetHeight || LINE;
  while (above < 0 && top > 0) { top -= 1; above += high(top); }
  while (above >= high(top) && top < count() - 1) { above -= high(top); top += 1; }
  if (above < 0) above = 0;
  if (box.scrollTop <= 0 && whole() >= MOST) above = 0;
}

function isLastSeen() {
  const last = nodes.get(count() - 1)?.[1];
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
