// How much there is, below the lines and beside the tasks.

import { counts, part, view } from "./page.js";

export function showSize() {
  const lines = `${view.total.toLocaleString("en")} line${view.total === 1 ? "" : "s"}`;
  part("size").textContent = view.size ? `${megabytes(view.size)}, ${lines}` : lines;
  for (const row of document.querySelectorAll("[data-numbers]")) {
    const sum = row.dataset.numbers.split(" ").reduce((all, number) => all + (counts[number] || 0), 0);
    row.querySelector("[data-lines]").textContent = short(sum);
  }
}

const short = (number) => (number < 10000 ? number.toLocaleString("en") : `${Math.round(number / 1000)} k`);

function megabytes(size) {
  if (size < 1024) return `${size} bytes`;
  if (size < 1048576) return `${(size / 1024).toFixed(1)} KB`;
  return size < 1073741824 ? `${(size / 1048576).toFixed(1)} MB` : `${(size / 1073741824).toFixed(1)} GB`;
}
