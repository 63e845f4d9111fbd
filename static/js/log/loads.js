// Loads lines into the window: older and newer ones at its edges, the end of the log, any line.

import { learn, place, replace, trim } from "./lines.js";
import { ask, box, list, root, say, view } from "./page.js";

const PAGE = 500;

// Loads follow each other. Scrolling asks again and again, so it waits for nothing; where the reader asked to go, the
// page goes, also while something else is on its way.
let queue = Promise.resolve();
function load(work) {
  view.loading = true;
  const mine = queue = queue.then(work).catch((error) => say(error.message)).finally(() => {
    if (queue === mine) view.loading = false;
  });
  return mine;
}
const loadUnlessBusy = (work) => (view.loading ? Promise.resolve() : load(work));

export const loadOlder = () => loadUnlessBusy(async () => {
  if (view.first <= 1) return;
  const from = Math.max(1, view.first - PAGE);
  const got = await ask(root.dataset.lines, { from, count: view.first - from });
  const lines = got.lines.filter((line) => line.number < view.first);
  if (!lines.length) return;
  const height = box.scrollHeight, top = box.scrollTop;
  place(lines, "before");
  view.first = lines[0].number;
  box.scrollTop = top + box.scrollHeight - height;
  trim("bottom");
});

export const loadNewer = () => loadUnlessBusy(async () => {
  if (view.atEnd) return;
  const got = await ask(root.dataset.lines, { from: view.last + 1, count: PAGE });
  const lines = got.lines.filter((line) => line.number > view.last);
  place(lines, "after");
  if (lines.length) view.last = lines[lines.length - 1].number;
  else view.total = Math.min(view.total, got.total);
  const height = box.scrollHeight, top = box.scrollTop;
  trim("top");
  box.scrollTop = top - (height - box.scrollHeight);
  learn(got.total, got.size);
});

export const toEnd = () => load(async () => {
  if (!view.atEnd) {
    const got = await ask(root.dataset.lines, { count: PAGE });
    replace(got.lines, got.total);
  }
  box.scrollTop = box.scrollHeight;
});

export const toLine = (wanted, focus) => load(async () => {
  if (wanted < view.first || wanted > view.last) {
    const got = await ask(root.dataset.lines, { from: Math.max(1, wanted - 100), count: PAGE });
    replace(got.lines, got.total);
  }
  const item = document.getElementById(`L${wanted}`);
  for (const old of list.querySelectorAll(".at")) old.classList.remove("at");
  if (!item) return;
  item.classList.add("at");
  item.scrollIntoView({ block: "center" });
  if (focus) history.replaceState(null, "", `#L${wanted}`);
});
