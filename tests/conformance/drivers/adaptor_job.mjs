// Runs a job with a real adaptor. A request is {adaptor, operations, state}: the package, the source of each operation
// with its lazy arguments already wrapped in functions, and the initial state. The answer is {state} or {error}.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { told } from './lines.mjs';

// Not `import`: the ES module of version 6 imports a file of lodash without its extension.
const load = createRequire(import.meta.url);

/** An operation that can be followed by `.then` and `.catch`, as OpenFn's compiler makes of it. */
function chainable(operation) {
  const step = (state) => operation(state);
  step.then = (next) => chainable(async (state) => next(await operation(state)));
  step.catch = (next) => chainable(async (state) => {
    try {
      return await operation(state);
    } catch (error) {
      return next(error, state);
    }
  });
  return step;
}

console.log = console.info = console.warn = console.error; // The output is read as JSON.

for await (const line of createInterface({ input: process.stdin })) {
  const { adaptor, operations, state } = JSON.parse(line);
  let answer;
  try {
    const functions = load(adaptor);
    const names = Object.keys(functions).filter((name) => name !== 'default');
    const wrapped = names.map((name) => typeof functions[name] === 'function'
      ? (...values) => {
          const made = functions[name](...values);
          return typeof made === 'function' ? chainable(made) : made;
        }
      : functions[name]);
    const steps = new Function(...names, `return [${operations.join(',\n')}];`)(...wrapped);
    let next = { references: [], ...state };
    for (const step of steps) next = await step(next);
    answer = { state: next };
  } catch (error) {
    answer = { error: told(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
