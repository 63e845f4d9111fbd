#!/bin/sh
# Fetches the pinned packages, and copies or bundles what the pages use. bundles/ lists what each module exports.
# icons.svg is made by hand: one <symbol> of @tabler/icons (MIT) per icon that a template names.
set -eu
cd "$(dirname "$0")"
npm ci --ignore-scripts --no-audit --no-fund --silent
sed "/sourceMappingURL/d" node_modules/@tabler/core/dist/css/tabler.min.css > tabler.min.css
cp node_modules/htmx.org/dist/htmx.min.js htmx.min.js
cp node_modules/@xterm/xterm/css/xterm.css terminal.css
cp node_modules/uplot/dist/uPlot.min.css plot.css
for name in editor terminal plot; do
    node_modules/.bin/esbuild "bundles/$name.js" --bundle --minify --format=esm --target=es2022 --legal-comments=none \
        --log-level=warning --outfile="$name.js"
done
rm -r node_modules
