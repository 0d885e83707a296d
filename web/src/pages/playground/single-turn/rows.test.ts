import { describe, expect, it } from 'vitest';
import { shapeOf } from '@/components/forms/json-schema';
import { addRows, duplicateRow, mergeSchemas } from './rows';

describe('rows', () => {
  const rows = [
    { id: 'r1', name: '', inputs: { text: 'a' } },
    { id: 'r3', name: '', inputs: {} },
  ];

  it('are added with free names, up to a thousand', () => {
    expect(addRows(rows, [{ text: 'b' }, {}])).toEqual([
      ...rows,
      { id: 'r4', name: '', inputs: { text: 'b' } },
      { id: 'r5', name: '', inputs: {} },
    ]);
    expect(
      addRows(
        rows,
        Array.from({ length: 2000 }, () => ({})),
      ).length,
    ).toBe(1000);
  });

  it('are duplicated below themselves', () => {
    expect(duplicateRow(rows, 'r1').map(({ id, inputs }) => [id, inputs])).toEqual([
      ['r1', { text: 'a' }],
      ['r4', { text: 'a' }],
      ['r3', {}],
    ]);
  });
});

describe('the inputs of several workflows', () => {
  it('of one workflow are its own', () => {
    const schema = { type: 'object', properties: {} };

    expect(mergeSchemas([schema])).toBe(schema);
  });

  it('are all of theirs, the first one’s first, each with its own definitions', () => {
    const one = {
      properties: { a: { $ref: '#/$defs/X' } },
      required: ['a'],
      $defs: { X: { enum: [1] } },
      additionalProperties: false,
    };
    const two = {
      properties: { a: { type: 'string' }, b: { $ref: '#/$defs/X' } },
      required: ['b'],
      $defs: { X: { enum: [2] } },
      additionalProperties: true,
    };
    const both = mergeSchemas([one, two]);
    const properties = both.properties as Record<string, unknown>;

    expect([both.required, both.additionalProperties]).toEqual([['a', 'b'], true]);
    expect([shapeOf(properties.a, both), shapeOf(properties.b, both)]).toMatchObject([
      { kind: 'choice', options: [1] },
      { kind: 'choice', options: [2] },
    ]);
  });
});
