// The NameNode's own page of files named the folder after a #.

if (location.hash.startsWith("#/")) location.replace(`/files${location.hash.slice(1).replace(/\/+$/, "")}`);
