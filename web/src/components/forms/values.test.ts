import { describe, expect, it } from 'vitest';
import { shapeOf } from './json-schema';
import {
  emptyItem,
  fieldError,
  formErrors,
  matchesShape,
  parseNumber,
  unknownFields,
  withField,
  withNestedField,
  isEqual,
  sliderRange,
  formatValue,
} from './values';

describe('a typed number', () => {
  it.each([
    ['12', 12],
    [' -1.5 ', -1.5],
    ['1e3', 1000],
    ['.5', 0.5],
    ['2.', 2],
    ['', null],
    ['-', null],
    ['1,5', null],
    ['0x10', null],
    ['1e999', null],
  ])('%o is parsed as %o', (text, value) => {
    expect(parseNumber(text, false)).toBe(value);
  });

  it('is rejected if it must be an integer and has a fraction', () => {
    expect([parseNumber('7', true), parseNumber('7.5', true)]).toEqual([7, null]);
  });
});

describe('a slider', () => {
  const range = { min: -Infinity, max: Infinity, above: -Infinity, below: Infinity, step: null };

  it('runs between both bounds in round steps', () => {
    expect(sliderRange({ ...range, min: 0, max: 2 }, false)).toEqual({ from: 0, to: 2, step: 0.01 });
    expect(sliderRange({ ...range, min: 1, max: 10 }, true)).toEqual({ from: 1, to: 10, step: 1 });
    expect(sliderRange({ ...range, min: 0, max: 1, step: 0.25 }, false)).toEqual({ from: 0, to: 1, step: 0.25 });
  });

  it('leaves out an exclusive bound', () => {
    expect(sliderRange({ ...range, above: 0, below: 1 }, false)).toEqual({ from: 0.01, to: 0.99, step: 0.01 });
  });

  it('needs two different bounds that are not too far apart', () => {
    expect(sliderRange({ ...range, min: 0 }, false)).toBeNull();
    expect(sliderRange({ ...range, min: 1, max: 1 }, true)).toBeNull();
    expect(sliderRange({ ...range, min: 0, max: 1e9 }, true)).toBeNull();
  });
});

describe('validation', () => {
  it.each([
    [{ type: 'string', minLength: 2 }, 'a', 'Must have at least 2 characters.'],
    [{ type: 'string' }, 1, 'Must be text.'],
    [{ type: 'integer' }, 1.5, 'Must be a whole number.'],
    [{ type: 'number', minimum: 0 }, -1, 'Must be at least 0.'],
    [{ type: 'number', exclusiveMaximum: 1 }, 1, 'Must be less than 1.'],
    [{ type: 'number' }, null, 'Must not be null.'],
    [{ type: ['number', 'null'] }, null, null],
    [{ enum: ['a', 1] }, 'b', 'Must be one of: a, 1.'],
    [{ type: 'array', items: { type: 'string' }, maxItems: 1 }, ['a', 'b'], 'Must have at most 1 item.'],
    [{ type: 'boolean' }, 'yes', 'Must be true or false.'],
    [{}, { any: ['thing'] }, null],
    [{ type: 'string' }, undefined, null],
  ])('for schema %o and value %o returns %o', (schema, value, message) => {
    expect(fieldError(shapeOf(schema, {}), value)).toBe(message);
  });

  it('reports all errors with their paths', () => {
    const pointSchema = { type: 'object', properties: { x: { type: 'integer' } }, required: ['x'] };
    const schema = {
      type: 'object',
      properties: {
        text: { type: 'string' },
        'a/b': { type: 'integer' },
        place: pointSchema,
        tags: { type: 'array', items: { type: 'string' } },
        messages: {},
      },
      required: ['text', 'messages'],
    };

    expect(formErrors(schema, { 'a/b': 'x', place: {}, tags: ['a', 1] }, ['messages'])).toEqual([
      { path: '/text', message: 'Required.' },
      { path: '/a~1b', message: 'Must be a number.' },
      { path: '/place/x', message: 'Required.' },
      { path: '/tags/1', message: 'Must be text.' },
    ]);
  });
});

it('matches only values of the same type as the field', () => {
  const list = shapeOf({ type: 'array', items: { type: 'string' } }, {});

  expect([
    matchesShape(list, ['a']),
    matchesShape(list, [1]),
    matchesShape(list, [null]),
    matchesShape(list, undefined),
    matchesShape(list, 'a'),
  ]).toEqual([true, false, false, true, false]);
});

describe('fields', () => {
  it('are set and removed by name', () => {
    expect(Object.entries(withField({ a: 1, b: 2 }, 'a', 3))).toEqual([
      ['a', 3],
      ['b', 2],
    ]);
    expect(withField({ a: 1, b: 2 }, 'a', undefined)).toEqual({ b: 2 });
  });

  it('inside an object start from its default, and unset the object when equal to it', () => {
    const fallback = { x: 1, y: 0 };

    expect(withNestedField(undefined, fallback, 'y', 3)).toEqual({ x: 1, y: 3 });
    expect(withNestedField({ x: 1, y: 3 }, fallback, 'y', undefined)).toBeUndefined();
    expect(withNestedField(undefined, undefined, 'y', 3)).toEqual({ y: 3 });
    expect(withNestedField({ y: 3 }, undefined, 'y', undefined)).toBeUndefined();
  });

  it('that the form does not know are returned for editing as JSON', () => {
    const form = { fields: [{ name: 'a', required: false, shape: shapeOf({}, {}) }], open: true };

    expect(unknownFields(form, { a: 1, b: 2, messages: [] }, ['messages'])).toEqual({ b: 2 });
  });
});

it('starts a new list item with the simplest valid value', () => {
  expect(emptyItem(shapeOf({ type: 'string' }, {}))).toBe('');
  expect(emptyItem(shapeOf({ type: 'integer', minimum: 3 }, {}))).toBe(3);
  expect(emptyItem(shapeOf({ enum: ['a', 'b'] }, {}))).toBe('a');
  expect(emptyItem(shapeOf({ type: 'boolean', default: true }, {}))).toBe(true);
});

it('formats values in at most 200 characters', () => {
  expect([
    formatValue('plain'),
    formatValue([1, 2]),
    formatValue(null),
    formatValue(undefined),
    formatValue('x'.repeat(300)).length,
  ]).toEqual(['plain', '[1,2]', 'null', '', 200]);
});

it('compares values as JSON, ignoring key order', () => {
  expect(isEqual({ a: [1, { b: null }], c: 2 }, { c: 2, a: [1, { b: null }] })).toBe(true);
  expect([isEqual({ a: 1 }, { b: 1 }), isEqual([1], [1, 2]), isEqual(1, '1'), isEqual(null, {})]).toEqual([
    false,
    false,
    false,
    false,
  ]);
});
