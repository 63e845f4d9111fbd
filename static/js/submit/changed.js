// Who comes by a button that changes something sees it: the role that it is of, and what its fields had before.

import { onDraw, pathOfField, state } from "./form.js";
import { all, element, known } from "./page.js";

const changed = known.changed ?? {};
const ofRole = Object.keys(changed).map((path) => /^\/taskRoles\/(\d+)\//.exec(path)).find(Boolean);
if (ofRole) state.role = Number(ofRole[1]);

onDraw(() => {
  for (const field of all("form [data-path]")) {
    const was = changed[`/${pathOfField(field).join("/")}`];
    field.nextElementSibling?.matches("[data-was]") && field.nextElementSibling.remove();
    field.classList.toggle("ls-changed", was !== undefined);
    if (was === undefined) continue;
    const note = element("div", "ls-small ls-muted", `was ${was}`);
    note.dataset.was = "";
    field.after(note);
  }
});
