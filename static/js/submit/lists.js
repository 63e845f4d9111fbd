// Lists of the form: ports of a role, variables, secrets. Each line is a row of fields that change their own place.

import { insert, rename, set } from "./config.js";
import { change, text } from "./editor.js";
import { edit, onDraw, state } from "./form.js";
import { button, element, one } from "./page.js";

export const field = (value, label, css, act) => {
  const drawn = element("input", `form-control ${css}`);
  drawn.value = value;
  drawn.setAttribute("aria-label", label);
  drawn.addEventListener("change", () => act(drawn.value, drawn));
  return drawn;
};
const whole = (typed) => (/^\d{1,9}$/.test(typed.trim()) ? Number(typed) : typed);
export const remover = (name, act) => {
  const drawn = button("Remove", `Remove ${name}`);
  drawn.addEventListener("click", act);
  return drawn;
};
// Redraws a list unless one of its fields is in use.
export const drawList = (box, rows) => {
  const used = document.activeElement;
  if (!box.contains(used) || used.tagName === "BUTTON") box.replaceChildren(...rows.flat());
};

const ports = one("[data-ports]");
onDraw(() => {
  const path = ["taskRoles", state.role, "portList"];
  const found = state.value.taskRoles?.[state.role]?.portList;
  const number = (port, at, name, usual, label) =>
    field(port?.[name] ?? usual, label, "ls-num", (typed) => edit([...path, at, name], whole(typed)));
  drawList(ports, (Array.isArray(found) ? found : []).map((port, at) => [
    field(port?.label ?? "", `Label of port ${at + 1}`, "", (typed) => edit([...path, at, "label"], typed)),
    number(port, at, "portNumber", 1, `How many ports ${port?.label}`),
    number(port, at, "beginAt", 0, `First port of ${port?.label}, 0 for any`),
    remover(`port ${port?.label}`, () => change(set(text(), found.length > 1 ? [...path, at] : path, undefined))),
  ]));
});
one("[data-add-port]").addEventListener("click", () => {
  const found = state.value.taskRoles?.[state.role]?.portList ?? [];
  const path = ["taskRoles", state.role, "portList"];
  change(insert(text(), path, found.length, { label: `port${found.length + 1}`, beginAt: 0, portNumber: 1 }));
});

// Variables and secrets: an object of names and texts.
const pairs = (box, adder, path, stem, what, type) => {
  const found = () => path.reduce((value, step) => value?.[step], state.value) ?? {};
  onDraw(() => {
    const given = Object.entries(found()).filter(([name]) => !(path[0] === "jobEnvs" && name === "isDebug"));
    drawList(box, given.map(([name, value], at) => {
      const shown = field(typeof value === "object" ? JSON.stringify(value) : value, `Value of ${name}`, "ls-mono",
        (typed) => edit([...path, name], typed));
      shown.type = type;
      return [
        field(name, `Name of ${what} ${at + 1}`, "ls-mono", (typed) => change(rename(text(), [...path, name], typed))),
        shown,
        remover(name, () => change(set(text(), Object.keys(found()).length > 1 ? [...path, name] : path, undefined))),
      ];
    }));
  });
  adder.addEventListener("click", () => {
    const names = Object.keys(found());
    const name = [stem, ...names.map((_, at) => `${stem}_${at + 2}`)].find((each) => !names.includes(each));
    change(set(text(), [...path, name], ""));
    box.querySelector("input:nth-last-of-type(2)")?.select();
  });
};
pairs(one("[data-envs]"), one("[data-add-env]"), ["jobEnvs"], "NAME", "variable", "text");
pairs(one("[data-secrets]"), one("[data-add-secret]"), ["extras", "secrets"], "SECRET", "secret", "password");
