// Bundles the page into workshop.js, workshop.css and frame.js, which are committed, so that only those who change the page need
// npm. Their first line has a checksum of the sources, so that a test can notice when somebody forgot this step.
// licenses.txt has the licenses of the packages in the bundle, because the minified bundle has lost them.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const built = ["workshop.js", "workshop.css", "frame.js"];
const sources = readdirSync(".")
  .filter((name) => /\.(ts|css)$/.test(name) && !built.includes(name))
  .concat("package-lock.json", "../../../docs/present/questions.ts")
  .sort();
const hash = createHash("sha256");
for (const name of sources) hash.update(readFileSync(name));
const line = `/* npm run build made this from ${hash.digest("hex").slice(0, 8)} */`;

const { metafile } = await build({
  entryPoints: [
    { in: "main.ts", out: "workshop" },
    { in: "page.css", out: "workshop" },
    { in: "frame.ts", out: "frame" },
  ],
  outdir: ".",
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "ascii",
  banner: { js: line, css: line },
  legalComments: "none",
  metafile: true,
});

const inputs = Object.keys(metafile.inputs).map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
const packages = [...new Set(inputs.filter(Boolean))].sort();
const licenses = new Map();
for (const name of packages) {
  const file = readdirSync(`node_modules/${name}`).find((file) => /^licen[sc]e/i.test(file));
  const text = readFileSync(`node_modules/${name}/${file}`, "utf8").trim();
  licenses.set(text, [...(licenses.get(text) ?? []), name]);
}
const parts = [...licenses].map(([text, names]) => `${names.join(", ")}:\n\n${text}\n`);
writeFileSync("licenses.txt", `workshop.js and workshop.css contain these packages.\n\n${parts.join("\n\n")}`);
