// The roles as tabs: shown, added, removed. Their name is a field like any other.

import { insert, set } from "./config.js";
import { change, text } from "./editor.js";
import { onDraw, redraw, state } from "./form.js";
import { element, one, say } from "./page.js";

const tabs = one("[data-roles]"), card = one("[data-role]");
const rolesOf = () => (Array.isArray(state.value.taskRoles) ? state.value.taskRoles : []);
const size = ({ taskNumber = 1, gpuNumber = 0 }) =>
  `${taskNumber} × ${gpuNumber > 0 ? `${gpuNumber} GPU${gpuNumber > 1 ? "s" : ""}` : "no GPU"}`;

const tab = (role, index) => {
  const drawn = element("button", "ls-tab");
  drawn.type = "button";
  drawn.setAttribute("aria-pressed", String(index === state.role));
  drawn.dataset.index = index;
  drawn.append(String(role?.name || `role ${index + 1}`), " ", element("span", "ls-count", size(role ?? {})));
  return drawn;
};

onDraw(() => {
  const roles = rolesOf();
  state.role = Math.max(0, Math.min(state.role, roles.length - 1));
  const had = tabs.contains(document.activeElement);
  tabs.replaceChildren(...roles.map(tab));
  if (had) one("[aria-pressed=true]", tabs)?.focus();
  card.hidden = !roles.length;
  one("[data-remove-role]").setAttribute("aria-label", `Remove role ${roles[state.role]?.name ?? ""}`);
});

tabs.addEventListener("click", ({ target }) => {
  const chosen = target.closest("[data-index]");
  if (!chosen) return;
  state.role = Number(chosen.dataset.index);
  redraw();
});
one("[data-add-role]").addEventListener("click", () => {
  const names = rolesOf().map((role) => role?.name);
  const free = ["worker", "server", "main", ...names.map((_, at) => `role${at + 1}`), "role0"];
  const name = free.find((each) => !names.includes(each));
  const role = { name, taskNumber: 1, cpuNumber: 1, memoryMB: 1024, gpuNumber: 0, command: "" };
  state.role = names.length;
  change(insert(text(), ["taskRoles"], names.length, role));
  say(`Role ${name} added`);
  one("[data-path='/taskRoles/*/command']").focus();
});
one("[data-remove-role]").addEventListener("click", () => {
  const name = rolesOf()[state.role]?.name ?? "";
  change(set(text(), ["taskRoles", state.role], undefined));
  say(`Role ${name} removed. Ctrl Z in the JSON puts it back.`);
  one("[data-add-role]").focus();
});
