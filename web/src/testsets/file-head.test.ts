import { describe, expect, test } from 'vitest';
import { formatOf, headOf, look, nameOf } from './file-head';

const said = (doing: () => unknown): string => {
  try {
    doing();
    return '';
  } catch (error) {
    return (error as Error).message;
  }
};

test('a file is known by the end of its name', () => {
  expect(['a.CSV', 'b.tsv', 'c.jsonl', 'd.ndjson', 'e.v2.json', 'f.parquet'].map(formatOf)).toEqual(['csv', 'csv', 'jsonl', 'jsonl', 'json', 'parquet']);
  expect([said(() => formatOf('a.xlsx')), said(() => formatOf('a.pdf')), said(() => formatOf('constructor'))]).toEqual([
    'Spreadsheets are not read: save it as “CSV UTF-8” (in Excel: File, Save As) and take that file.',
    'a.pdf is no file of ours. Known: .csv, .jsonl, .json and .parquet.',
    'constructor is no file of ours. Known: .csv, .jsonl, .json and .parquet.',
  ]);
  expect([nameOf('Refunds v2.csv'), nameOf('.csv')]).toEqual(['Refunds v2', 'Test set']);
});

describe('the first rows', () => {
  const whole = { types: 'auto', whole: true } as const;

  test('of lines are objects; what is none is wrapped, and what is beside the data is left out', () => {
    const lines = ['{"q": 1, "__id__": "row_1"}', '', '[{"role": "user", "content": "Hi"}]', '7'].join('\n');
    expect(look('jsonl', lines, whole)).toEqual({
      columns: ['q', 'messages', 'value'],
      rows: [{ q: 1 }, { messages: [{ role: 'user', content: 'Hi' }] }, { value: 7 }],
      isAll: true,
    });
  });

  test('of a text that was cut leave out the last line', () => {
    expect(look('jsonl', '{"q": 1}\n{"q"', { ...whole, whole: false })).toEqual({ columns: ['q'], rows: [{ q: 1 }], isAll: false });
    expect(said(() => look('jsonl', '{"q": 1}\n{"q"', whole))).toBe('Line 2: this is not JSON.');
  });

  test('of JSON are a list, `rows`, or the test cases of Agenta', () => {
    const rows = [{ q: 1 }];
    expect([rows, { rows }, { data: { testcases: [{ data: { q: 1 } }] } }].map((file) => look('json', JSON.stringify(file), whole).rows)).toEqual([rows, rows, rows]);
    expect(said(() => look('json', '{}', whole))).toBe('The file is no list of rows.');
  });

  test('are read from the beginning of a file, which has to be UTF-8', async () => {
    const long = new File(['a\n', 'é\n'.repeat(200_000)], 'long.csv');
    const head = await headOf(long);
    expect([head?.whole, head && look('csv', head.text, { types: 'auto', whole: false }).rows[0]]).toEqual([false, { a: 'é' }]);
    expect(await headOf(new File(['x'], 'x.parquet'))).toBe(null);
    await expect(headOf(new File([new Uint8Array([0xff, 0xfe])], 'x.csv'))).rejects.toThrow('This is not UTF-8.');
    await expect(headOf(new File(['PK'], 'x.csv'))).rejects.toThrow('Spreadsheets are not read');
  });
});
