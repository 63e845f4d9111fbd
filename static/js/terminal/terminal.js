// Starts the page of a terminal: screen, wire and bar together.

import * as bar from "./bar.js";
import { larger, onKeys, onSize, size, terminal } from "./screen.js";
import { Wire } from "./wire.js";

const root = document.getElementById("terminal");
const part = (id) => document.getElementById(`terminal-${id}`);
const ELSEWHERE = 4001, IDLE = 4002;
// What a program may have left: its own screen, colours, a hidden cursor, the mouse.
const CLEAN = "\x1b[?47l\x1b[0m\x1b[?25h\x1b[?1000;1002;1003;1006;2004l";
const NEW = `${CLEAN}\r\n\x1b[90mThe shell ended with the connection to the portal. This is a new one.\x1b[0m\r\n`;
let enter = null;  // what Enter does when there is no shell

const wire = new Wire(root.dataset.address, size, {
  open(first, goesOn, isOther) {
    enter = null;
    if (isOther) terminal.write(NEW);
    else if (!goesOn) terminal.reset();
    bar.state("connected", "Connected");
    bar.open(first.idle, first.left);
    bar.size(...size());
    terminal.focus();
  },
  bytes: (data, shown) => terminal.write(data, shown),
  message: ({ left }) => bar.stays(left),
  away: () => bar.state("away", "Not connected, trying again"),
  over(code, reason) {
    enter = code === ELSEWHERE ? () => wire.takeBack() : () => wire.again();
    bar.state(reason.startsWith("The shell ended") || code === IDLE ? "ended" : "failed", reason);
    const does = code === ELSEWHERE ? "takes it back" : "opens a new one";
    terminal.write(`\r\n\x1b[90m${reason} Enter ${does}.\x1b[0m\r\n`);
  },
  failed(sentence) {
    enter = () => wire.again();
    bar.state("failed", sentence);
  },
});

onKeys((bytes) => {
  if (enter) {
    if (bytes.includes(13)) { const act = enter; enter = null; bar.state("starting", "Connecting"); act(); }
    return;
  }
  bar.key();
  wire.type(bytes);
});
onSize((columns, rows) => { bar.size(columns, rows); wire.say({ resize: [columns, rows] }); });
bar.size(...size());

part("smaller").addEventListener("click", () => larger(-1));
part("larger").addEventListener("click", () => larger(1));
part("end").addEventListener("click", () => wire.end());
part("full").addEventListener("click", () => {
  if (document.fullscreenElement) document.exitFullscreen();
  else root.requestFullscreen();
});
part("task").addEventListener("change", (event) => event.target.form.submit());
