import { describe, expect, it } from 'vitest';
import { parseCells, parsePaste } from './paste-dialog';

const schema = {
  type: 'object',
  properties: {
    text: { type: 'string' },
    words: { type: 'integer' },
    loud: { type: 'boolean' },
    tags: { type: 'array', items: { type: 'string' } },
  },
  required: ['text'],
  additionalProperties: false,
};

describe('pasted text', () => {
  it('can be JSON lines, a list or one object', () => {
    expect(parsePaste('{"text": "a"}\n\n{"text": "b", "words": 3}', schema, false)).toEqual({
      inputs: [{ text: 'a' }, { text: 'b', words: 3 }],
      names: ['text', 'words'],
    });
    expect(parsePaste('[{"text": "a"}]', schema, false)).toEqual({ inputs: [{ text: 'a' }], names: ['text'] });
    expect(parsePaste('{\n  "text": "a"\n}', schema, false)).toEqual({ inputs: [{ text: 'a' }], names: ['text'] });
  });

  it('can be an export with inputs and messages', () => {
    const messages = [{ role: 'user', content: 'Hi' }];

    expect(parsePaste(JSON.stringify({ messages, inputs: { subject: 'maths' } }), schema, true)).toEqual({
      inputs: [{ subject: 'maths', messages }],
      names: ['subject', 'messages'],
    });
  });

  it('can be CSV, whose cells are parsed by the types of the inputs and omitted if empty', () => {
    expect(parsePaste('text,words,loud,tags\r\n"a, ""b""",3,yes,"[""x""]"\nc,,,\n', schema, false)).toEqual({
      inputs: [{ text: 'a, "b"', words: 3, loud: true, tags: ['x'] }, { text: 'c' }],
      names: ['text', 'words', 'loud', 'tags'],
    });
  });

  it('can be tab-separated cells of a spreadsheet', () => {
    expect(parsePaste('text\twords\na, b\t3', schema, false)).toEqual({
      inputs: [{ text: 'a, b', words: 3 }],
      names: ['text', 'words'],
    });
  });

  it('without a header fills the first input, or the user message of a chat', () => {
    expect(parsePaste('one\ntwo', schema, false)).toEqual({
      inputs: [{ text: 'one' }, { text: 'two' }],
      names: ['text'],
    });
    expect(parsePaste('Hi\nBye', { properties: { messages: {} } }, true)).toEqual({
      inputs: [{ messages: [{ role: 'user', content: 'Hi' }] }, { messages: [{ role: 'user', content: 'Bye' }] }],
      names: ['messages'],
    });
  });

  it('is rejected with the reason if it is invalid', () => {
    expect(parsePaste('{"text": "a"}\n{oops', schema, false)).toEqual({ error: 'Line 2: invalid JSON.' });
    expect(parsePaste('[1]', schema, false)).toEqual({ error: 'Item 1: must be a JSON object.' });
    expect(parsePaste('text,wrods\na,3', schema, false)).toEqual({
      error: 'Unknown input “wrods”. The first line must contain input names.',
    });
  });

  it('can have any input names if the schema allows additional properties', () => {
    expect(parsePaste('a,b\n1,x', { properties: {}, additionalProperties: true }, false)).toEqual({
      inputs: [{ a: 1, b: 'x' }],
      names: ['a', 'b'],
    });
  });
});

it('quoted cells may contain line breaks', () => {
  expect(parseCells('a,"b\nc",\nd')).toEqual([['a', 'b\nc', ''], ['d']]);
});
