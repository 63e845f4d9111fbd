// The rows that are known, by place, and where new ones belong.

import { address, ask, counts, keyOf, root, say, sources, view } from "./page.js";

const MOST = 20000, PAGE = 200, WALK = 3000;
let byPlace = new Map(), places = new Map();  // place -> row, key -> place
let changed = () => {};
export const onChange = (act) => { changed = act; };

export const rowAt = (place) => byPlace.get(place);
export const placeOf = (key) => places.get(key);

// An answer may be older than the stream: a line that grows does not become shorter again.
function put(place, row) {
  const known = byPlace.get(place);
  if (known && keyOf(known) === keyOf(row) && known.end > row.end) return;
  row.key ||= [row.time, row.ns || 0];
  byPlace.set(place, row);
  places.set(keyOf(row), place);
}

export function forget() {
  byPlace = new Map();
  places = new Map();
}

// Questions on their way, each with the lowest place that a new line has taken since. Of an answer that is older than
// the stream, only what is above that place is taken.
const onTheirWay = new Set();
function taken(place) {
  for (const question of onTheirWay) question.low = Math.min(question.low, place);
}

// The logs and the search that a question is about. An answer to an earlier one is dropped: its lines have other marks,
// or other places.
const whatIsShown = () => address(root.dataset.rows, {}).href;

async function rowsFor(values) {
  const question = { low: Infinity }, asked = whatIsShown();
  onTheirWay.add(question);
  try {
    const got = await ask(values);
    if (whatIsShown() !== asked) return got;
    if (!("from" in values)) forget();
    keep(got, question.low);
    return got;
  } finally { onTheirWay.delete(question); }
}

function keep(got, low) {
  if (byPlace.size > MOST) forget();
  const first = got.from - 1;
  got.rows.slice(0, Math.max(0, low - first)).forEach((row, index) => put(first + index, row));
  const isBehind = ([source, lines]) => lines < (counts[source] || 0);
  const isOlder = low < Infinity || Object.entries(got.counts).some(isBehind);
  if (!isOlder) {
    Object.assign(counts, got.counts);
    view.total = got.total;
  }
  view.size = Math.max(view.size, got.size);
}

// Asks for what is missing around these places, each as [first, behind the last]: one question at a time, and then the
// newest one.
let asking = false, wanted = null;
export async function need(places) {
  wanted = places;
  if (asking) return;
  asking = true;
  try {
    while (wanted) {
      const [at, last] = firstMissing(wanted);
      wanted = null;
      if (at >= last) continue;
      const begin = Math.max(0, at - PAGE / 4);
      const got = await rowsFor({ from: begin + 1, count: Math.max(PAGE, last - begin + PAGE / 4) });
      if (!got.rows.length) break;
      changed();
    }
  } catch (error) { say(error.message); }
  asking = false;
}

function firstMissing(places) {
  for (const [first, last] of places)
    for (let at = first; at < last; at += 1) if (!byPlace.has(at)) return [at, last];
  return [0, 0];
}

// Loads the end of the logs, or the lines around one: that of a source, or the first one at a time in milliseconds.
export const load = (values) => rowsFor({ count: PAGE, ...values });

// Above 0 when the line ``one`` comes after ``other``.
export const isLater = (one, other) =>
  one.key[0] - other.key[0] || one.key[1] - other.key[1] || one.s - other.s || one.number - other.number;

// A line is where its time is, but never before an earlier line of its own log.
const newest = new Map();
function timed(row) {
  const last = newest.get(row.s) || [0, 0], own = [row.time, row.ns || 0];
  row.key = own[0] > last[0] || (own[0] === last[0] && own[1] > last[1]) ? own : last;
  newest.set(row.s, row.key);
}

// Takes lines that were just written. Returns how many are new; all is forgotten when one belongs far up.
export function add(rows) {
  let fresh = 0;
  for (const row of rows) {
    timed(row);
    const known = placeOf(keyOf(row));
    if (row.number <= (counts[row.s] || 0)) {
      if (known !== undefined) put(known, row);
      continue;
    }
    const missed = row.number - (counts[row.s] || 0) - 1;
    if (missed > 0) passOver(row.s, row.number - 1, missed);
    counts[row.s] = row.number;
    fresh += 1;
    insert(row);
    view.total += 1;
  }
  return fresh;
}

function insert(row) {
  let place = view.total;
  if (sources.length > 1) {
    for (; place > 0; place -= 1) {
      const before = byPlace.get(place - 1);
      if (before && isLater(row, before) >= 0) break;
      if (!before && place === view.total) break;
      if (!before || view.total - place > WALK) { taken(0); forget(); return; }
    }
  }
  taken(place);
  if (sources.length > 1 && place && !byPlace.has(place - 1)) return;  // it is asked for when its surroundings are
  for (let at = view.total; at > place; at -= 1) put(at, byPlace.get(at - 1));
  put(place, row);
}

// Lines that are not shown because they were written too fast: they are asked for when the reader comes to them.
export function passOver(source, last, lines) {
  taken(sources.length > 1 ? 0 : view.total);
  counts[source] = last;
  view.total += lines;
  if (sources.length > 1) forget();
}
