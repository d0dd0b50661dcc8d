// Bundles the scripts of the deck into present.js and those of the book into book.js, which are committed, so that only
// those who change the page need npm. The first line has a checksum of the sources, by which a test of the book finds out
// whether somebody forgot this step. For the same reason, the tests have a copy of axe, which looks for what keeps
// people with a keyboard or a screen reader from using our pages.

import { createHash } from "node:crypto";
import { copyFileSync, readdirSync, readFileSync } from "node:fs";
import { build } from "esbuild";

const sources = readdirSync(".")
  .filter((name) => name.endsWith(".ts"))
  .sort();
const hash = createHash("sha256");
for (const name of sources) hash.update(readFileSync(name));
const sum = hash.digest("hex").slice(0, 8);
for (const [source, bundle] of [
  ["deck.ts", "present.js"],
  ["book.ts", "book.js"],
]) {
  await build({
    entryPoints: [source],
    outfile: bundle,
    bundle: true,
    format: "iife",
    target: "es2022",
    charset: "ascii",
    banner: { js: `// npm run build made this from ${sum}` },
  });
}
copyFileSync("node_modules/axe-core/axe.min.js", "../tests/browser/axe.min.js");
