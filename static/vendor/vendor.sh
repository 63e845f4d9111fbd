#!/bin/sh
# Fetches the pinned packages and copies what the pages use. icons.svg is made by hand: one <symbol> of @tabler/icons
# (MIT) per icon that a template names.
set -eu
cd "$(dirname "$0")"
npm ci --ignore-scripts --no-audit --no-fund --silent
sed "/sourceMappingURL/d" node_modules/@tabler/core/dist/css/tabler.min.css > tabler.min.css
cp node_modules/htmx.org/dist/htmx.min.js htmx.min.js
rm -r node_modules
