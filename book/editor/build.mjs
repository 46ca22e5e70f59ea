// Makes editor.js, and licences.txt beside it, from the versions in package-lock.json: `npm ci && node build.mjs`.
// Readers don't need this: both files are in the repository.

import { build } from "esbuild";
import { readFileSync, writeFileSync, existsSync } from "node:fs";

const { metafile } = await build({
    entryPoints: ["entry.js"],
    outfile: "editor.js",
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2020",
    charset: "utf8",
    legalComments: "none",
    metafile: true,
    banner: { js: "// CodeMirror and what it needs, under the MIT licence: licences.txt. Made by build.mjs." },
});

const packages = new Set(
    Object.keys(metafile.inputs).map((path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1]).filter(Boolean),
);
const licences = [...packages].sort().map((name) => {
    const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
    const file = ["LICENSE", "LICENSE.md", "license"].map((file) => `node_modules/${name}/${file}`).find(existsSync);
    if (license !== "MIT" || !file) {
        throw new Error(`${name}: expected the MIT licence and its text, found ${license} and ${file}`);
    }
    return `${name} ${version}\n\n${readFileSync(file, "utf8").trim()}\n`;
});
writeFileSync("licences.txt", licences.join("\n----\n\n"));
