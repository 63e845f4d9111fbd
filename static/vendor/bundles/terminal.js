// What the terminal page needs of xterm.js, as one module; its style is terminal.css.
export { Terminal } from "@xterm/xterm";
export { FitAddon } from "@xterm/addon-fit";
export { SearchAddon } from "@xterm/addon-search";
export { WebLinksAddon } from "@xterm/addon-web-links";
