// Print the length of each function in the files on standard input, without nested functions: [[path, name, lines], …].
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

const ts = createRequire(join(process.cwd(), 'package.json'))('typescript');

const found = [];

/** Return the lines of the functions directly in a node, and record every function. */
function inner(node, source, path) {
  let sum = 0;
  ts.forEachChild(node, (child) => {
    const below = inner(child, source, path);
    // An arrow function with an expression body counts as part of its line.
    if (!ts.isFunctionLike(child) || !child.body || !ts.isBlock(child.body)) sum += below;
    else {
      const all = lineOf(source, child.end) - lineOf(source, child.getStart(source)) + 1;
      found.push([path, nameOf(child), all - below]);
      // The first and last line belong to the surrounding function.
      sum += Math.max(all - 2, 0);
    }
  });
  return sum;
}

const lineOf = (source, at) => source.getLineAndCharacterOfPosition(at).line;

const nameOf = (node) => (node.name ?? node.parent?.name)?.getText() ?? '(unnamed)';

for (const [path, content] of Object.entries(JSON.parse(await text(process.stdin)))) {
  const source = ts.createSourceFile(path, content, ts.ScriptTarget.Latest, true);
  inner(source, source, path);
}
process.stdout.write(JSON.stringify(found));
