import { describe, expect, it } from 'vitest';
import { exampleOf } from './examples';

describe('a new row begins with', () => {
  it.each([
    ['the example of all inputs, without a conversation', { examples: [{ text: 'a', messages: [] }, { text: 'b' }], properties: { text: { examples: ['c'] } } }, { text: 'a' }],
    ['the first example of each input', { properties: { code: { examples: ['f()', 'g()'] }, log: { type: 'string' } } }, { code: 'f()' }],
    ['an example where nothing, or null, is the default', { properties: { a: { examples: [1], default: null }, b: { examples: [2], default: 3 } } }, { a: 1 }],
    ['nothing where there is no example', { properties: { text: { type: 'string', default: 'x' } } }, {}],
    ['nothing where the example is not one of inputs', { examples: ['text'], properties: {} }, {}],
    ['nothing where the schema is not known', undefined, {}],
  ])('%s', (_, schema, inputs) => {
    expect(exampleOf(schema)).toEqual(inputs);
  });

  it('a copy of its own', () => {
    const context = { code: 'f()' };

    expect(exampleOf({ examples: [{ context }] }).context).not.toBe(context);
  });
});
