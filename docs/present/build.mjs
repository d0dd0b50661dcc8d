// Bundles the page's scripts into present.js, which is committed, so that only those who change the page need npm. The
// first line has a checksum of the sources, by which a test of the book finds out whether somebody forgot this step.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { build } from "esbuild";

const sources = readdirSync(".")
  .filter((name) => name.endsWith(".ts"))
  .sort();
const hash = createHash("sha256");
for (const name of sources) hash.update(readFileSync(name));
await build({
  entryPoints: ["deck.ts"],
  outfile: "present.js",
  bundle: true,
  format: "iife",
  target: "es2022",
  charset: "ascii",
  banner: { js: `// npm run build made this from ${hash.digest("hex").slice(0, 8)}` },
});
