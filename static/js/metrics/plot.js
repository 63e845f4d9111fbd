// One plot of uPlot in the colours of the page.

import { uPlot } from "../../vendor/plot.js";
import { splits, top, write } from "./units.js";

const DASHES = [undefined, [6, 3], [2, 2]];
const HIGH = 150;

function colour(name) {
  const swatch = document.createElement("i");
  swatch.className = `ls-swatch ${name}`;
  swatch.style.display = "block";
  document.body.append(swatch);
  const found = getComputedStyle(swatch).borderTopColor;
  swatch.remove();
  return found;
}

function series(labels) {
  return labels.map((label, at) => ({
    label, stroke: colour(`l${(at % 4) + 1}`), width: 1.25, spanGaps: false, points: { show: false },
    dash: DASHES[Math.floor(at / 4) % DASHES.length],
  }));
}

function axis(more) {
  return { stroke: colour("text"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false },
    font: "11px system-ui", ...more };
}

// A dashed line at what each task asked for.
function limitOf(found) {
  return (u) => {
    if (!found.limit) return;
    const y = u.valToPos(found.limit, "y", true);
    if (y < u.bbox.top - 1) return;
    u.ctx.save();
    u.ctx.strokeStyle = colour("limit");
    u.ctx.setLineDash([4, 3]);
    u.ctx.beginPath();
    u.ctx.moveTo(u.bbox.left, y);
    u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
    u.ctx.stroke();
    u.ctx.restore();
  };
}

function reads(readout, unit, labels) {
  return (u) => {
    const at = u.cursor.idx;
    if (at === null || at === undefined) { readout.textContent = ""; return; }
    const when = new Date(u.data[0][at] * 1000).toLocaleTimeString("en-GB");
    const said = labels.map((label, line) => `${label} ${write(unit, u.data[line + 1][at])}`).slice(0, 4);
    readout.textContent = `${when}: ${said.join(" · ")}${labels.length > 4 ? " …" : ""}`;
  };
}

// The time of day; the day where the plot shows several; seconds where it shows minutes.
function clock(at, { min, max }) {
  const date = new Date(at * 1000);
  if (max - min > 3 * 86_400) return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const seconds = max - min < 300 && { second: "2-digit" };
  return date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...seconds });
}

export function draw(box, times, found, zoomed) {
  const readout = box.parentElement.querySelector("[data-readout]");
  const most = (u) => {
    const values = u.data.slice(1).flat().filter((value) => value !== null);
    return top(found.unit, Math.max(found.limit || 0, values.reduce((a, b) => Math.max(a, b), 0)));
  };
  const said = box.querySelector("svg")?.getAttribute("aria-label") || "";
  box.replaceChildren();
  box.classList.add("drawn");
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", said);
  const options = {
    width: box.clientWidth, height: HIGH, legend: { show: false },
    cursor: { sync: { key: "metrics" }, drag: { x: true, y: false, setScale: false }, focus: { prox: 16 },
      bind: { dblclick: () => () => { zoomed(null); } } },
    padding: [6, 8, 0, 0],
    scales: { y: { range: (u) => [0, most(u)] } },
    series: [{}, ...series(found.labels)],
    axes: [
      axis({ space: 60, size: 24, values: (u, all) => all.map((at) => clock(at, u.scales.x)) }),
      axis({ size: 62, splits: (u) => splits(found.unit, u.scales.y.max),
        values: (u, all) => all.map((value) => write(found.unit, value)) }),
    ],
    hooks: {
      draw: [limitOf(found)],
      setCursor: [reads(readout, found.unit, found.labels)],
      setSelect: [(u) => {
        if (u.select.width < 8) return;
        const from = u.posToVal(u.select.left, "x");
        const to = u.posToVal(u.select.left + u.select.width, "x");
        u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        zoomed([Math.floor(from), Math.ceil(to)]);
      }],
    },
  };
  return new uPlot(options, [times, ...found.lines], box);
}
