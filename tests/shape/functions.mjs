// How many lines each function of the files on standard input has of its own: [[path, name, lines], …] on standard output.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

const ts = createRequire(join(process.cwd(), 'package.json'))('typescript');

const found = [];

/** The lines of the functions in a node, one level down; each that is met is told. */
function inner(node, source, path) {
  let sum = 0;
  ts.forEachChild(node, (child) => {
    const below = inner(child, source, path);
    // An arrow of an expression is a part of the line that it stands on.
    if (!ts.isFunctionLike(child) || !child.body || !ts.isBlock(child.body)) sum += below;
    else {
      const all = lineOf(source, child.end) - lineOf(source, child.getStart(source)) + 1;
      found.push([path, nameOf(child), all - below]);
      // One that begins and ends on lines of others leaves those to them.
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
