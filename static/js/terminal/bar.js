// The bar above a terminal: its state, its size, and how long it stays open without a key.

const part = (id) => document.getElementById(`terminal-${id}`);
const sprite = document.querySelector("#terminal-state use").getAttribute("href").replace(/#.*/, "");
const WARNED = 60;  // seconds before the end
const SHOWN = {
  starting: ["starting", "loader-2"],
  connected: ["normal", "circle-check"],
  away: ["waiting", "access-point-off"],
  closing: ["waiting", "clock"],
  ended: ["stopped", "player-stop"],
  failed: ["failed", "alert-circle"],
};

let endsAt = 0;  // milliseconds; 0: it is not open
let idle = 0;  // seconds
let now = "";

export function state(name, text) {
  now = name;
  const [css, icon] = SHOWN[name];
  const node = part("state");
  node.className = `ls-state ls-${css}`;
  node.querySelector("use").setAttribute("href", `${sprite}#${icon}`);
  node.querySelector("span").textContent = text;
  part("screen").classList.toggle("away", name !== "connected" && name !== "closing");
  if (name !== "connected" && name !== "closing") { endsAt = 0; part("left").textContent = ""; }
}

export function size(columns, rows) { part("size").textContent = `${columns} × ${rows}`; }

export function open(whole, left) { idle = whole; stays(left); }

export function key() { if (endsAt) stays(idle); }

export function stays(left) {
  endsAt = Date.now() + 1000 * left;
  if (now !== "connected" && left > WARNED) state("connected", "Connected");
  show();
}

function show() {
  if (!endsAt) return;
  const left = Math.max(0, Math.round((endsAt - Date.now()) / 1000));
  if (left <= WARNED) state("closing", `Closes in ${left} s`);
  const whole = document.getElementById("terminal").dataset.idle;
  part("left").textContent = left > WARNED
    ? `closes after ${whole} without a key: ${Math.round(left / 60)} min left`
    : "any key keeps it open";
}

setInterval(show, 1000);
