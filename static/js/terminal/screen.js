// The screen of a terminal: xterm.js with our colours, and the keys that are not for the shell.

import { FitAddon, Terminal, WebLinksAddon } from "../../vendor/terminal.js";

const root = document.getElementById("terminal");
const holder = document.getElementById("terminal-screen");
const SMALLEST = 8, LARGEST = 28, SIZE = "terminal-text";

// xterm.js makes style elements, which the browser ignores without the nonce of this page.
const make = document.createElement.bind(document);
document.createElement = (name, options) => {
  const node = make(name, options);
  if (String(name).toLowerCase() === "style") node.nonce = root.dataset.nonce;
  return node;
};

const narrow = matchMedia("(max-width: 47.99rem)").matches;
export const terminal = new Terminal({
  allowProposedApi: false,
  cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
  fontFamily: getComputedStyle(root).getPropertyValue("--tblr-font-monospace") || "monospace",
  fontSize: Number(localStorage.getItem(SIZE)) || (narrow ? 12 : 13),
  lineHeight: 1.2,
  scrollback: 10000,
  theme: {
    background: "#0b1015", foreground: "#e4e9ef", cursor: "#e4e9ef", cursorAccent: "#0b1015",
    selectionBackground: "#2d65a5",
    black: "#1c232b", red: "#ff8a80", green: "#5cc98a", yellow: "#e8b44a",
    blue: "#8abaf0", magenta: "#bb9bf2", cyan: "#4dbdbf", white: "#c9d1da",
    brightBlack: "#9eaab8", brightRed: "#ffb0a8", brightGreen: "#8fe0b0", brightYellow: "#f3cd7d",
    brightBlue: "#b4d4f8", brightMagenta: "#d5c2f8", brightCyan: "#8adcdd", brightWhite: "#ffffff",
  },
});
const fit = new FitAddon();
terminal.loadAddon(fit);
terminal.loadAddon(new WebLinksAddon());
terminal.open(holder);
fit.fit();

export const size = () => [terminal.cols, terminal.rows];

export function onSize(told) {
  let timer = 0;
  terminal.onResize(() => { clearTimeout(timer); timer = setTimeout(() => told(...size()), 100); });
  new ResizeObserver(() => requestAnimationFrame(() => fit.fit())).observe(holder);
}

export function larger(by) {
  const wanted = Math.min(LARGEST, Math.max(SMALLEST, terminal.options.fontSize + by));
  terminal.options.fontSize = wanted;
  localStorage.setItem(SIZE, String(wanted));
  fit.fit();
}

async function copy() {
  const text = terminal.getSelection();
  if (!text) return;
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // without https
    const area = Object.assign(make("textarea"), { value: text, className: "visually-hidden" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    terminal.focus();
  }
}

function leave() { document.getElementById("terminal-end").focus(); }

function readAloud() {
  terminal.options.screenReaderMode = true;
  const lines = [], buffer = terminal.buffer.active;
  for (let at = buffer.baseY; at < buffer.baseY + terminal.rows; at += 1) {
    const line = buffer.getLine(at)?.translateToString(true);
    if (line) lines.push(line);
  }
  document.getElementById("said").textContent = lines.slice(-10).join("\n");
}

terminal.attachCustomKeyEventHandler((event) => {
  if (event.type !== "keydown" || !event.ctrlKey) return true;
  const key = event.key.toLowerCase();
  if (event.shiftKey && !event.altKey && key === "c") { event.preventDefault(); copy(); return false; }
  if (event.shiftKey && !event.altKey && key === "v") return false;  // the browser pastes
  const act = event.altKey && { tab: leave, r: readAloud }[key];
  if (!act) return true;
  event.preventDefault();
  act();
  return false;
});
holder.addEventListener("mouseup", copy);

// The row of keys that a phone does not have. Ctrl holds for the next key.
const KEYS = { escape: "\x1b", tab: "\t", left: "\x1b[D", up: "\x1b[A", down: "\x1b[B", right: "\x1b[C" };
const control = document.querySelector('[data-key="control"]');
const holds = () => control.getAttribute("aria-pressed") === "true";
control.addEventListener("click", () => { control.setAttribute("aria-pressed", String(!holds())); terminal.focus(); });

export function onKeys(told) {
  terminal.onData((text) => told(new TextEncoder().encode(held(text))));
  terminal.onBinary((text) => told(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
  for (const button of document.querySelectorAll("[data-key]:not([data-key=control])")) {
    button.addEventListener("click", () => {
      told(new TextEncoder().encode(KEYS[button.dataset.key] ?? held(button.dataset.key)));
      terminal.focus();
    });
  }
}

function held(text) {
  if (!holds() || text.length !== 1) return text;
  control.setAttribute("aria-pressed", "false");
  const code = text.toUpperCase().charCodeAt(0);
  return code >= 64 && code < 96 ? String.fromCharCode(code - 64) : text;
}
