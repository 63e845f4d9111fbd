// The lines that are marked: from one end to the other, of one log when both ends are in it, else all that lie between.

import { idOf, sources } from "./page.js";
import { isLater } from "./rows.js";

let ends = [];  // two rows, of which the first is where it began; none when nothing is marked
const changed = [];
export const onRange = (act) => changed.push(act);

export function setRange(...rows) {
  ends = rows.length ? [rows[0], rows.at(-1)] : [];
  for (const act of changed) act();
}

export const anchor = () => ends[0];
export const mover = () => ends[1];
export const isOfOne = () => ends[0].s === ends[1].s;
export const inOrder = () => [...ends].sort(isOfOne() ? (one, other) => one.number - other.number : isLater);

export function isMarked(row) {
  if (!ends.length) return false;
  const [first, last] = inOrder();
  if (isOfOne()) return row.s === first.s && row.number >= first.number && row.number <= last.number;
  return isLater(row, first) >= 0 && isLater(row, last) <= 0;
}

// As in an address: L12, L12-20, worker-0.1.o12-20, worker-0.1.o12:worker-1.1.e3.
export function nameOf() {
  const [first, last] = inOrder();
  if (!isOfOne()) return `${idOf(first)}:${idOf(last)}`;
  return first.number === last.number ? idOf(first) : `${idOf(first)}-${last.number}`;
}

// The ends that an address names, as {s, number}: one of them for a single line. None where it names no line; null
// where a log is not shown.
export function endsIn(text, isSingle) {
  const found = [];
  for (const name of text.split(":")) {
    const [, log, line, last] = /^(L|.+\.\d+\.[oe])(\d{1,12})(?:-(\d{1,12}))?$/.exec(name) || [];
    if (!line) return [];
    const s = log === "L" ? (isSingle ? 0 : -1) : sources.findIndex((one) => one.name === log);
    if (s < 0) return null;
    found.push({ s, number: Number(line) });
    if (last) found.push({ s, number: Number(last) });
  }
  return found;
}
