// Following: the window stays at the end of the logs until the reader scrolls up.

import { isAtEnd, onMove, showEnd } from "./list.js";
import { box, live, part, say, view } from "./page.js";
import { load, rowAt } from "./rows.js";

const button = part("follow");

export function showFollow() {
  button.hidden = view.ended && isAtEnd();
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
    try {
      if (view.total && !rowAt(view.total - 1)) await load({});
    } catch (error) { say(error.message); }
    showEnd();
  }
  showFollow();
}

// Only the reader's own hand ends following.
onMove((by) => {
  if (by < 0 && view.following && !isAtEnd()) view.following = false;
  else if (by > 0 && isAtEnd() && live && !view.ended) { view.following = true; view.unseen = 0; }
  showFollow();
});
