// The page of a folder: its parts, and how it names paths and sizes.

export const one = (selector, root = document) => root.querySelector(selector);
export const form = one("#upload"), input = one("#upload-files");
export const say = (text) => { one("#said").textContent = text; };

export const words = (bytes) => {
  let value = bytes;
  let unit = "B";
  for (const larger of ["KB", "MB", "GB", "TB"]) {
    if (value < 1000) break;
    value /= 1024;
    unit = larger;
  }
  return `${unit === "B" || value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`;
};
export const address = (path) => `/webhdfs/v1${path.split("/").map(encodeURIComponent).join("/")}`;
export const within = (name) => `${form.dataset.to.replace(/\/$/, "")}/${name}`;
