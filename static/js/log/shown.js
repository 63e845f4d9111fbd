// Which lines are shown, in which order: all of them, or those around the matches, and a row for what lies between.
//
// What is drawn has an index from 0. While all lines are shown, the index of a line is its place. Else they are counted
// along runs of lines; a gap between two runs is one row and has one index.

import { view } from "./page.js";

const AROUND = 3, LEAST = 2;  // lines on each side of a match; lines that make a gap
let matches = null, opened = [], runs = [], worked = -1;  // worked: the number of lines that the runs were made for

export const isPart = () => matches !== null;

// ``places``: those of the matching lines, in order; null for all lines.
export function showOnly(places) {
  if (places === null) opened = [];
  matches = places;
  worked = -1;
}

export function openGap(gap) {
  opened.push([gap.from, gap.to]);
  worked = -1;
}

// Follows what has come since. Gives the index, by now, of what had this one.
export function renew(index) {
  if (worked === view.total && (matches || !runs.length)) return index;
  const place = placeIn(index);
  runs = matches ? runsOf(view.total) : [];
  worked = view.total;
  return indexOf(place);
}

function runsOf(total) {
  const wanted = matches.map((place) => [place - AROUND, place + AROUND + 1]).concat(opened);
  wanted.sort((one, other) => one[0] - other[0]);
  const made = [];
  let done = 0, at = 0;
  const add = (from, to, isGap) => {
    if (to <= from) return;
    made.push({ at, from, to, isGap });
    at += isGap ? 1 : to - from;
    done = to;
  };
  for (const [first, last] of wanted) {
    if (first - done >= LEAST) add(done, Math.min(first, total), true);
    add(done, Math.min(last, total), false);
  }
  add(done, total, true);
  return made;
}

const end = (run) => run.at + (run.isGap ? 1 : run.to - run.from);
export const count = () => (isPart() ? (runs.length ? end(runs.at(-1)) : 0) : view.total);

// The last run of which ``name`` (at, from) is not beyond the value.
function runAt(name, value) {
  let low = 0, high = runs.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (runs[middle][name] <= value) low = middle; else high = middle - 1;
  }
  return runs[low];
}

// The gap with this index, null where a line is.
export function gapIn(index) {
  const run = runs.length ? runAt("at", index) : null;
  return run?.isGap && run.at === index ? run : null;
}

// The place of the line with this index; of a gap that of its first line.
export function placeIn(index) {
  if (!runs.length) return index;
  const run = runAt("at", index);
  return run.isGap ? run.from : run.from + index - run.at;
}

// The index of the line with this place, or of the gap that hides it.
export function indexOf(place) {
  if (!runs.length) return place;
  const run = runAt("from", place);
  return run.isGap ? run.at : run.at + place - run.from;
}

// The places, as [first, behind the last], of the lines with these indices.
export function places(from, to) {
  if (!runs.length) return [[from, to]];
  return runs.filter((run) => !run.isGap && run.at < to && end(run) > from)
    .map((run) => [run.from + Math.max(0, from - run.at), Math.min(run.to, run.from + to - run.at)]);
}
