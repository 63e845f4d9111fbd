// The files of a drop, with the folders that they were in: [[name, file], ...].

const walk = async (entry, before, found) => {
  if (entry.isFile) {
    found.push([before + entry.name, await new Promise((done, fail) => entry.file(done, fail))]);
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const part = await new Promise((done, fail) => reader.readEntries(done, fail));
    if (!part.length) return;
    for (const each of part) await walk(each, `${before}${entry.name}/`, found);
  }
};

export const dropped = async (transfer) => {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => [file.name, file]);
  const found = [];
  for (const entry of entries) await walk(entry, "", found);
  return found;
};
export const isFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
