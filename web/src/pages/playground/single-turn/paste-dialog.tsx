/** Add rows from JSON lines, JSON, CSV or spreadsheet cells, pasted or from a file. */
import { FileUp } from 'lucide-react';
import { useRef, useState, type ReactNode } from 'react';
import { Button } from '@/components/button';
import { Dialog } from '@/components/dialog';
import { TextArea } from '@/components/form-fields';
import { type JsonSchema, type Form, type Shape, formOf, isObject } from '@/components/forms/json-schema';
import { parseNumber } from '@/components/forms/values';
import { showError } from '@/components/toast';
import { pluralize } from '@/lib/format';
import type { RowInputValues } from './rows';

interface Props {
  schema: JsonSchema;
  isChat: boolean;
  /** Remaining capacity of the board. */
  maxRows: number;
  onClose: () => void;
  onAdd: (inputs: readonly RowInputValues[]) => void;
}

const MAX_FILE_BYTES = 8 * 1024 * 1024;

export function PasteDialog({ schema, isChat, maxRows, onClose, onAdd }: Props): ReactNode {
  const [text, setText] = useState('');
  const fileInput = useRef<HTMLInputElement>(null);
  const result = parsePaste(text, schema, isChat);
  const inputs = 'inputs' in result ? result.inputs : [];
  const isTooMany = inputs.length > maxRows;
  const add = (): void => {
    onAdd(inputs);
    onClose();
  };
  return (
    <Dialog
      open
      wide
      onClose={onClose}
      title="Paste rows"
      description="One row per line: plain text, JSON objects, or a table with input names in the first line."
    >
      <TextArea
        aria-label="Rows"
        dir="auto"
        placeholder={isChat ? 'What is the capital of Norway?\nAnd of Sweden?' : '{"text": "…"}\n{"text": "…"}'}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && inputs.length && !isTooMany) add();
        }}
        className="mt-2 block min-h-48 font-mono text-[13px]"
      />
      <div className="mt-3 flex flex-wrap items-center gap-2">
        <input
          ref={fileInput}
          type="file"
          hidden
          accept=".csv,.tsv,.json,.jsonl,.ndjson,.txt"
          onChange={(event) => {
            const picked = event.target.files?.[0];
            if (!picked) return;
            if (picked.size > MAX_FILE_BYTES) showError(new Error('The file is larger than 8 MB.'));
            else picked.text().then(setText, showError);
          }}
        />
        <Button onClick={() => fileInput.current?.click()}>
          <FileUp className="size-4" /> Choose file
        </Button>
        <p role="status" className="min-w-0 grow text-muted wrap-anywhere">
          {'error' in result ? (
            <span className="text-bad">{result.error}</span>
          ) : (
            inputs.length > 0 && describeRows(inputs.length, result.names)
          )}
          {isTooMany && (
            <span className="text-bad"> Too many rows: this board has room for {maxRows} more (limit: 1,000).</span>
          )}
        </p>
        <Button variant="main" disabled={!inputs.length || isTooMany} onClick={add}>
          {inputs.length ? `Add ${pluralize(inputs.length, 'row')}` : 'Add rows'}
        </Button>
      </div>
    </Dialog>
  );
}

const describeRows = (rows: number, names: readonly string[]): string =>
  `${pluralize(rows, 'row')}: ${names.slice(0, 6).join(', ')}${names.length > 6 ? ', …' : ''}`;

export type PasteResult = { inputs: RowInputValues[]; names: string[] } | { error: string };

/** Parse rows: JSON lines, a JSON list, or a table with a header. */
export function parsePaste(text: string, schema: JsonSchema, isChat: boolean): PasteResult {
  const trimmed = text.trim();
  if (!trimmed) return { inputs: [], names: [] };
  try {
    const inputs = /^[[{]/.test(trimmed)
      ? parseJsonRows(trimmed)
      : parseTableRows(text, formOf(schema, isChat ? ['messages'] : []), isChat);
    return { inputs, names: [...new Set(inputs.slice(0, 100).flatMap((row) => Object.keys(row)))] };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

function parseJsonRows(text: string): RowInputValues[] {
  if (text.startsWith('[')) {
    const list = tryParseJson(text);
    if (Array.isArray(list)) return list.map((item, index) => toRow(item, `Item ${index + 1}`));
  }
  const single = tryParseJson(text);
  if (single !== undefined) return [toRow(single, 'Item 1')];
  return text.split('\n').flatMap((line, index) => {
    if (!line.trim()) return [];
    const value = tryParseJson(line);
    if (value === undefined) throw new Error(`Line ${index + 1}: invalid JSON.`);
    return [toRow(value, `Line ${index + 1}`)];
  });
}

function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Convert a value to a row: an object of inputs, or `{"messages", "inputs"}` as in exports. */
function toRow(value: unknown, source: string): RowInputValues {
  if (!isObject(value)) throw new Error(`${source}: must be a JSON object.`);
  if (!isObject(value.inputs)) return value;
  return { ...value.inputs, ...(Array.isArray(value.messages) ? { messages: value.messages } : {}) };
}

function parseTableRows(text: string, form: Form, isChat: boolean): RowInputValues[] {
  const table = parseCells(text);
  const head = (table[0] ?? []).map((name) => name.trim());
  const shapes = new Map(form.fields.map(({ name, shape }) => [name, shape]));
  const first = isChat ? 'messages' : form.fields[0]?.name;
  const isKnown = head.some((name) => shapes.has(name) || (isChat && name === 'messages'));
  // Lines without a header become the first input.
  if (head.length === 1 && !isKnown && first && !form.open)
    return table.map(([cell = '']) => ({ [first]: cellValue(cell, shapes.get(first), first === 'messages') }));
  const unknownName = head.find((name) => !shapes.has(name) && !(isChat && name === 'messages'));
  if (unknownName !== undefined && !form.open)
    throw new Error(`Unknown input “${unknownName}”. The first line must contain input names.`);
  return table.slice(1).map((line) =>
    Object.fromEntries(
      head.flatMap((name, index) => {
        const cell = line[index] ?? '';
        // An empty cell is unset, so that the default applies.
        return cell === '' ? [] : [[name, cellValue(cell, shapes.get(name), isChat && name === 'messages')]];
      }),
    ),
  );
}

function cellValue(cell: string, shape: Shape | undefined, isMessages: boolean): unknown {
  if (isMessages) {
    const list = cell.trim().startsWith('[') ? tryParseJson(cell) : undefined;
    return Array.isArray(list) ? list : [{ role: 'user', content: cell }];
  }
  switch (shape?.kind) {
    case 'text':
      return cell;
    case 'number':
      return parseNumber(cell, shape.isInteger) ?? cell;
    case 'switch':
      return /^(true|yes|1|on)$/i.test(cell.trim()) ? true : /^(false|no|0|off)$/i.test(cell.trim()) ? false : cell;
    case 'choice':
      return shape.options.find((option) => String(option) === cell) ?? cell;
    default:
      return tryParseJson(cell) ?? cell;
  }
}

/** Cells of CSV (RFC 4180), or tab-separated as spreadsheets copy them. */
export function parseCells(text: string): string[][] {
  const separator = (text.split('\n', 1)[0] ?? '').includes('\t') ? '\t' : ',';
  const lines: string[][] = [];
  let line: string[] = [];
  let cell = '';
  let isQuoted = false;
  const endCell = (): void => {
    line.push(cell);
    cell = '';
  };
  const endLine = (): void => {
    endCell();
    if (line.length > 1 || line[0] !== '') lines.push(line);
    line = [];
  };
  for (let index = 0; index < text.length; index++) {
    const char = text[index] ?? '';
    if (isQuoted) {
      if (char !== '"') cell += char;
      else if (text[index + 1] === '"') {
        cell += '"';
        index += 1;
      } else isQuoted = false;
    } else if (char === '"' && cell === '') isQuoted = true;
    else if (char === separator) endCell();
    else if (char === '\n') endLine();
    else if (char !== '\r') cell += char;
  }
  endLine();
  return lines;
}
