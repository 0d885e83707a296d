import { describe, expect, test } from 'vitest';
import { fileFormat, readFileHead, previewFile, testsetName, parseCell, parseCsv } from './file-preview';

const errorMessage = (call: () => unknown): string => {
  try {
    call();
    return '';
  } catch (error) {
    return (error as Error).message;
  }
};

test('detects the format by the file extension, and names the test set after the file', () => {
  expect(['a.CSV', 'b.tsv', 'c.jsonl', 'd.ndjson', 'e.v2.json', 'f.parquet'].map(fileFormat)).toEqual([
    'csv',
    'csv',
    'jsonl',
    'jsonl',
    'json',
    'parquet',
  ]);
  expect([
    errorMessage(() => fileFormat('a.xlsx')),
    errorMessage(() => fileFormat('a.pdf')),
    errorMessage(() => fileFormat('constructor')),
  ]).toEqual([
    'Spreadsheets are not supported. Save the file as “CSV UTF-8” (in Excel: File > Save As) and import that.',
    'Unsupported file type: a.pdf. Use .csv, .jsonl, .json or .parquet.',
    'Unsupported file type: constructor. Use .csv, .jsonl, .json or .parquet.',
  ]);
  expect([testsetName('Refunds v2.csv'), testsetName('.csv')]).toEqual(['Refunds v2', 'Test set']);
});

describe('the preview', () => {
  const complete = { types: 'auto', isComplete: true } as const;

  test('of JSON lines wraps values that are not objects, and drops reserved columns', () => {
    const lines = ['{"q": 1, "__id__": "row_1"}', '', '[{"role": "user", "content": "Hi"}]', '7'].join('\n');
    expect(previewFile('jsonl', lines, complete)).toEqual({
      columns: ['q', 'messages', 'value'],
      rows: [{ q: 1 }, { messages: [{ role: 'user', content: 'Hi' }] }, { value: 7 }],
      isAll: true,
    });
  });

  test('of a truncated text ignores the last line', () => {
    expect(previewFile('jsonl', '{"q": 1}\n{"q"', { ...complete, isComplete: false })).toEqual({
      columns: ['q'],
      rows: [{ q: 1 }],
      isAll: false,
    });
    expect(errorMessage(() => previewFile('jsonl', '{"q": 1}\n{"q"', complete))).toBe('Line 2: invalid JSON.');
  });

  test('of JSON accepts a list, `rows`, or the test cases of Agenta', () => {
    const rows = [{ q: 1 }];
    expect(
      [rows, { rows }, { data: { testcases: [{ data: { q: 1 } }] } }].map(
        (file) => previewFile('json', JSON.stringify(file), complete).rows,
      ),
    ).toEqual([rows, rows, rows]);
    expect(errorMessage(() => previewFile('json', '{}', complete))).toBe('The file must contain a list of rows.');
  });

  test('reads the start of a file, which must be UTF-8', async () => {
    const long = new File(['a\n', 'é\n'.repeat(200_000)], 'long.csv');
    const head = await readFileHead(long);
    expect([
      head?.isComplete,
      head && previewFile('csv', head.text, { types: 'auto', isComplete: false }).rows[0],
    ]).toEqual([false, { a: 'é' }]);
    expect(await readFileHead(new File(['x'], 'x.parquet'))).toBe(null);
    await expect(readFileHead(new File([new Uint8Array([0xff, 0xfe])], 'x.csv'))).rejects.toThrow(
      'The file is not UTF-8.',
    );
    await expect(readFileHead(new File(['PK'], 'x.csv'))).rejects.toThrow('Spreadsheets are not supported');
  });
});

describe('a CSV cell is parsed as', () => {
  test('the value of a JSON string literal, or text if the literal is invalid', () => {
    expect(['"42"', '""', '"a" b', '" x'].map(parseCell)).toEqual(['42', '', '"a" b', '" x']);
  });

  test('null, true or false', () => {
    expect(['null', 'true', 'false', 'True', 'nullx'].map(parseCell)).toEqual([null, true, false, 'True', 'nullx']);
  });

  test('a number if the server would write it the same way', () => {
    const numbers = [
      '42',
      '-5',
      '0',
      '0.1',
      '1.0',
      '0.00001',
      '1e16',
      '1e21',
      '1e-6',
      '1.5e-7',
      '1.7976931348623157e308',
      '123456789.123',
      '18446744073709551616',
    ];
    expect(numbers.map(parseCell)).toEqual(numbers.map(Number));
    expect(Object.is(parseCell('-0.0'), -0)).toBe(true);
  });

  test('text if a number would lose zeros or signs', () => {
    const texts = [
      '007',
      '1.50',
      '1e5',
      '+5',
      '-0',
      ' 42',
      'NaN',
      '1e+21',
      '1e-5',
      '1.5e-07',
      '100000000000000000.0',
      '1e15',
      '0.000001',
      '-',
      '1.',
      '1e400',
      '12345678901234567.0',
      '1.2345678901234567e16',
    ];
    expect(texts.map(parseCell)).toEqual(texts);
  });

  test('an object or a list if the JSON is complete', () => {
    expect(['{"a":1}', '  ["x"]', '{"a":1', '[1,2] x'].map(parseCell)).toEqual([{ a: 1 }, ['x'], '{"a":1', '[1,2] x']);
  });
});

describe('a CSV file', () => {
  test('is parsed into columns, typed rows and the delimiter', () => {
    const text = 'id,messages,expected,note\r\n007,"[{""role"":""user"",""content"":""hi""}]",42,"""42"""\r\n';
    expect(parseCsv(text)).toEqual({
      columns: ['id', 'messages', 'expected', 'note'],
      rows: [{ id: '007', messages: [{ role: 'user', content: 'hi' }], expected: 42, note: '42' }],
      delimiter: ',',
    });
  });

  test.each([
    [
      ['42', '', 'null'],
      [42, undefined, null],
    ],
    [
      ['Paris', '42', 'true', '[1]'],
      ['Paris', '42', 'true', '[1]'],
    ],
    [
      ['42', '1.50'],
      ['42', '1.50'],
    ],
    [
      ['Paris', '"""42"""'],
      ['Paris', '42'],
    ],
    [
      ['42', '"""42"""'],
      [42, '42'],
    ],
    [
      ['42', '"""Paris"""', 'Oslo', 'null'],
      [42, 'Paris', 'Oslo', null],
    ],
    [
      ['Hello', '"[{""role"":""user"",""content"":""hi""}]"'],
      ['Hello', [{ role: 'user', content: 'hi' }]],
    ],
  ])('has one type in each column: %j', (cells, values) => {
    const text = `id,value\n${cells.map((cell, index) => `${index},${cell}\n`).join('')}`;
    expect(parseCsv(text).rows.map(({ value }) => value)).toEqual(values);
    expect(parseCsv(text, { maxRows: 1 }).rows.map(({ value }) => value)).toEqual(values.slice(0, 1));
  });

  test('omits empty and missing cells, and skips blank lines, but not a quoted empty cell', () => {
    expect(parseCsv('\uFEFFa,b\n1,\n\n,x\r2').rows).toEqual([{ a: 1 }, { b: 'x' }, { a: 2 }]);
    expect(parseCsv('a\n""\n').rows).toEqual([{}]);
  });

  test('has the delimiter that its header uses', () => {
    expect(parseCsv('a;b;"x,y,z"\n1;2;3').columns).toEqual(['a', 'b', 'x,y,z']);
    expect(parseCsv('a\tb\n1\t2').rows).toEqual([{ a: 1, b: 2 }]);
    expect(parseCsv('a,b;c\n').columns).toEqual(['a', 'b;c']);
  });

  test('has only text values if requested', () => {
    expect(parseCsv('a,b\n1,\n', { types: 'text' }).rows).toEqual([{ a: '1', b: '' }]);
  });

  test('drops reserved columns, unless the name is a JSON string literal', () => {
    expect(parseCsv('__id__,a,"""__id__"""\nrow_1,2,3\n')).toMatchObject({
      columns: ['a', '__id__'],
      rows: [{ a: 2, __id__: 3 }],
    });
  });

  test('is rejected with the line number of the error', () => {
    const error = (text: string): string => {
      try {
        parseCsv(text);
        return '';
      } catch (thrown) {
        return (thrown as Error).message;
      }
    };
    expect(['', 'a,a\n', 'a\n1,2\n', 'a\n"x\ny"\n1,2', 'a\n"x', 'a\n"x"y', '"""x"\n'].map(error)).toEqual([
      'Line 1: missing header with the column names.',
      'Line 1: duplicate column “a”.',
      'Line 2: found 2 cells for 1 column.',
      'Line 4: found 2 cells for 1 column.',
      'Line 2: unclosed quote.',
      'Line 2: unexpected text after a closing quote.',
      'Line 1: the column name "x starts with a quote but is not a JSON string.',
    ]);
  });

  test('is parsed up to its last complete line if truncated, or up to the maximum number of rows', () => {
    expect(parseCsv('a\n1\n"x', { isComplete: false }).rows).toEqual([{ a: 1 }]);
    expect(parseCsv('a\n1\n23', { isComplete: false }).rows).toEqual([{ a: 1 }]);
    expect(parseCsv('a\n1\n2\n3\n', { maxRows: 2 }).rows).toEqual([{ a: 1 }, { a: 2 }]);
  });
});
