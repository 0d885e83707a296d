/**
 * Preview of a file before its import: format and first rows. Includes a CSV parser with the rules of the server,
 * which parses the file again.
 */
import { isObject } from '@/components/forms/json-schema';
import { pluralize } from '@/lib/format';
import { isMessages, isScript, isSingleMessage } from './cell-messages';

export type Format = 'jsonl' | 'json' | 'csv' | 'parquet';

/** Content type by format. */
export const MEDIA_TYPES: Readonly<Record<Format, string>> = {
  jsonl: 'application/x-ndjson',
  json: 'application/json',
  csv: 'text/csv',
  parquet: 'application/vnd.apache.parquet',
};
const FORMAT_BY_EXTENSION: Readonly<Record<string, Format>> = {
  jsonl: 'jsonl',
  ndjson: 'jsonl',
  json: 'json',
  csv: 'csv',
  tsv: 'csv',
  parquet: 'parquet',
  pq: 'parquet',
};
const SPREADSHEET_EXTENSIONS: ReadonlySet<string> = new Set(['xlsx', 'xlsm', 'xls', 'ods']);
export const ACCEPTED = Object.keys(FORMAT_BY_EXTENSION)
  .map((extension) => `.${extension}`)
  .join(',');

export const MAX_PREVIEW_ROWS = 20;
const PREVIEW_BYTES = 256 * 1024;
/** JSON files are parsed whole, up to this size. */
const MAX_JSON_BYTES = 16 * 1024 * 1024;

export interface FilePreview {
  columns: string[];
  rows: Record<string, unknown>[];
  /** Whether these are all rows. */
  isAll: boolean;
}

export function fileFormat(name: string): Format {
  const extension = name.slice(name.lastIndexOf('.') + 1).toLowerCase();
  if (SPREADSHEET_EXTENSIONS.has(extension))
    throw new Error(
      'Spreadsheets are not supported. Save the file as “CSV UTF-8” (in Excel: File > Save As) and import that.',
    );
  const format = Object.hasOwn(FORMAT_BY_EXTENSION, extension) ? FORMAT_BY_EXTENSION[extension] : undefined;
  if (!format) throw new Error(`Unsupported file type: ${name}. Use .csv, .jsonl, .json or .parquet.`);
  return format;
}

/** Default name of a test set. */
export const testsetName = (file: string): string =>
  file
    .replace(/\.\w+$/, '')
    .replaceAll(/[\p{Cc}]/gu, '')
    .trim()
    .slice(0, 200) || 'Test set';

/** The text needed for a preview; null if the format has none. */
export async function readFileHead(file: File): Promise<{ text: string; isComplete: boolean } | null> {
  const format = fileFormat(file.name);
  if (format === 'parquet') return null;
  const maxBytes = format === 'json' ? MAX_JSON_BYTES : PREVIEW_BYTES;
  const isComplete = file.size <= maxBytes;
  if (format === 'json' && !isComplete) return null;
  const bytes = await (isComplete ? file : file.slice(0, maxBytes)).arrayBuffer();
  // "PK" begins a ZIP archive, most likely a spreadsheet: throw the error for those.
  if (new Uint8Array(bytes, 0, Math.min(2, bytes.byteLength)).join() === '80,75') fileFormat('.xlsx');
  try {
    // Stream mode: the last character may be cut.
    return {
      text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes, { stream: !isComplete }),
      isComplete,
    };
  } catch {
    throw new Error('The file is not UTF-8. Save it with UTF-8 encoding.');
  }
}

/** First rows of a text. Throws an Error that names the line. */
export function previewFile(
  format: Exclude<Format, 'parquet'>,
  text: string,
  { types, isComplete }: { types: CellTypes; isComplete: boolean },
): FilePreview {
  if (format === 'csv') {
    const { columns, rows } = parseCsv(text, { types, isComplete, maxRows: MAX_PREVIEW_ROWS + 1 });
    return { columns, rows: rows.slice(0, MAX_PREVIEW_ROWS), isAll: isComplete && rows.length <= MAX_PREVIEW_ROWS };
  }
  const values = format === 'json' ? parseJsonArray(text) : parseJsonLines(text, isComplete);
  const rows = values.slice(0, MAX_PREVIEW_ROWS).map(toPreviewRow);
  return {
    columns: [...new Set(rows.flatMap((row) => Object.keys(row)))],
    rows,
    isAll: isComplete && values.length <= MAX_PREVIEW_ROWS,
  };
}

function parseJsonLines(text: string, isComplete: boolean): unknown[] {
  const lines = text.replace(/^\uFEFF/, '').split('\n');
  if (!isComplete) lines.pop();
  const values: unknown[] = [];
  for (const [index, line] of lines.entries()) {
    if (values.length > MAX_PREVIEW_ROWS) break;
    if (!line.trim()) continue;
    try {
      values.push(JSON.parse(line));
    } catch {
      throw new Error(`Line ${index + 1}: invalid JSON.`);
    }
  }
  return values;
}

/** A list of rows, `{"rows": …}`, or Agenta's `{"data": {"testcases": …}}`. */
function parseJsonArray(text: string): unknown[] {
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch {
    throw new Error('The file is not valid JSON. If it has one object per line, rename it to .jsonl.');
  }
  if (isObject(value) && Array.isArray(value.rows)) return value.rows;
  if (isObject(value) && isObject(value.data) && Array.isArray(value.data.testcases)) {
    return value.data.testcases.map((row: unknown) => (isObject(row) && isObject(row.data) ? row.data : row));
  }
  if (Array.isArray(value)) return value;
  throw new Error('The file must contain a list of rows.');
}

/** Convert a value to a row, as the server does: wraps anything but an object, and drops reserved columns. */
function toPreviewRow(value: unknown): Record<string, unknown> {
  if (!isObject(value)) return isMessages(value) ? { messages: value } : { value };
  return Object.fromEntries(
    Object.entries(value).filter(([name]) => !/^__(id|dedup_id|flags|tags|meta)__$/.test(name)),
  );
}

export type CellTypes = 'auto' | 'text';

export interface CsvTable {
  columns: string[];
  rows: Record<string, unknown>[];
  delimiter: string;
}

interface CsvLine {
  cells: string[];
  /** 1-based number of its first line in the file. */
  line: number;
}

const DELIMITERS = [',', ';', '\t', '|'];
/** Names that are not data columns. */
const RESERVED_NAMES: ReadonlySet<string> = new Set([
  '__id__',
  '__dedup_id__',
  '__flags__',
  '__tags__',
  '__meta__',
  '__empty__',
]);

const csvError = (line: number, message: string): Error => new Error(`Line ${line}: ${message}`);

/** Parse CSV, at most `maxRows` rows. `isComplete` is false if the text was cut: its last line is ignored. */
export function parseCsv(
  text: string,
  {
    types = 'auto',
    isComplete = true,
    maxRows = Infinity,
  }: { types?: CellTypes; isComplete?: boolean; maxRows?: number } = {},
): CsvTable {
  const body = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const delimiter = detectDelimiter(body);
  // All lines, because the last one may decide that a column is text.
  const [head, ...lines] = csvLines(body, delimiter, isComplete, Infinity);
  if (!head) throw csvError(1, 'missing header with the column names.');
  const names = head.cells.map((cell) => columnName(cell, head.line));
  const isData = head.cells.map((cell) => !RESERVED_NAMES.has(cell));
  const duplicate = names.find((name, index) =>
    names.some((other, otherIndex) => otherIndex < index && other === name && isData[otherIndex] === isData[index]),
  );
  if (duplicate !== undefined) throw csvError(head.line, `duplicate column “${duplicate}”.`);
  const isText = names.map(
    (_, index) => types === 'auto' && isTextColumn(lines.map(({ cells }) => cells[index] ?? '')),
  );
  const rows = lines.slice(0, maxRows).map(({ cells, line }) => {
    if (cells.length > names.length)
      throw csvError(line, `found ${pluralize(cells.length, 'cell')} for ${pluralize(names.length, 'column')}.`);
    return Object.fromEntries(
      cells.flatMap((cell, index) => {
        if (!isData[index] || (types === 'auto' && cell === '')) return [];
        const parse = isText[index] ? parseTextCell : parseCell;
        return [[names[index] ?? '', types === 'text' ? cell : parse(cell)]];
      }),
    );
  });
  return { columns: names.filter((_, index) => isData[index]), rows, delimiter };
}

/** Whether a column is text: a cell is nothing else. A literal that needs no quotes marks a column of mixed types. */
const isTextColumn = (cells: readonly string[]): boolean =>
  cells.some((cell) => cell !== '' && !isLiteral(cell) && typeof parseCell(cell) === 'string') &&
  !cells.some((cell) => isLiteral(cell) && isPlainText(parseCell(cell) as string));

const isLiteral = (cell: string): boolean => cell.startsWith('"') && typeof parseJson(cell) === 'string';

/** Whether the server writes a text as it is: it is not parsed as another value, nor run by a spreadsheet. */
const isPlainText = (text: string): boolean =>
  text !== '' &&
  parseCell(text) === text &&
  !/^[\t\r\n]|^\s*[=+\-@＝＋－＠]/.test(text) &&
  // oxlint-disable-next-line no-control-regex -- control characters are escaped
  !/[\x00-\x08\x0b-\x1f\x7f-\x9f]/.test(text);

/** Value of a non-empty cell in a column of text: a string, messages or a script. */
function parseTextCell(text: string): unknown {
  const value = parseCell(text);
  return text.startsWith('"') || isMessages(value) || isSingleMessage(value) || isScript(value) ? value : text;
}

/** Value of a non-empty cell. */
export function parseCell(text: string): unknown {
  if (text.startsWith('"')) {
    const value = parseJson(text);
    return typeof value === 'string' ? value : text;
  }
  if (text === 'null' || text === 'true' || text === 'false') return JSON.parse(text) as unknown;
  if (/^-?[0-9][0-9.eE+-]*$/.test(text)) return isCanonicalNumber(text) ? Number(text) : text;
  if (/^\s*[{[]/.test(text)) return parseJson(text) ?? text;
  return text;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Whether a text is a number in the server's notation. `007`, `1.50` and `1e5` stay texts. */
function isCanonicalNumber(text: string): boolean {
  if (/^(0|-?[1-9]\d*)$/.test(text)) return true;
  const value = parseJson(text);
  if (typeof value !== 'number' || !Number.isFinite(value) || !/[.e]/.test(text)) return false;
  return floatText(value) === text;
}

/** A float as the server's encoder writes it: shortest digits, with an exponent from 1e16 and below 1e-5. */
function floatText(value: number): string {
  const [digits = '0', power = '0'] = value.toExponential().split('e');
  const exponent = Number(power);
  if (value !== 0 && (exponent >= 16 || exponent < -5)) return `${digits}e${exponent}`;
  const plain = exponent < -4 || exponent > 20 ? value.toFixed(20).replace(/0+$/, '') : String(value);
  const signed = Object.is(value, -0) ? '-0' : plain;
  return signed.includes('.') ? signed : `${signed}.0`;
}

function columnName(cell: string, line: number): string {
  if (!cell.startsWith('"')) return cell;
  const name = parseJson(cell);
  if (typeof name !== 'string')
    throw csvError(line, `the column name ${cell.slice(0, 80)} starts with a quote but is not a JSON string.`);
  return name;
}

/** Most frequent delimiter of the header, outside of quotes. */
function detectDelimiter(text: string): string {
  const header =
    text
      .replace(/^[\r\n]+/, '')
      .replaceAll(/"(?:[^"]|"")*"/g, (match) => match.replaceAll(/[^\r\n]/g, 'x'))
      .split(/[\r\n]/, 1)[0] ?? '';
  const counts = DELIMITERS.map((delimiter) => header.split(delimiter).length - 1);
  const maxCount = Math.max(...counts);
  const candidates = DELIMITERS.filter((_, index) => counts[index] === maxCount);
  return candidates.length === 1 ? (candidates[0] ?? ',') : ',';
}

/** Split CSV into lines of cells. A quote opens only at the start of a cell; inside, a doubled quote stands for one. */
function csvLines(text: string, delimiter: string, isComplete: boolean, maxLines: number): CsvLine[] {
  const rows: CsvLine[] = [];
  let [index, line] = [0, 1];
  while (index < text.length && rows.length < maxLines) {
    const startLine = line;
    const cells: string[] = [];
    let wasQuoted = false;
    for (;;) {
      let cell: string;
      if (text[index] === '"') {
        wasQuoted = true;
        const end = closingQuote(text, index + 1);
        if (end === -1) {
          if (!isComplete) return rows;
          throw csvError(startLine, 'unclosed quote.');
        }
        const inner = text.slice(index + 1, end);
        line += inner.match(/\r\n|\r|\n/g)?.length ?? 0;
        cell = inner.replaceAll('""', '"');
        index = end + 1;
        if (index < text.length && text[index] !== delimiter && text[index] !== '\r' && text[index] !== '\n')
          throw csvError(startLine, 'unexpected text after a closing quote.');
      } else {
        const end = cellEnd(text, index, delimiter);
        cell = text.slice(index, end);
        index = end;
      }
      cells.push(cell);
      if (text[index] !== delimiter) break;
      index += 1;
    }
    if (index >= text.length && !isComplete) return rows;
    index += text.startsWith('\r\n', index) ? 2 : 1;
    line += 1;
    if (cells.length > 1 || cells[0] !== '' || wasQuoted) rows.push({ cells, line: startLine });
  }
  return rows;
}

function closingQuote(text: string, from: number): number {
  let index = text.indexOf('"', from);
  while (index !== -1 && text[index + 1] === '"') index = text.indexOf('"', index + 2);
  return index;
}

function cellEnd(text: string, from: number, delimiter: string): number {
  let index = from;
  while (index < text.length && text[index] !== delimiter && text[index] !== '\r' && text[index] !== '\n') index += 1;
  return index;
}
