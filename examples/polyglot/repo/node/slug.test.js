import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { slug } from "./slug.js";

const spec = readFileSync(new URL("../spec/slugs.tsv", import.meta.url), "utf8");

for (const line of spec.replace(/\n$/, "").split("\n")) {
  const [title, expected] = line.split("\t");
  test(JSON.stringify(title), () => assert.equal(slug(title), expected));
}
