import { describe, expect, test } from 'vitest';
import { propertiesOf, typeLabel } from './schema-view';

describe('properties', () => {
  test('have a type, a required flag, a default and a description', () => {
    const schema = {
      type: 'object',
      properties: {
        text: { type: 'string', description: 'the text that needs a headline' },
        words: { type: 'integer', minimum: 1, default: 8 },
      },
      required: ['text'],
    };

    expect(propertiesOf(schema)).toEqual([
      { name: 'text', type: 'text', required: true, fallback: null, description: 'the text that needs a headline' },
      { name: 'words', type: 'whole number, at least 1', required: false, fallback: '8', description: '' },
    ]);
  });

  test('are empty for a schema that is not an object', () => {
    expect(propertiesOf({ type: 'string' })).toEqual([]);
    expect(propertiesOf({})).toEqual([]);
  });

  test('resolve references within the schema, including circular ones', () => {
    const schema = {
      $defs: {
        style: { enum: ['short', 'long'] },
        loop: { $ref: '#/$defs/loop' },
        tree: { type: 'array', items: { $ref: '#/$defs/tree' } },
      },
      properties: {
        style: { $ref: '#/$defs/style', default: 'short' },
        loop: { $ref: '#/$defs/loop' },
        tree: { $ref: '#/$defs/tree' },
      },
    };

    expect(propertiesOf(schema).map(({ type, fallback }) => [type, fallback])).toEqual([
      ['"short" or "long"', '"short"'],
      ['anything', null],
      ['list of list of list of list of anything', null],
    ]);
  });
});

describe('type labels', () => {
  test.each([
    [{ type: 'array', items: { type: 'object' }, 'x-ag-type-ref': 'messages' }, 'messages'],
    [{ type: 'array', items: { type: 'string' } }, 'list of text'],
    [{ anyOf: [{ type: 'number', minimum: 0, maximum: 2 }, { type: 'null' }] }, 'number, 0 to 2 or null'],
    [{ type: ['string', 'null'] }, 'text or null'],
    [{ type: 'boolean' }, 'boolean'],
    [{ const: 3 }, '3'],
    [{ type: 'string', format: 'date' }, 'text (date)'],
    ['not a schema', 'anything'],
  ])('%j is labelled %s', (schema, label) => {
    expect(typeLabel(schema, {})).toBe(label);
  });
});
