import { describe, expect, it } from 'vitest';
import { formOf, hasWideField, shapeOf, exampleOf } from './json-schema';

const bare = { nullable: false, description: '', fallback: undefined };
const plain = { kind: 'text', format: 'plain', minLength: 0, maxLength: Infinity, ...bare };
const unbounded = { min: -Infinity, max: Infinity, above: -Infinity, below: Infinity, step: null };
const integer = { kind: 'number', isInteger: true, range: unbounded, ...bare };

describe('a schema is shown as', () => {
  const cases: [string, unknown, unknown][] = [
    ['a text', { type: 'string' }, plain],
    ['a date', { type: 'string', format: 'date' }, { ...plain, format: 'date' }],
    [
      'a text of bounded length',
      { type: 'string', minLength: 1, maxLength: 9 },
      { ...plain, minLength: 1, maxLength: 9 },
    ],
    [
      'code',
      { type: 'string', contentMediaType: 'text/javascript' },
      { ...plain, format: 'code', language: 'javascript' },
    ],
    [
      'code with a legacy media type',
      { type: 'string', contentMediaType: 'application/x-ecmascript; charset=utf-8' },
      { ...plain, format: 'code', language: 'javascript' },
    ],
    [
      'code or null',
      { anyOf: [{ type: 'string', contentMediaType: 'text/x-python' }, { type: 'null' }] },
      { ...plain, format: 'code', language: 'python', nullable: true },
    ],
    [
      'code or null, with the media type beside anyOf',
      { anyOf: [{ type: 'string' }, { type: 'null' }], contentMediaType: 'text/x-python' },
      { ...plain, format: 'code', language: 'python', nullable: true },
    ],
    ['a text of type text/plain', { type: 'string', contentMediaType: 'text/plain' }, plain],
    ['a text with an encoding', { type: 'string', contentMediaType: 'text/css', contentEncoding: 'base64' }, plain],
    ['a text of an unknown media type', { type: 'string', contentMediaType: 'image/png' }, plain],
    ['an integer', { type: 'integer' }, integer],
    [
      'a number in a range',
      { type: 'number', minimum: 0, exclusiveMaximum: 2 },
      { ...integer, isInteger: false, range: { ...unbounded, min: 0, below: 2 } },
    ],
    ['a switch', { type: 'boolean', default: true }, { kind: 'switch', ...bare, fallback: true }],
    ['a choice', { enum: ['a', 'b'] }, { kind: 'choice', options: ['a', 'b'], ...bare }],
    ['a choice that may be null', { enum: ['a', null] }, { kind: 'choice', options: ['a'], ...bare, nullable: true }],
    ['a single choice', { const: 1 }, { kind: 'choice', options: [1], ...bare }],
    ['a choice of constants', { anyOf: [{ const: 1 }, { const: 2 }] }, { kind: 'choice', options: [1, 2], ...bare }],
    [
      'a number or null',
      { anyOf: [{ type: 'integer' }, { type: 'null' }], default: null },
      { ...integer, nullable: true, fallback: null },
    ],
    ['a number or null, as a list of types', { type: ['integer', 'null'] }, { ...integer, nullable: true }],
    [
      'a list of numbers',
      { type: 'array', items: { type: 'integer' } },
      { kind: 'list', item: integer, min: 0, max: Infinity, ...bare },
    ],
    ['JSON: a list of objects', { type: 'array', items: { type: 'object' } }, { kind: 'json', ...bare }],
    [
      'JSON: a tuple',
      { type: 'array', prefixItems: [{ type: 'integer' }], items: { type: 'integer' } },
      { kind: 'json', ...bare },
    ],
    [
      'JSON: an object without declared properties',
      { type: 'object', additionalProperties: { type: 'integer' } },
      { kind: 'json', ...bare },
    ],
    ['JSON: a union', { anyOf: [{ type: 'integer' }, { type: 'string' }] }, { kind: 'json', ...bare }],
    ['JSON: anything', {}, { kind: 'json', ...bare }],
    ['JSON: a value that is not a schema', true, { kind: 'json', ...bare }],
  ];
  it.each(cases)('%s', (_, schema, shape) => {
    expect(shapeOf(schema, {})).toEqual(shape);
  });
});

it('follows a reference, and lets keywords beside it override its target', () => {
  const root = { $defs: { Colour: { enum: ['blue', 'red'], description: 'A colour.' } } };

  expect(shapeOf({ $ref: '#/$defs/Colour', default: 'red', description: 'Which.' }, root)).toEqual({
    kind: 'choice',
    options: ['blue', 'red'],
    nullable: false,
    description: 'Which.',
    fallback: 'red',
  });
  expect(shapeOf({ allOf: [{ $ref: '#/$defs/Colour' }] }, root)).toMatchObject({
    kind: 'choice',
    description: 'A colour.',
  });
  expect(shapeOf({ anyOf: [{ $ref: '#/$defs/Colour' }, { type: 'null' }] }, root)).toMatchObject({
    kind: 'choice',
    nullable: true,
  });
});

it('shows a reference that cannot be resolved as JSON', () => {
  expect(shapeOf({ $ref: '#/$defs/Gone' }, {})).toMatchObject({ kind: 'json' });
  expect(shapeOf({ $ref: 'https://example.com/schema' }, {})).toMatchObject({ kind: 'json' });
});

it('shows the recursive part of a schema as JSON', () => {
  const node = {
    type: 'object',
    properties: { name: { type: 'string' }, next: { anyOf: [{ $ref: '#/$defs/Node' }, { type: 'null' }] } },
  };

  expect(shapeOf({ $ref: '#/$defs/Node' }, { $defs: { Node: node } })).toMatchObject({
    kind: 'group',
    fields: [{ name: 'name' }, { name: 'next', shape: { kind: 'json', nullable: true } }],
  });
});

it('applies properties beside “object or null” to the object', () => {
  const properties = { code: { type: 'string' } };

  for (const schema of [
    { properties, anyOf: [{ type: 'object' }, { type: 'null' }] },
    { properties, type: ['object', 'null'] },
  ]) {
    expect(shapeOf(schema, {})).toMatchObject({ kind: 'group', nullable: true, fields: [{ name: 'code' }] });
  }
});

it('lists the fields of a form in order, without excluded ones', () => {
  const schema = {
    type: 'object',
    properties: {
      messages: { type: 'array', items: { type: 'object' } },
      text: { type: 'string' },
      words: { type: 'integer', default: 8 },
    },
    required: ['messages', 'text'],
    additionalProperties: false,
  };

  expect(formOf(schema, ['messages'])).toEqual({
    fields: [
      { name: 'text', required: true, shape: plain },
      { name: 'words', required: false, shape: { ...integer, fallback: 8 } },
    ],
    open: false,
  });
});

it('marks a form with additional properties as open', () => {
  expect(formOf({ type: 'object', properties: {}, additionalProperties: true })).toEqual({ fields: [], open: true });
});

it('finds a wide field if a form contains code at any depth', () => {
  const code = { type: 'object', properties: { body: { type: 'string', contentMediaType: 'text/javascript' } } };

  expect(hasWideField(formOf({ properties: { context: code } }))).toBe(true);
  expect(hasWideField(formOf({ properties: { text: { type: 'string' } } }))).toBe(false);
});

describe('a new row starts with', () => {
  it.each([
    [
      'the example of the whole schema, without messages',
      { examples: [{ text: 'a', messages: [] }, { text: 'b' }], properties: { text: { examples: ['c'] } } },
      { text: 'a' },
    ],
    [
      'the first example of each input',
      { properties: { code: { examples: ['f()', 'g()'] }, log: { type: 'string' } } },
      { code: 'f()' },
    ],
    [
      'an example only if the default is missing or null',
      { properties: { a: { examples: [1], default: null }, b: { examples: [2], default: 3 } } },
      { a: 1 },
    ],
    ['nothing if there is no example', { properties: { text: { type: 'string', default: 'x' } } }, {}],
    ['nothing if the example is not an object', { examples: ['text'], properties: {} }, {}],
    ['nothing if the schema is unknown', undefined, {}],
  ])('%s', (_, schema, inputs) => {
    expect(exampleOf(schema)).toEqual(inputs);
  });

  it('a copy of the example', () => {
    const context = { code: 'f()' };

    expect(exampleOf({ examples: [{ context }] }).context).not.toBe(context);
  });
});
