// Numbers in words, as portal/metrics/kinds.py writes them.

const SIZES = ["B", "KB", "MB", "GB", "TB", "PB"];

function size(value) {
  let at = 0;
  while (value >= 1000 && at < SIZES.length - 1) { value /= 1024; at += 1; }
  return `${at === 0 || value >= 100 ? Math.round(value) : round(value)} ${SIZES[at]}`;
}

function round(value) {
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return String(value >= 1 ? Math.round(value * 10) / 10 : Math.round(value * 100) / 100);
}

const WRITE = {
  bytes: size,
  rate: (value) => `${size(value)}/s`,
  percent: (value) => `${Math.round(value)} %`,
  watts: (value) => `${round(value)} W`,
  degrees: (value) => `${Math.round(value)} °C`,
};

export function write(unit, value) {
  return value === null || value === undefined ? "–" : (WRITE[unit] || round)(value);
}

// The places of the labels of an axis: halves, quarters, tenths of round numbers; round in steps of 1024 for sizes.
export function splits(unit, most) {
  let base = 1;
  if (unit === "bytes" || unit === "rate") while (most / base >= 1000) base *= 1024;
  const wanted = most / base / 3;
  const power = 10 ** Math.floor(Math.log10(wanted || 1));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= wanted) * base;
  const found = [];
  for (let at = 0; at <= most * 1.001; at += step) found.push(at);
  return found;
}

export function top(unit, most) {
  if (unit === "percent") return 100;
  const least = unit === "bytes" || unit === "rate" ? 1024 : 1;
  const all = splits(unit, most || least);
  const step = all[1] || 1;
  return Math.ceil((most || least) / step - 0.001) * step;
}
