// Following: the window stays at the end of the log until the reader scrolls up.

import { loadNewer, loadOlder, toEnd } from "./loads.js";
import { box, live, part, view } from "./page.js";

const NEAR = 400;
const button = part("follow");

const atBottom = () => box.scrollHeight - box.scrollTop - box.clientHeight < 24;

export function showFollow() {
  button.hidden = view.ended && view.atEnd;
  button.setAttribute("aria-pressed", String(view.following));
  box.setAttribute("aria-live", view.following ? "polite" : "off");
  button.querySelector("span").textContent = words();
}

function words() {
  if (view.following) return "Following";
  if (view.ended) return "To the end";
  if (!view.unseen) return "Follow";
  return `Follow, ${view.unseen.toLocaleString("en")} new line${view.unseen === 1 ? "" : "s"}`;
}

export async function follow(on) {
  view.following = on && !view.ended;
  if (on) {
    view.unseen = 0;
    await toEnd();
  }
  showFollow();
}

// Only the reader's own hand ends following: the page's own scrolling fires the same event.
let lastTop = 0;
box.addEventListener("scroll", () => {
  const up = box.scrollTop < lastTop;
  lastTop = box.scrollTop;
  if (view.following && up && !atBottom()) follow(false);
  else if (!view.following && !view.ended && !up && view.atEnd && atBottom()) follow(true);
  if (box.scrollTop < NEAR && up) loadOlder();
  if (!view.atEnd && !up && box.scrollHeight - box.scrollTop - box.clientHeight < NEAR) loadNewer();
}, { passive: true });

// Where the page begins: at the end of the log, unless the reader asked for another place.
export function begin(elsewhere) {
  if (!elsewhere) {
    box.scrollTop = box.scrollHeight;
    view.following = live;
  }
  lastTop = box.scrollTop;
  showFollow();
}
