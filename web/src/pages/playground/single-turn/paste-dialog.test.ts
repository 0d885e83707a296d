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

describe('a paste', () => {
  it('of JSON lines, a list or one object gives rows', () => {
    expect(parsePaste('{"text": "a"}\n\n{"text": "b", "words": 3}', schema, false)).toEqual({
      inputs: [{ text: 'a' }, { text: 'b', words: 3 }],
      names: ['text', 'words'],
    });
    expect(parsePaste('[{"text": "a"}]', schema, false)).toEqual({ inputs: [{ text: 'a' }], names: ['text'] });
    expect(parsePaste('{\n  "text": "a"\n}', schema, false)).toEqual({ inputs: [{ text: 'a' }], names: ['text'] });
  });

  it('of an export gives inputs and messages', () => {
    const messages = [{ role: 'user', content: 'Hi' }];

    expect(parsePaste(JSON.stringify({ messages, inputs: { subject: 'maths' } }), schema, true)).toEqual({
      inputs: [{ subject: 'maths', messages }],
      names: ['subject', 'messages'],
    });
  });

  it('of CSV is read by the kinds of the inputs; an empty cell says nothing', () => {
    expect(parsePaste('text,words,loud,tags\r\n"a, ""b""",3,yes,"[""x""]"\nc,,,\n', schema, false)).toEqual({
      inputs: [{ text: 'a, "b"', words: 3, loud: true, tags: ['x'] }, { text: 'c' }],
      names: ['text', 'words', 'loud', 'tags'],
    });
  });

  it('of cells of a spreadsheet has tabs', () => {
    expect(parsePaste('text\twords\na, b\t3', schema, false)).toEqual({
      inputs: [{ text: 'a, b', words: 3 }],
      names: ['text', 'words'],
    });
  });

  it('of lines without a head is the first input, or for a chat what the user says', () => {
    expect(parsePaste('one\ntwo', schema, false)).toEqual({
      inputs: [{ text: 'one' }, { text: 'two' }],
      names: ['text'],
    });
    expect(parsePaste('Hi\nBye', { properties: { messages: {} } }, true)).toEqual({
      inputs: [{ messages: [{ role: 'user', content: 'Hi' }] }, { messages: [{ role: 'user', content: 'Bye' }] }],
      names: ['messages'],
    });
  });

  it('that cannot be read says why', () => {
    expect(parsePaste('{"text": "a"}\n{oops', schema, false)).toEqual({ error: 'Line 2 is not JSON.' });
    expect(parsePaste('[1]', schema, false)).toEqual({ error: 'Item 1 is not an object of inputs.' });
    expect(parsePaste('text,wrods\na,3', schema, false)).toEqual({
      error: 'There is no input “wrods”. The first line names the inputs.',
    });
  });

  it('of any names is taken where any are', () => {
    expect(parsePaste('a,b\n1,x', { properties: {}, additionalProperties: true }, false)).toEqual({
      inputs: [{ a: 1, b: 'x' }],
      names: ['a', 'b'],
    });
  });
});

it('quoted cells may hold lines', () => {
  expect(parseCells('a,"b\nc",\nd')).toEqual([['a', 'b\nc', ''], ['d']]);
});
