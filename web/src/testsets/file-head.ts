/** A file before it is sent: which format it is, and its first rows where the page can read them. Pure but for `headOf`. */
import { isObject } from '@/components/forms/json-schema';
import { isMessages } from '@/testset/said';
import { type Types, readCsv } from './csv';

export type Format = 'jsonl' | 'json' | 'csv' | 'parquet';

/** What each is sent as. */
export const MEDIA: Readonly<Record<Format, string>> = {
  jsonl: 'application/x-ndjson',
  json: 'application/json',
  csv: 'text/csv',
  parquet: 'application/vnd.apache.parquet',
};
const ENDINGS: Readonly<Record<string, Format>> = { jsonl: 'jsonl', ndjson: 'jsonl', json: 'json', csv: 'csv', tsv: 'csv', parquet: 'parquet', pq: 'parquet' };
const SHEETS: ReadonlySet<string> = new Set(['xlsx', 'xlsm', 'xls', 'ods']);
export const ACCEPTED = Object.keys(ENDINGS).map((ending) => `.${ending}`).join(',');

/** Rows of a look. */
export const MOST = 20;
/** Bytes that are read for it. */
const HEAD = 256 * 1024;
/** A JSON file is one value: to look into it, all of it is read, up to so many bytes. */
const WHOLE_JSON = 16 * 1024 * 1024;

export interface Look {
  columns: string[];
  rows: Record<string, unknown>[];
  /** Are these all rows of the file? */
  isAll: boolean;
}

export function formatOf(name: string): Format {
  const ending = name.slice(name.lastIndexOf('.') + 1).toLowerCase();
  if (SHEETS.has(ending)) throw new Error('Spreadsheets are not read: save it as “CSV UTF-8” (in Excel: File, Save As) and take that file.');
  const found = Object.hasOwn(ENDINGS, ending) ? ENDINGS[ending] : undefined;
  if (!found) throw new Error(`${name} is no file of ours. Known: .csv, .jsonl, .json and .parquet.`);
  return found;
}

/** What a set made from it could be called. */
export const nameOf = (file: string): string => file.replace(/\.\w+$/, '').replaceAll(/[\p{Cc}]/gu, '').trim().slice(0, 200) || 'Test set';

/** As much of the text as is needed for a look; null where the page cannot look into it. */
export async function headOf(file: File): Promise<{ text: string; whole: boolean } | null> {
  const format = formatOf(file.name);
  if (format === 'parquet') return null;
  const most = format === 'json' ? WHOLE_JSON : HEAD;
  const whole = file.size <= most;
  if (format === 'json' && !whole) return null;
  const bytes = await (whole ? file : file.slice(0, most)).arrayBuffer();
  if (new Uint8Array(bytes, 0, Math.min(2, bytes.byteLength)).join() === '80,75') formatOf('.xlsx'); // An archive, whatever it is called.
  try {
    // A character at the end may be cut: as a stream, it is waited with.
    return { text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes, { stream: !whole }), whole };
  } catch {
    throw new Error('This is not UTF-8. Save the file with that encoding.');
  }
}

/** The first rows of a text; an Error names the line that is wrong. */
export function look(format: Exclude<Format, 'parquet'>, text: string, { types, whole }: { types: Types; whole: boolean }): Look {
  if (format === 'csv') {
    const { columns, rows } = readCsv(text, { types, whole, most: MOST + 1 });
    return { columns, rows: rows.slice(0, MOST), isAll: whole && rows.length <= MOST };
  }
  const values = format === 'json' ? fromJson(text) : fromLines(text, whole);
  const rows = values.slice(0, MOST).map(rowOf);
  return { columns: [...new Set(rows.flatMap((row) => Object.keys(row)))], rows, isAll: whole && values.length <= MOST };
}

function fromLines(text: string, whole: boolean): unknown[] {
  const lines = text.replace(/^\uFEFF/, '').split('\n');
  if (!whole) lines.pop();
  const found: unknown[] = [];
  for (const [place, line] of lines.entries()) {
    if (found.length > MOST) break;
    if (!line.trim()) continue;
    try {
      found.push(JSON.parse(line));
    } catch {
      throw new Error(`Line ${place + 1}: this is not JSON.`);
    }
  }
  return found;
}

/** A list of rows, `{"rows": …}`, or Agenta's `{"data": {"testcases": …}}`. */
function fromJson(text: string): unknown[] {
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch {
    throw new Error('The file is not JSON. Is it one object per line? Then call it .jsonl.');
  }
  if (isObject(value) && Array.isArray(value.rows)) return value.rows;
  if (isObject(value) && isObject(value.data) && Array.isArray(value.data.testcases)) {
    return value.data.testcases.map((one: unknown) => (isObject(one) && isObject(one.data) ? one.data : one));
  }
  if (Array.isArray(value)) return value;
  throw new Error('The file is no list of rows.');
}

/** What is no object is wrapped, as the server will. */
function rowOf(value: unknown): Record<string, unknown> {
  if (!isObject(value)) return isMessages(value) ? { messages: value } : { value };
  return Object.fromEntries(Object.entries(value).filter(([name]) => !/^__(id|dedup_id|flags|tags|meta)__$/.test(name)));
}
